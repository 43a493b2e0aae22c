package passes

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
)

// Discretize converts continuous systems to discrete time (docs/math.md, Discretization).
var Discretize = &Pass{
	Name: "discretize",
	Doc: "Each StateSpace → one SSM (diagonal) or DenseSSM (full matrix) with a direction. Constraint and " +
		"discretization are computed in float64 if the parameters are constants.",
	After: []Reason{
		{"diagonalize", "discretize expands what diagonalize left, with its full matrix"},
	},
	Run: func(c *Context, g *ir.Graph) (int, error) {
		complete(g)
		changes := 0
		var b *ir.Builder
		for _, n := range slices.Clone(g.Nodes) {
			if !isStateSpace(n) {
				continue
			}
			if b == nil {
				b = Edit(g)
			}
			b.Scope(n.Scope)
			made := n.Op.Body(b, n, n.Inputs)
			if err := b.Err(); err != nil {
				return changes, err
			}
			for i, v := range n.Outputs {
				if v != nil {
					Replace(g, v, made[i])
				}
			}
			c.Note("%s: %s, %s", where(n), n.Attrs.Str("method", "zoh"), describeSystem(made[0].Def))
			changes++
		}
		if err := Finish(g); err != nil {
			return changes, err
		}
		if _, err := fold(c, g); err != nil {
			return changes, err
		}
		g.RemoveDead()
		for _, n := range g.Nodes {
			if n.Op == essm.SSM {
				warnUnstable(c, n)
			}
		}
		return changes, nil
	},
}

// warnUnstable warns of discrete eigenvalues outside of the unit circle. Such a layer runs as a scan only.
func warnUnstable(c *Context, n *ir.Node) {
	if n.In(1).Const == nil {
		return
	}
	a, err := n.In(1).Const.Float64s()
	if err != nil {
		return
	}
	worst, count := 0, 0
	for i, re := range a {
		if essm.Unstable(complex(re, 0)) {
			count++
			if re > a[worst] {
				worst = i
			}
		}
	}
	if count > 0 {
		c.Warn("%s: %d of %d states grow, state %d fastest (|λ̄| = %.6g): the answer may overflow on long sequences, "+
			"and the layer runs as a scan only", where(n), count, len(a), worst,
			real(essm.Pow(complex(a[worst], 0), 1)))
	}
}
