// Package record describes to the CPU backend how it can run each operator: one record per operator, and the kinds
// of implementation that records refer to. The packages beside it implement the kinds and register records; regions
// and the executor look them up.
//
// The package imports ir, ops, runtime, runtime/lowering and runtime/cpu/kernel. Its invariants: records are
// registered when packages are initialised, and never change afterwards; several files may register kinds of one
// operator, but each kind once; kernels see a run only through Execution, Call and Workspace, and depend on neither regions nor the executor.
package record
