// Package record holds what the CPU backend knows of operators: one record each, and the kinds of implementation that
// records name. Packages beside it implement the kinds and register records; regions and the executor look them up.
//
// The package imports ir, ops, runtime, runtime/lowering and runtime/cpu/kernel. Its invariants: records are registered
// when packages are initialised, one per operator, and never change afterwards; kernels see a run through Execution,
// Call and Workspace alone, and know neither regions nor the executor.
package record
