package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// Values that Way returns.
const (
	ByKernel = "kernel"    // by a kernel, for the usual element types and attributes
	ByBody   = "body"      // by its body or its subgraphs, whose nodes run in their own ways
	AtBind   = "bound"     // from the inputs' shapes, when they are bound
	Upgraded = "upgraded"  // not at all: an earlier version, which readers replace by the newest
	ByEval   = "evaluated" // as package ops defines it, in float64 and on one thread: slow on large tensors
)

// Way returns the best way in which the backend computes nodes of an operator. A node that does not fit a kernel,
// because of its element types or because its weights are computed, is evaluated; a profile shows the way of each
// node of a model.
func Way(op *ir.Op) string {
	r := record.For(op)
	switch {
	case op.OfShapes:
		return AtBind
	case !ops.Newest(op):
		if op.Body != nil {
			return Upgraded
		}
		return ByEval
	case slices.ContainsFunc(Kinds(op), func(kind string) bool { return kind != WayProgram }):
		return ByKernel
	case op.Body != nil && !r.Whole, r.Program != record.NoProgram:
		return ByBody
	}
	return ByEval
}

// Kinds returns the kinds of implementation that the backend has for an operator, as values of Implementation.Way, in
// order of preference. Elementwise operators may also be fused, or be epilogues of the node before them.
func Kinds(op *ir.Op) (names []string) {
	r := record.For(op)
	for _, k := range preference {
		if k.has != nil && k.has(op, r) {
			names = append(names, k.name)
		}
	}
	return names
}
