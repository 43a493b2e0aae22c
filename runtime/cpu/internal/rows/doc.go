// Package rows implements row operators, which compute each row (one step of time of one sample) by itself. Most of
// them are products with constant weights. They are parts of regions.
//
// The package imports ir, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// Its invariants: each operator is registered (record.Register) in the file of its kernel; a kernel is made for one
// binding, uses only the memory of its record.Workspace and record.Call while it runs, and gives the same answer on any
// number of threads.
package rows
