package regions

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

// NameOf identifies a node by its scope in the model, or by itself if it has none.
func NameOf(n *ir.Node) string {
	if n.Scope != "" {
		return n.Scope
	}
	return n.String()
}

// NoteMiss records that node n resembles a form but was not raised, and why.
func NoteMiss(c *passes.Context, form string, n *ir.Node, why string, args ...any) {
	c.Note("%s: %v left as it is: %s", form, n, fmt.Sprintf(why, args...))
}

// NodeSet returns the set of a graph's nodes.
func NodeSet(g *ir.Graph) map[*ir.Node]bool {
	out := make(map[*ir.Node]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		out[n] = true
	}
	return out
}

// WorkOfWalk is the approximate work of a walk over a graph.
func WorkOfWalk(g *ir.Graph) int64 { return 64 * int64(len(g.Nodes)) }

// IsOp reports whether v is the output of the named operator (a name as ir.Op.FullName returns it).
func IsOp(v *ir.Value, name string) bool {
	return v != nil && v.Def != nil && v.Def.Op.FullName() == name
}

// Slice is the range of a Slice along one axis.
type Slice struct {
	Axis           int
	From, To, Step int64
}

// AsSlice reads a Slice along one axis with constant bounds.
func AsSlice(n *ir.Node) (s Slice, ok bool) {
	if n.Op.FullName() != "Slice" {
		return s, false
	}
	s.Step = 1
	axis := int64(0)
	for i, to := range []*int64{&s.From, &s.To, &axis, &s.Step} {
		if n.In(i+1) == nil && to == &s.Step {
			continue
		}
		x, ok := ops.ConstInts(n.In(i + 1))
		if !ok || len(x) != 1 {
			return s, false
		}
		*to = x[0]
	}
	var err error
	s.Axis, err = ops.Axis(axis, len(n.In(0).Shape()))
	return s, err == nil
}

// Count returns the first index that the slice takes from an axis of size of, and the number of indices.
func (s Slice) Count(of int64) (first, n int64) { return ops.SliceRange(s.From, s.To, s.Step, of) }

// InverseOrder returns the inverse of a permutation of axes.
func InverseOrder(perm []int64) []int64 {
	back := make([]int64, len(perm))
	for i, a := range perm {
		back[a] = int64(i)
	}
	return back
}

// Transposed returns v with its axes in the given order.
func Transposed(b *ir.Builder, v *ir.Value, order []int64) *ir.Value {
	if slices.IsSorted(order) {
		return v
	}
	return b.Op("", "Transpose", []*ir.Value{v}, ir.A("perm", order))
}

// Reversed returns v with one axis in the opposite order.
func Reversed(b *ir.Builder, v *ir.Value, axis int) *ir.Value {
	return b.Op("", "Slice", []*ir.Value{v, b.Ints(-1), b.Ints(math.MinInt64), b.Ints(int64(axis)), b.Ints(-1)})
}

// Typed returns a constant of the given element type.
func Typed(b *ir.Builder, name string, elem tensor.DType, x []float64, shape ...int) *ir.Value {
	t, err := tensor.FromFloat64s(elem, x, shape...)
	if err != nil {
		b.Fail(err)
		return nil
	}
	return b.Const(name, t)
}

// DirectInput returns the index of a system's input D.
func DirectInput(op *ir.Op) int {
	if op == essm.DenseSSM {
		return 5
	}
	return 9
}

// Origin follows v back through operators that only rearrange elements or change their type.
func Origin(v *ir.Value) *ir.Value {
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

// DeadLog is the logarithm of an eigenvalue that represents 0.
const DeadLog = -1000
