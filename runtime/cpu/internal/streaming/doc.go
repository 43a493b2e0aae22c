// Package streaming implements streaming operators, which go step by step outside of regions, or sum sequences up.
//
// The package imports ir, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// Its invariants: each operator is registered (record.Register) in the file of its kernel; a kernel is made for one
// binding, uses only the memory of its record.Workspace and record.Call while it runs, and gives the same answer on any
// number of threads.
package streaming
