// Package streaming implements streaming operators: those that go step by step beside regions, or sum sequences up.
//
// It imports ir, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// What always holds: each operator is registered (record.Register) in the file that has its kernel; a kernel is made for one
// binding, takes no memory while it runs but what its record.Workspace and record.Call give, and gives the same answer on any
// number of threads.
package streaming
