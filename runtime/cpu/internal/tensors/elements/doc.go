// Package elements has tensor kernels for operators on elements that are not expressions of float32:
// comparisons, logic, integers, selections and casts.
//
// Package tensors states what it imports and what holds in it.
package elements
