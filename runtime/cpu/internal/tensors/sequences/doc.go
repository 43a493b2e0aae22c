// Package sequences has tensor kernels for recurrent layers, states, and lists of tensors.
//
// Package tensors states what it imports and what holds in it.
package sequences
