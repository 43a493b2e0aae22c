// Package integers has tensor kernels for quantized tensors: products and convolutions of bytes with exact sums,
// tables of bytes, and quantization.
//
// The comment of package tensors has its imports and its invariants.
package integers
