package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Ways in which the backend computes an operator, as Way gives them.
const (
	ByKernel = "kernel"    // there is a kernel, for the element types and attributes that matter
	ByBody   = "body"      // step by step, as its body writes it, each step in its own way
	ByEval   = "evaluated" // as ops defines it, in float64: right, and slow on large tensors
)

// Way says how the backend computes nodes of an operator at best. What does not fit a kernel (other element types, weights that
// are computed) is evaluated; a profile says what each node of a model came to. Versions of operators that are not the newest
// are evaluated; reading an ONNX file brings nodes to the newest.
func Way(op *ir.Op) string {
	key := op.FullName()
	if ops.Newest(op) && (rows[key] != nil || cores[key] != nil || wholes[key] != nil || spans[key] != nil || kernels[key] != nil) {
		return ByKernel
	}
	if op.Body != nil && !strict[key] {
		return ByBody
	}
	return ByEval
}
