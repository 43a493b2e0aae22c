// Package reductions has tensor kernels for operators along axes: reductions, positions of extremes, sorts,
// running sums, softmax and norms.
//
// The comment of package tensors has its imports and its invariants.
package reductions
