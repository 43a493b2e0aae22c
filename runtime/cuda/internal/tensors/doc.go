// Package tensors registers the records of operators that move elements: copies, views, slices, pads, gathers,
// scatters, and running sums.
//
// Its invariants: elements are moved as bits, unless an operator computes with them. Updates of a scatter are
// applied in their order. A gather or scatter with an index out of range reads and writes nothing for it, and the
// run fails with an error.
//
// The package imports ir, ir/scalar, ir/tensor, ops, runtime/lowering, runtime/cuda/kernel and
// runtime/cuda/internal/record.
package tensors
