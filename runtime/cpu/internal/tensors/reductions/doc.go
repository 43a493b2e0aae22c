// Package reductions has tensor kernels for operators along axes: reductions, positions of extremes, sorts,
// running sums, softmax and norms.
//
// Package tensors states what it imports and what holds in it.
package reductions
