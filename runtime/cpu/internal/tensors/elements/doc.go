// Package elements has tensor kernels for operators on elements that are not expressions of float32:
// comparisons, logic, integers, selections and casts.
//
// The comment of package tensors has its imports and its invariants.
package elements
