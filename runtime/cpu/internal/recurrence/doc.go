// Package recurrence implements recurrences: systems that carry a state from one step of time to the next, as a scan,
// in chunks, by FFT or directly.
//
// It imports ir, ops, runtime/lowering, runtime/cpu/kernel, and the packages record and windowed.
//
// What always holds: each operator is registered (record.Register) in the file that has its kernel; a kernel is made for one
// binding, takes no memory while it runs but what its record.Workspace and record.Call give, and gives the same answer on any
// number of threads.
package recurrence
