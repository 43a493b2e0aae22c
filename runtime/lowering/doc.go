// Package lowering turns a portable graph into the form that backends execute: a flat list of steps on values, and,
// once the shapes of the inputs are bound, everything that follows from the shapes. Its decisions hold for every
// machine. The choice of kernels and tiles, and of the values to keep near the arithmetic, is the backend's.
//
//	ir.Graph ── Lower ──▶ Program ── Bind ──▶ Binding ── the backend ──▶ executable over a Frame
//
// Lower first lets values of float16 and bfloat16 be float32, for a backend that computes in that (widen.go). It folds
// constants, replaces Blocks and operators that the backend does not implement by their bodies, makes
// programs of the subgraphs of If, Loop and Scan, and carries facts along time through the steps. The backend tells
// which operators it implements (Backend), and stores its choice in the step.
//
// Bind carries shapes, element types and the lengths of sequences through the steps. It computes the values that follow
// from shapes alone, so that a backend sees no steps that only compute sizes. It binds branches, and the bodies of
// loops for as many iterations as their shapes differ. It finds the readers and the lifetimes of values.
//
// TimeMajor chooses the layout of sequences. Where steps look along time, sequences become rows, and the steps are
// replaced by steps on rows; layout.go explains it. The new steps follow from facts along time and from the
// descriptions of operators. The backend tells which of them it computes (RowBackend).
//
// The common parts of executables are here, too. A Frame holds the values during a run, and tells who owns a result.
// Kernels ask for the Slot of a value when they are bound, and read and write its elements there in each run. A
// Control runs If, Loop and Scan by executables that the backend makes of their subgraphs. Lives and Place plan the
// memory of the values between a backend's units of execution. Frame.Evaluate computes any step as package ops defines
// it. Package internal/toy is a whole backend in a few hundred lines.
//
// An executable and those within it share an account of their memory (memory.go), in a budget of the caller's or of
// Config.MaxMemory. What they hold (Make, Frame.Hold) and what their runs make (Frame.Take) is charged to it before it
// is allocated. Constants, and values that follow from shapes, have budgets of their own (fold.go).
//
// The package imports internal/ram, ir, ir/tensor, ops, ops/essm and runtime (for the contract with backends). It
// imports no pass, so that a service that embeds a backend links no pass either. Its invariants: a Program is
// immutable once it is made, and may be used by several goroutines. A Binding belongs to one executable, and nothing but
// its account changes. Both depend on the graph, the shapes and the room for tables, and not on the content of inputs.
package lowering
