// Package windowed implements windowed operators, which look a bounded number of steps back and ahead along time. They
// work on rows, as parts of regions.
//
// The package imports ir, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// Its invariants: each operator is registered (record.Register) in the file of its kernel; a kernel is made for one
// binding, uses only the memory of its record.Workspace and record.Call while it runs, and gives the same answer on any
// number of threads.
package windowed
