// Package lowering brings a portable graph into the form that backends execute: a flat list of steps on values, and, once the
// shapes of the inputs are bound, all that follows from them. What it decides holds for every machine; which kernels run, how
// work is cut into tiles and what is kept near the arithmetic is a backend's to decide.
//
//	ir.Graph ── Lower ──▶ Program ── Bind ──▶ Binding ── the backend ──▶ executable
//
// Lower folds constants, puts the bodies of Blocks and of operators that the backend does not implement in their place, makes
// programs of the subgraphs of If, Loop and Scan, and carries facts along time through the steps. The backend says which
// operators it implements (Backend), and keeps its choice in the step.
//
// Bind carries shapes, element types and the lengths of sequences through the steps, and computes what follows from shapes
// alone, so that a backend sees no step that only computes sizes. It binds branches, and the bodies of loops for as many
// iterations as their shapes differ, and finds who reads what, and for how long.
//
// It imports ir, ir/tensor, ops and runtime (for the contract with backends), and no pass, so that a service that embeds a
// backend links no pass either. What always holds: a Program and a Binding are immutable once they are made; what is done
// depends on the graph and the shapes alone; no content that a run gives is looked at.
package lowering
