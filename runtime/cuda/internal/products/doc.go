// Package products registers the records of operators that multiply matrices: dense layers, MatMul and its
// relatives, Einsum, and convolutions.
//
// A step runs on tensor cores if its axes can be grouped into rows, columns and one dimension to sum over, with any
// strides, and further dimensions that count matrices. Numbers of 8 and 16 bits are first laid out along the summed
// dimension if they are not already: by a kernel, or once if they are constant. Other sums, small sizes and other
// types are computed one result at a time. Constant weights are laid out once, as rows along the sum that start at
// multiples of 16 bytes; float64 weights are rounded then.
//
// Its invariant: the choice of kernel depends only on shapes, types and constants.
//
// The package imports ir, ir/tensor, ops, ops/std, runtime/lowering, runtime/cuda/kernel and
// runtime/cuda/internal/record.
package products
