// Package products has tensor kernels for products of matrices, and what is made of them or takes as long:
// attention, rotations, transforms, samples of grids.
//
// Package tensors states what it imports and what holds in it.
package products
