// Package record holds what the CPU backend knows of operators: one record each, and the kinds of implementation that records
// name. Packages beside it implement the kinds and register records; regions and the executor look them up.
//
// It imports ir, ops, runtime, runtime/lowering and runtime/cpu/kernel. What always holds: records are registered when packages
// are initialised, one per operator, and never change afterwards; what a kernel sees of a run is Execution, Call and Workspace,
// so that kernels know neither regions nor the executor.
package record
