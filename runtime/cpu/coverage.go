package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Ways in which the backend computes an operator, as Way gives them.
const (
	ByKernel = "kernel"    // there is a kernel for the element types and attributes that matter
	ByBody   = "body"      // step by step, as its body or its subgraphs say, each step in its own way
	AtBind   = "bound"     // known as soon as the inputs' shapes are
	Upgraded = "upgraded"  // an earlier version, which readers bring to the newest
	ByEval   = "evaluated" // as ops defines it, in float64 and on one thread: right, and slow on large tensors
)

// atBind are operators that read no content.
var atBind = map[string]bool{"Constant": true, "Shape": true, "Size": true}

// Way says how the backend computes nodes of an operator at best. What does not fit a kernel (other element types, weights that
// are computed) is evaluated; a profile says what each node of a model came to.
func Way(op *ir.Op) string {
	key := op.FullName()
	switch {
	case atBind[key]:
		return AtBind
	case !ops.Newest(op):
		if op.Body != nil {
			return Upgraded
		}
		return ByEval
	case rows[key] != nil, cores[key] != nil, wholes[key] != nil, spans[key] != nil, kernels[key] != nil:
		return ByKernel
	case op.Body != nil && !strict[key], key == "If", key == "Loop", key == "Scan", key == "essm.Block":
		return ByBody
	}
	return ByEval
}
