// Package pooling has tensor kernels for pools over windows, of floats and of bytes.
//
// Package tensors states what it imports and what holds in it.
package pooling
