// Package moves has tensor kernels for operators that move elements: transposes, gathers and scatters, slices,
// concatenations and resizing.
//
// Package tensors states what it imports and what holds in it.
package moves
