// Package elementwise registers the records of operators that compute each element from the elements at the same
// place: all operators with an expression (ir.Op.Element), on the types that kernels support, and conversions of
// types. A fusion computes several of them in one kernel and keeps the values in between in registers.
//
// Its invariant: an operator's result is rounded to its element type, fused or not, so that fusion changes no bit.
//
// The package imports ir, ir/scalar, ir/tensor, ops, runtime/lowering, runtime/cuda/kernel and
// runtime/cuda/internal/record.
package elementwise
