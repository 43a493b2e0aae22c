// Package raise recognizes layers that an exporter has written in primitive operators, and replaces them by essm
// operators: state-space layers in the form of convolutions, transforms and recurrences, and the norms, activations
// and linear layers around them.
//
// It imports ir, ir/irtext, the operator packages, passes, and passes/lower, whose nodes it recognizes by lowering an
// operator again.
// It depends on neither file formats nor machines. A raised graph computes the same as before, to the tolerance of
// its new operators. Other parts of the graph do not change. A near miss leaves a note with the condition that
// failed. Each form is in its own file, with its cases in testdata.
package raise

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
)

// Pipeline returns the passes that run on an imported graph before passes.Pipeline, in order. Each pass states the
// reasons for its place.
func Pipeline() []*passes.Pass {
	return slices.Concat([]*passes.Pass{Exported}, convolutions, recurrences, layers)
}

// where identifies a node by its scope in the model, or by itself if it has none.
func where(n *ir.Node) string {
	if n.Scope != "" {
		return n.Scope
	}
	return n.String()
}

// missed records that node n resembles a form but was not raised, and why.
func missed(c *passes.Context, form string, n *ir.Node, why string, args ...any) {
	c.Note("%s: %v left as it is: %s", form, n, fmt.Sprintf(why, args...))
}

// nodesOf returns the set of a graph's nodes.
func nodesOf(g *ir.Graph) map[*ir.Node]bool {
	out := make(map[*ir.Node]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		out[n] = true
	}
	return out
}

// workOfWalk is the approximate work of a walk over a graph.
func workOfWalk(g *ir.Graph) int64 { return 64 * int64(len(g.Nodes)) }

// isOp reports whether v is the output of the named operator (a name as ir.Op.FullName returns it).
func isOp(v *ir.Value, name string) bool {
	return v != nil && v.Def != nil && v.Def.Op.FullName() == name
}

// slice is the range of a Slice along one axis.
type slice struct {
	axis           int
	from, to, step int64
}

// sliceOf reads a Slice along one axis with constant bounds.
func sliceOf(n *ir.Node) (s slice, ok bool) {
	if n.Op.FullName() != "Slice" {
		return s, false
	}
	s.step = 1
	axis := int64(0)
	for i, to := range []*int64{&s.from, &s.to, &axis, &s.step} {
		if n.In(i+1) == nil && to == &s.step {
			continue
		}
		x, ok := ops.ConstInts(n.In(i + 1))
		if !ok || len(x) != 1 {
			return s, false
		}
		*to = x[0]
	}
	var err error
	s.axis, err = ops.Axis(axis, len(n.In(0).Shape()))
	return s, err == nil
}

// count returns the first index that the slice takes from an axis of size of, and the number of indices.
func (s slice) count(of int64) (first, n int64) { return ops.SliceRange(s.from, s.to, s.step, of) }

// inverse returns the inverse of a permutation of axes.
func inverse(perm []int64) []int64 {
	back := make([]int64, len(perm))
	for i, a := range perm {
		back[a] = int64(i)
	}
	return back
}

// transposed returns v with its axes in the given order.
func transposed(b *ir.Builder, v *ir.Value, order []int64) *ir.Value {
	if slices.IsSorted(order) {
		return v
	}
	return b.Op("", "Transpose", []*ir.Value{v}, ir.A("perm", order))
}

// reversed returns v with one axis in the opposite order.
func reversed(b *ir.Builder, v *ir.Value, axis int) *ir.Value {
	return b.Op("", "Slice", []*ir.Value{v, b.Ints(-1), b.Ints(math.MinInt64), b.Ints(int64(axis)), b.Ints(-1)})
}

// typed returns a constant of the given element type.
func typed(b *ir.Builder, name string, elem tensor.DType, x []float64, shape ...int) *ir.Value {
	t, err := tensor.FromFloat64s(elem, x, shape...)
	if err != nil {
		b.Fail(err)
		return nil
	}
	return b.Const(name, t)
}

// directInput returns the index of a system's input D.
func directInput(op *ir.Op) int {
	if op == essm.DenseSSM {
		return 5
	}
	return 9
}

// origin follows v back through operators that only rearrange elements or change their type.
func origin(v *ir.Value) *ir.Value {
	for v != nil && v.Def != nil && v.Def.Op.Domain == "" {
		switch v.Def.Op.Name {
		case "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Identity":
			v = v.Def.In(0)
			continue
		}
		break
	}
	return v
}
