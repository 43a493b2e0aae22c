package passes

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
)

// foldLimit bounds the elements that folding may add to a plan. A larger result stays a computation, unless it is no
// larger than the constants that it is computed from.
const foldLimit = 1 << 20

// Fold replaces computations with constants by their results.
var Fold = &Pass{
	Name: "fold",
	Doc:  "Evaluates nodes whose inputs are all constants.",
	Run: func(c *Context, g *ir.Graph) (int, error) {
		n, err := fold(g)
		if n > 0 {
			g.RemoveDead()
		}
		return n, err
	},
}

func fold(g *ir.Graph) (int, error) {
	changes := 0
	for _, n := range slices.Clone(g.Nodes) {
		for _, s := range n.Subgraphs() {
			k, err := fold(s)
			changes += k
			if err != nil {
				return changes, err
			}
		}
		if !foldable(g, n) {
			continue
		}
		in := make([]tensor.Datum, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				in[i] = v.Const
			}
		}
		out, err := eval.Node(n, in)
		if err != nil {
			return changes, fmt.Errorf("node %v: %w", n, err)
		}
		for i, v := range n.Outputs {
			if v == nil || i >= len(out) {
				continue
			}
			t, ok := out[i].(*tensor.Tensor)
			if !ok {
				return changes, fmt.Errorf("node %v: folding computed no tensor for %s", n, v.Name)
			}
			// The node is removed with its last reader, so the constant can take its output's name.
			k := ir.NewConst(v.Name, t)
			v.Name += ".folded"
			g.ReplaceUses(v, k)
		}
		changes++
	}
	return changes, nil
}

// foldable reports whether the node may become constants: all its inputs are constants, it is not one of the operators
// that make large tensors from small ones, and none of its outputs is an output of the graph.
func foldable(g *ir.Graph, n *ir.Node) bool {
	if n.Op.Random || len(n.Subgraphs()) > 0 || len(n.Inputs) == 0 && n.Op.Name != "Constant" {
		return false
	}
	have := int64(0)
	for _, v := range n.Inputs {
		if v != nil && v.Const == nil {
			return false
		}
		if v != nil {
			have += int64(v.Const.Len())
		}
	}
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		if slices.Contains(g.Outputs, v) {
			return false
		}
		if _, ok := v.Type.(*ir.TensorType); !ok {
			return false
		}
		size, known := v.Shape().Size().Known()
		if known && size > foldLimit && size > have {
			return false
		}
	}
	return true
}
