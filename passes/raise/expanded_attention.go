package raise

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// expandedAttention reads the nodes around a Softmax as the body of an Attention of Q, K and V, which is causal if
// there is a mask.
func expandedAttention(f *surrounding, n *ir.Node) *expansion { return readAttention(f, n, false) }

// expandedMasked reads the nodes around a Softmax as the body of an Attention with a given mask.
func expandedMasked(f *surrounding, n *ir.Node) *expansion {
	if !isOp(n.In(0), "Add") {
		return nil
	}
	return readAttention(f, n, true)
}

func readAttention(f *surrounding, n *ir.Node, own bool) *expansion {
	score := n.In(0)
	biased := isOp(score, "Add")
	var mask *ir.Value
	if biased {
		if mask = score.Def.In(1); isOp(mask, "Where") { // 0 or -Inf
			mask = back(mask, "Where")
		}
		score = back(score, "Add")
	}
	product, ok := back(score, "Mul"), false
	scale := 0.0
	if scale, ok = scalarOf(inputOf(score, "Mul", 1)); !ok || !isOp(product, "MatMul") {
		return nil
	}
	weights := n.Out(0)
	if biased {
		weights = f.ahead(weights, "Where")
	}
	y := f.ahead(weights, "MatMul")
	if y == nil {
		return nil
	}
	q, k, v := product.Def.In(0), back(product.Def.In(1), "Transpose"), y.Def.In(1)
	var attrs []ir.Attr
	if width, ok := lastSize(q); !ok || math.Abs(scale*math.Sqrt(float64(width))-1) > 1e-6 {
		attrs = append(attrs, ir.A("scale", scale))
	}
	if biased && !own {
		attrs = append(attrs, ir.A("is_causal", 1))
	}
	args := []*ir.Value{q, unshared(k), unshared(v)}
	if isOp(q, "Transpose") && isOp(back(q, "Transpose"), "Reshape") { // heads are in the last of three axes
		for i, v := range args {
			args[i] = back(v, "Transpose", "Reshape")
			if args[i] == nil || len(args[i].Shape()) != 3 || len(v.Shape()) != 4 {
				return nil
			}
			if i < 2 {
				count, ok := v.Shape()[1].Known()
				if !ok {
					return nil
				}
				attrs = append(attrs, ir.A([]string{"q_num_heads", "kv_num_heads"}[i], count))
			}
		}
		if y = f.ahead(y, "Transpose", "Reshape"); y == nil {
			return nil
		}
	}
	if own {
		args = append(args, mask)
	}
	return &expansion{outputs: []*ir.Value{y},
		node: &ir.Node{Op: ops.Default.Resolve("", "Attention", ops.Opsets()[""]), Scope: n.Scope, Inputs: args,
			Attrs: ir.NewAttrs(attrs...)}}
}

// unshared undoes the repetition of keys or values that have fewer heads than the queries.
func unshared(v *ir.Value) *ir.Value {
	if w := back(v, "Reshape", "Expand", "Unsqueeze"); w != nil {
		return w
	}
	return v
}

// lastSize returns the size of the last axis of v.
func lastSize(v *ir.Value) (int64, bool) {
	s := v.Shape()
	if len(s) == 0 {
		return 0, false
	}
	return s[len(s)-1].Known()
}
