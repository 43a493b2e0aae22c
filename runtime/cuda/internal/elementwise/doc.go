// Package elementwise registers the records of operators that compute each element from the elements at the same place: all
// that state themselves as an expression (ir.Op.Element), on types that kernels compute, and conversions of types. A fusion
// computes several of them as one kernel, with values in between in registers.
//
// Always: an operator's result is rounded to its element type, fused or not, so that fusion changes no bit.
//
// The package imports ir, ir/scalar, ir/tensor, ops, runtime/lowering, runtime/cuda/kernel and runtime/cuda/internal/record.
package elementwise
