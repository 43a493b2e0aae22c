// Package products has the records of operators that multiply matrices: dense layers, MatMul and its relatives, sums of
// products by letters, and convolutions.
//
// Each becomes a product on tensor cores where its axes make rows, columns and one dimension that is summed over, of any
// distances, with further dimensions that count matrices. Numbers of 8 and 16 bits are laid out along that dimension before,
// where they do not lie so: by a kernel, or once where they are constant. Other sums, few numbers and other types are
// computed one result after the other. Constant weights are laid out once, as rows along the sum that begin at multiples of
// 16 bytes; weights in float64 are rounded then.
//
// Always: which kernel computes a step depends on shapes, types and constants alone.
//
// The package imports ir, ir/tensor, ops, ops/std, runtime/lowering, runtime/cuda/kernel and runtime/cuda/internal/record.
package products
