// Package recurrence implements recurrences: systems that carry a state from one step of time to the next. Their forms
// are scan (step by step), chunked (convolutions inside of tiles), fft and direct (convolutions of whole sequences).
//
// The package imports ir, ops, runtime/lowering, runtime/cpu/kernel, and the packages record and windowed.
//
// Its invariants: each operator is registered (record.Register) in the file of its kernel; a kernel is made for one
// binding, uses only the memory of its record.Workspace and record.Call while it runs, and gives the same answer on any
// number of threads.
package recurrence
