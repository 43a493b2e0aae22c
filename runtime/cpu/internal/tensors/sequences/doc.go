// Package sequences has tensor kernels for recurrent layers, states, and lists of tensors.
//
// The comment of package tensors has its imports and its invariants.
package sequences
