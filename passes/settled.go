package passes

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Settled are the settled values of a graph (ops.SettledOf). A pass may use them where it accepts constants, if it does
// not read their elements: it writes as nodes what it would compute.
type Settled map[*ir.Value]bool

// SettledOf returns the settled values of g, whose nodes are sorted.
func SettledOf(c *Context, g *ir.Graph) Settled { return ops.SettledOf(g, ir.NewPacer(c.Check)) }

// VariesAlong reports whether the type of v, a tensor of floats, lets it be broadcast to a rank with n elements along
// one axis, or one, and the same ones along the others.
func VariesAlong(v *ir.Value, rank, axis int, n int64) bool {
	shape := v.Shape()
	if !v.Elem().IsFloat() || len(shape) > rank || !ops.Settles(v) {
		return false
	}
	for i, d := range shape {
		if at := i + rank - len(shape); !d.Equal(ir.Const(1)) && (at != axis || !d.Equal(ir.Const(n))) {
			return false
		}
	}
	return true
}

// Fixed reports whether v is a constant or settled.
func (s Settled) Fixed(v *ir.Value) bool { return v.Const != nil || s[v] }

// origin says of what values that are not all constant follow, for notes.
func (s Settled) origin(values ...*ir.Value) string {
	for _, v := range values {
		if v != nil && v.Const == nil && !s[v] {
			return "are computed at run time"
		}
	}
	return "follow from parameters, whose numbers decide nothing"
}

// AllConst reports whether all values that are there are constants, so that a rule may compute from their elements.
func AllConst(values ...*ir.Value) bool {
	for _, v := range values {
		if v != nil && v.Const == nil {
			return false
		}
	}
	return true
}
