// Package windowed implements windowed operators: those that look a bounded number of steps back and ahead along time,
// on rows, as parts of regions.
//
// It imports ir, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// What always holds: each operator is registered (record.Register) in the file that has its kernel; a kernel is made for one
// binding, takes no memory while it runs but what its record.Workspace and record.Call give, and gives the same answer on any
// number of threads.
package windowed
