package passes

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Settled are the values of a graph that follow only from parameters and constants: the parameters, and the results of
// deterministic operators on settled values and constants. The lowering computes them once for each content of the
// parameters. A pass may use them where it accepts constants, if it does not read their elements: it writes as nodes what
// it would compute. Parameters that runs update are not among them. A graph without parameters has nil.
type Settled map[*ir.Value]bool

// SettledOf returns the settled values of g, whose nodes are sorted.
func SettledOf(c *Context, g *ir.Graph) Settled {
	if len(g.Parameters) == 0 {
		return nil
	}
	s := make(Settled, len(g.Parameters))
	for _, v := range g.Parameters {
		s[v] = true
	}
	for _, u := range g.Updates {
		delete(s, u.Parameter)
	}
	for _, n := range g.Nodes {
		c.Check()
		s.add(n)
	}
	return s
}

// add adds the results of a node, if they are settled.
func (s Settled) add(n *ir.Node) {
	if n.Op.Random || n.Op.Eval == nil && n.Op.Body == nil || len(n.Subgraphs()) > 0 {
		return
	}
	for _, v := range n.Outputs {
		if v != nil && !Settles(v) {
			return
		}
	}
	for _, v := range n.Inputs {
		if v != nil && v.Const == nil && !s[v] {
			return
		}
	}
	for _, v := range n.Outputs {
		if v != nil {
			s[v] = true
		}
	}
}

// Settles reports whether the type of v lets the lowering compute it in advance, and also what has as many elements.
func Settles(v *ir.Value) bool {
	t, ok := v.TensorType()
	if !ok || t.NoRank {
		return false
	}
	shape, known := t.Shape.Known()
	size, err := tensor.Size(shape)
	return known && err == nil && size <= ops.MaxFolded
}

// VariesAlong reports whether the type of v, a tensor of floats, lets it be broadcast to a rank with n elements along one
// axis, or one, and the same ones along the others.
func VariesAlong(v *ir.Value, rank, axis int, n int64) bool {
	shape := v.Shape()
	if !v.Elem().IsFloat() || len(shape) > rank || !Settles(v) {
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
