// Package tensors implements tensor kernels: operators that compute whole tensors at once.
//
// It imports ir, ops, runtime/lowering, runtime/cpu/kernel, and the packages record, elementwise, rows, streaming and
// windowed: the record of an operator that has kernels of several kinds stands with the one over whole tensors.
//
// What always holds: each operator is registered (record.Register) in the file that has its kernel; a kernel is made for one
// binding, takes no memory while it runs but what its record.Workspace and record.Call give, and gives the same answer on any
// number of threads.
package tensors
