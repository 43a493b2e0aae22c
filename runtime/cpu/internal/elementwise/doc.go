// Package elementwise implements operators of which each result follows from the numbers at the same place of the
// operands: alone, in fused kernels and in epilogues.
//
// An operator that has an expression (ir.Op.Element), and neither a body nor an entry here, is computed by the functions that
// its expression is made of, where package kernel has all of these.
//
// It imports ir, ir/scalar, ir/tensor, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// What always holds: each operator is registered (record.Register) in the file that has its kernel; a kernel is made for one
// binding, takes no memory while it runs but what its record.Workspace and record.Call give, and gives the same answer on any
// number of threads.
package elementwise
