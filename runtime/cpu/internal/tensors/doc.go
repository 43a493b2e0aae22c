// Package tensors implements tensor kernels: operators that compute whole tensors at once.
//
// It imports ir, ops, ops/ml, runtime/lowering, runtime/cpu/kernel, and the packages record, elementwise, rows, streaming and
// windowed: the record of an operator that has kernels of several kinds stands with the one over whole tensors.
//
// What always holds: each operator is registered (record.Register) in the file that has its kernel. A kernel is made
// for one binding, and asks then for the slots of the values that it reads and writes. It takes no memory while it runs
// but what its record.Workspace and record.Call give, and gives the same answer on any number of threads.
// SequenceInsert alone reads values as they are, since sequences have no slots.
package tensors
