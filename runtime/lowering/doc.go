// Package lowering turns a portable graph into the form that backends execute: a flat list of steps on values, and,
// once the input shapes are bound, everything that follows from the shapes. Its decisions are valid on every
// machine. The backend chooses kernels, tiles, and which values to keep in registers and caches.
//
//	ir.Graph ── Lower ──▶ Program ── Bind ──▶ Binding ── the backend ──▶ executable over a Frame
//
// Lower first widens float16 and bfloat16 values to float32 if the backend asks for it (widen.go). It folds
// constants, replaces Blocks and operators that the backend does not implement by their bodies, makes programs of
// the subgraphs of If, Loop and Scan, and carries facts along time through the steps. The backend reports which
// operators it implements (Backend), and stores its choice in the step.
//
// Bind derives shapes, element types and the lengths of sequences for all steps. It computes the values that follow
// from shapes only, so that a backend never sees steps that just compute sizes. It binds branches, and the bodies of
// loops for as many iterations as have different shapes. It finds the readers and the lifetimes of values.
//
// TimeMajor chooses the layout of sequences. Where steps look along time, sequences become rows, and the steps are
// replaced by steps on rows; layout.go explains this. The new steps follow from facts along time and from the
// descriptions of operators. The backend reports which of them it computes (RowBackend).
//
// Where a backend computes several steps at once, Follow finds the elementwise steps that can join a producer, and a
// Fusion composes their expressions (fusion.go). The backend decides by its limits and costs, and generates the code.
//
// The common parts of executables are here, too. A Frame has the values during a run, and records who owns a result.
// Kernels request the Slot of a value when they are bound, and read and write its elements there in each run. A
// Control runs If, Loop and Scan by executables that the backend makes of their subgraphs. Lives and Place plan the
// memory of the values between a backend's units of execution. Frame.Evaluate computes any step as package ops
// defines it. Package internal/toy is a complete backend in a few hundred lines.
//
// An executable and those within it share an account of their memory (memory.go), in a budget of the caller's or of
// Config.MaxMemory. Their tables (Make, Frame.Hold) and the tensors of their runs (Frame.Take) are charged to it
// before they are allocated. Constants, and values that follow from shapes, have budgets of their own (fold.go).
//
// The package imports internal/ram, ir, ir/scalar, ir/tensor, ops, ops/essm and runtime (for the contract with
// backends). It imports no pass, so a service that embeds a backend links no pass either. Its invariants: a Program
// does not change once it is made, and several goroutines may use it. A Binding belongs to one executable, and only
// its account changes. Both depend on the graph, the shapes and the memory available for tables, and not on the
// content of inputs.
package lowering
