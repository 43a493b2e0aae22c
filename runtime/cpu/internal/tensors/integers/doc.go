// Package integers has tensor kernels for quantized tensors: products and convolutions of bytes with exact sums,
// tables of bytes, and quantization.
//
// Package tensors states what it imports and what holds in it.
package integers
