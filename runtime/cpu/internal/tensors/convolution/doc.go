// Package convolution has tensor kernels for convolutions: products with panels of inputs, Winograd, one filter per channel, few frames,
// and transposed ones.
//
// Package tensors states what it imports and what holds in it.
package convolution
