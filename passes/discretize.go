package passes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// Discretize converts continuous systems to discrete time (docs/math.md, Discretization).
var Discretize = &Pass{
	Name: "discretize",
	Doc: "Each StateSpace → one SSM (diagonal) or DenseSSM (full matrix) with a direction, each DPLR → one DPLRScan. " +
		"Constraint, discretization and the outputs of DPLR are computed in float64 if the parameters are constants.",
	After: []Reason{
		{"diagonalize", "discretize expands what diagonalize left, with its full matrix"},
	},
	Run: func(c *Context, g *ir.Graph) (int, error) {
		if !slices.ContainsFunc(g.Nodes, isSystem) {
			return 0, nil
		}
		complete(g)
		if slices.ContainsFunc(g.Nodes, continuous) && g.Opsets[""] < ops.Opsets()[""] {
			if err := ops.Upgrade(g); err != nil { // systems are discretized by the newest operators
				return 0, err
			}
		}
		changes := 0
		var b *ir.Builder
		for _, n := range slices.Clone(g.Nodes) {
			if !continuous(n) {
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
			changes++
			if n.Op == essm.DPLR {
				c.Note("%s: bilinear, %s", where(n), describeDPLR(made[0].Def))
				continue
			}
			c.Note("%s: %s, %s", where(n), n.Attrs.Str("method", "zoh"), describeSystem(made[0].Def))
		}
		if err := Finish(g); err != nil {
			return changes, err
		}
		if err := restore(c, g); err != nil {
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

// isSystem reports whether a node is a system, or an output of one that is computed.
func isSystem(n *ir.Node) bool { return continuous(n) || n.Op == essm.RestoreDPLR || n.Op == essm.SSM }

// continuous reports whether a node is a system that Discretize converts.
func continuous(n *ir.Node) bool { return isStateSpace(n) || n.Op == essm.DPLR }

// describeDPLR returns a line about a discrete diagonal plus low-rank system.
func describeDPLR(n *ir.Node) string {
	s := n.In(3).Shape()
	return fmt.Sprintf("%s %s, features × rank × states = %v × %v × %v", n.Op.Name,
		n.Attrs.Str("direction", essm.Forward), s[0], s[1], s[2])
}

// restore computes the output factors of diagonal plus low-rank systems. The powers of their matrices are more work
// than folding grants.
func restore(c *Context, g *ir.Graph) error {
	if _, err := fold(c, g); err != nil { // the stored factors, stacked
		return err
	}
	for _, n := range slices.Clone(g.Nodes) {
		if n.Op != essm.RestoreDPLR || slices.ContainsFunc(n.Inputs, notConst) {
			continue
		}
		out, err := c.evalConst(n)
		var over *ir.BudgetError
		if errors.As(err, &over) {
			c.Warn("%s: left as it is: %v", where(n), err)
			continue
		}
		if err != nil {
			return fmt.Errorf("node %v: %w", n, err)
		}
		for i, t := range out {
			Replace(g, n.Outputs[i], ir.NewConst(n.Outputs[i].Name, t))
		}
	}
	g.RemoveDead()
	return nil
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
