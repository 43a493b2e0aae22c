package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// expandedFourierMix reads the difference of two products with matrices on both sides as a FourierMix.
func expandedFourierMix(f *surrounding, n *ir.Node) *expansion {
	side := func(i int) *ir.Value { return inputOf(inputOf(n.In(i), "MatMul", 1), "MatMul", 0) }
	x := side(0)
	if x == nil || x != side(1) || len(x.Shape()) != 3 {
		return nil
	}
	return &expansion{outputs: []*ir.Value{n.Out(0)},
		node: &ir.Node{Op: ops.Default.Resolve("essm", "FourierMix", 1), Scope: n.Scope, Inputs: []*ir.Value{x}}}
}
