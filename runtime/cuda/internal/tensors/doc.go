// Package tensors registers the records of operators that move elements: copies, views, slices, pads, gathers, scatters, and
// running sums.
//
// Always: elements are moved as bits, unless an operator computes with them. Updates of a scatter are applied in their order.
// An index of a gather or scatter that is beyond its dimension reads and writes nothing, and the run fails with an error.
//
// The package imports ir, ir/scalar, ir/tensor, ops, runtime/lowering, runtime/cuda/kernel and runtime/cuda/internal/record.
package tensors
