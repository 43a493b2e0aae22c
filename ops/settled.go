package ops

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// SettledOf returns the settled values of g, whose nodes are sorted: those that follow only from parameters and
// constants. They are the parameters that runs do not update, and the results of deterministic operators on settled
// values and constants. The lowering computes them once for each content of the parameters. A graph without parameters
// has nil.
func SettledOf(g *ir.Graph, pace *ir.Pacer) map[*ir.Value]bool {
	if len(g.Parameters) == 0 {
		return nil
	}
	s := make(map[*ir.Value]bool, len(g.Parameters))
	for _, v := range g.Parameters {
		s[v] = true
	}
	for _, u := range g.Updates {
		delete(s, u.Parameter)
	}
	for _, n := range g.Nodes {
		pace.Step(1 + len(n.Inputs))
		if !settles(n, s) {
			continue
		}
		for _, v := range n.Outputs {
			if v != nil {
				s[v] = true
			}
		}
	}
	return s
}

// settles reports whether the results of n are settled, if the values in s are.
func settles(n *ir.Node, s map[*ir.Value]bool) bool {
	if n.Op.Random || n.Op.Eval == nil && n.Op.Body == nil || len(n.Subgraphs()) > 0 {
		return false
	}
	for _, v := range n.Outputs {
		if v != nil && !Settles(v) {
			return false
		}
	}
	for _, v := range n.Inputs {
		if v != nil && v.Const == nil && !s[v] {
			return false
		}
	}
	return true
}

// Settles reports whether the type of v lets the lowering compute it in advance, and also what has as many elements.
func Settles(v *ir.Value) bool {
	t, ok := v.TensorType()
	if !ok || t.NoRank {
		return false
	}
	shape, known := t.Shape.Known()
	size, err := tensor.Size(shape)
	return known && err == nil && size <= MaxFolded
}
