// Package convolution has tensor kernels for convolutions: products with panels of inputs, Winograd, one filter per channel, few frames,
// and transposed ones.
//
// The comment of package tensors has its imports and its invariants.
package convolution
