package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// Ways in which the backend computes an operator, as Way gives them.
const (
	ByKernel = "kernel"    // there is a kernel for the element types and attributes that matter
	ByBody   = "body"      // step by step, as its body or its subgraphs say, each step in its own way
	AtBind   = "bound"     // known as soon as the inputs' shapes are
	Upgraded = "upgraded"  // an earlier version, which readers bring to the newest
	ByEval   = "evaluated" // as ops defines it, in float64 and on one thread: right, and slow on large tensors
)

// Way says how the backend computes nodes of an operator at best. What does not fit a kernel (other element types, weights that
// are computed) is evaluated; a profile says what each node of a model came to.
func Way(op *ir.Op) string {
	r := record.For(op)
	switch {
	case record.Named(op).Shapes:
		return AtBind
	case !ops.Newest(op):
		if op.Body != nil {
			return Upgraded
		}
		return ByEval
	case slices.ContainsFunc(Kinds(op), func(kind string) bool { return kind != WayProgram }):
		return ByKernel
	case op.Body != nil && !r.Strict, r.Program != record.NoProgram:
		return ByBody
	}
	return ByEval
}

// Kinds names the kinds of implementation that the backend has for an operator, in the words of Implementation.Way and in the
// order in which they are preferred. Elementwise operators may also be fused, or done by the kernel of the node before them.
func Kinds(op *ir.Op) (names []string) {
	r, e := record.For(op), elementwise.Of(op)
	for _, k := range preference {
		if k.has(r, e) {
			names = append(names, k.name)
		}
	}
	return names
}
