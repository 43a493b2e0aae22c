// Package lowering brings a portable graph into the form that backends execute: a flat list of steps on values, and, once the
// shapes of the inputs are bound, all that follows from them. What it decides holds for every machine; which kernels run, how
// work is cut into tiles and what is kept near the arithmetic is a backend's to decide.
//
//	ir.Graph ── Lower ──▶ Program ── Bind ──▶ Binding ── the backend ──▶ executable over a Frame
//
// Lower folds constants, puts the bodies of Blocks and of operators that the backend does not implement in their place, makes
// programs of the subgraphs of If, Loop and Scan, and carries facts along time through the steps. The backend says which
// operators it implements (Backend), and keeps its choice in the step.
//
// Bind carries shapes, element types and the lengths of sequences through the steps, and computes what follows from shapes
// alone, so that a backend sees no step that only computes sizes. It binds branches, and the bodies of loops for as many
// iterations as their shapes differ, and finds who reads what, and for how long.
//
// TimeMajor chooses how sequences lie: where steps look along time, sequences become rows, and steps are made anew that work
// on rows; layout.go explains it. What a step does there follows from facts along time and from what operators say of
// themselves; the backend is asked whether it computes that (RowBackend).
//
// What executables have in common is here, too. A Frame holds the values during a run, and says who owns a result. A Control runs
// If, Loop and Scan by executables that the backend makes of their subgraphs: what is read and written per iteration, where
// results belong, what is bound while it runs. Lives and Place plan the memory that lies between a backend's units of execution.
// Program.Evaluate computes any step as ops defines it. The package internal/toy is a whole backend in a few hundred lines.
//
// It imports internal/ram, ir, ir/tensor, ops, ops/essm and runtime (for the contract with backends), and no pass, so that a service that
// embeds a backend links no pass either. What always holds: a Program and a Binding are immutable once they are made, and
// may be used by several goroutines; what they say depends on the graph and the shapes alone, and not on content that a run
// gives.
package lowering
