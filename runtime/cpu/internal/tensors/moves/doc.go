// Package moves has tensor kernels for operators that move elements: transposes, gathers and scatters, slices,
// concatenations and resizing.
//
// The comment of package tensors has its imports and its invariants.
package moves
