// Package pooling has tensor kernels for pools over windows, of floats and of bytes.
//
// The comment of package tensors has its imports and its invariants.
package pooling
