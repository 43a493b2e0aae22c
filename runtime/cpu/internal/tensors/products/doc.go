// Package products has tensor kernels for products of matrices, and what is made of them or takes as long:
// attention, rotations, transforms, samples of grids.
//
// The comment of package tensors has its imports and its invariants.
package products
