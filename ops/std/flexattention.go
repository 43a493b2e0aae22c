package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// FlexAttention is attention with graphs that modify products and weights.
var FlexAttention = ops.Register(&ir.Op{
	Domain: "ai.onnx.preview", Name: "FlexAttention", Since: 1,
	Doc: "prob_mod(softmax(score_mod(Q·Kᵀ·scale)))·V per head, for Q (B,Hq,S,E), K and V (B,Hkv,T,…); Hq is a " +
		"multiple of Hkv.",
	In: ops.Sig("Q:T1[B,H,S,E]", "K:T1[B,G,T,E]", "V:T2[B,G,T,F]"), Out: ops.Sig("Y:T2[B,H,S,F]"),
	Attrs: []ir.AttrSpec{
		{Name: "prob_mod", Kind: ir.AttrGraph, Doc: "graph that modifies weights (B,Hq,S,T)"},
		{Name: "score_mod", Kind: ir.AttrGraph, Doc: "graph that modifies products (B,Hq,S,T)"},
		{Name: "scale", Kind: ir.AttrFloat, Doc: "factor of products (default 1/√E)"},
		intAttr("softmax_precision", nil,
			"element type of the graphs' inputs (default: float, or double if Q is double)"),
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		var t [3]*heads
		for i := range t {
			var err error
			if x := ops.Tensor(in, i); x == nil || x.Rank() != 4 {
				return nil, fmt.Errorf("%s: expected four axes, found %s", c.Node.Op.In[i].Name, x)
			}
			if t[i], err = readHeads(c, c.Node, in, i, ""); err != nil {
				return nil, err
			}
		}
		q, k, v := t[0], t[1], t[2]
		if q.b != k.b || q.b != v.b || k.h != v.h || k.h == 0 || q.h%k.h != 0 || k.s != v.s || q.e != k.e {
			return nil, fmt.Errorf("Q, K and V are %s, %s, %s, which do not match", ops.Tensor(in, 0),
				ops.Tensor(in, 1), ops.Tensor(in, 2))
		}
		shape := []int{q.b, q.h, q.s, k.s}
		if _, err := ops.Elems(shape); err != nil {
			return nil, err
		}
		dtype := tensor.Float32
		if ops.Tensor(in, 0).DType() == tensor.Float64 && !c.Wide {
			dtype = tensor.Float64
		}
		dtype = tensor.DType(c.Node.Attrs.Int("softmax_precision", int64(dtype)))
		if !dtype.IsFloat() || dtype.Bits() < 16 {
			return nil, fmt.Errorf("softmax_precision: %v is not an element type for it", dtype)
		}
		// change applies a graph of the node to numbers.
		change := func(name string, v []float64) ([]float64, error) {
			g := c.Node.Attrs.Graph(name)
			if g == nil {
				return v, nil
			}
			if len(g.Inputs) != 1 || len(g.Outputs) != 1 {
				return nil, fmt.Errorf("%s has %d inputs and %d outputs, expected one each", name, len(g.Inputs),
					len(g.Outputs))
			}
			x, err := ops.Real(c, dtype, v, shape...)
			if err != nil {
				return nil, err
			}
			out, err := call(c, g, []tensor.Datum{x})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			y := ops.Tensor(out, 0)
			if y == nil {
				return nil, fmt.Errorf("%s returns no tensor", name)
			}
			if err := ops.SameShape(y.Shape(), shape); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return ops.Float64s(c, y)
		}
		scale := c.Node.Attrs.Float("scale", 1/math.Sqrt(float64(q.e)))
		score := ops.Make[float64](c, product(shape))[:0]
		group := q.h / k.h
		for b := range q.b {
			c.Step(1)
			for h := range q.h {
				c.Step(1)
				for i := range q.s {
					c.Step(1)
					for j := range ops.Each(c, k.s) {
						score = append(score, scale*dot(c, q.row(b, h, i), k.row(b, h/group, j)))
					}
				}
			}
		}
		score, err := change("score_mod", score)
		if err != nil {
			return nil, err
		}
		for r := 0; r < len(score); r += k.s {
			c.Step(1)
			softmaxRow(c, score[r:r+k.s])
		}
		if score, err = change("prob_mod", score); err != nil {
			return nil, err
		}
		y := &heads{ops.Make[float64](c, q.b*q.h*q.s*v.e), q.b, q.h, q.s, v.e}
		for r := range q.b * q.h * q.s {
			c.Step(1)
			b, h, i := r/q.s/q.h, r/q.s%q.h, r%q.s
			for j, w := range score[r*k.s : (r+1)*k.s] {
				c.Step(1)
				for e, x := range ops.All(c, v.row(b, h/group, j)) {
					y.row(b, h, i)[e] += w * x
				}
			}
		}
		return ops.One(ops.Real(c, ops.Tensor(in, 2).DType(), y.v, y.b, y.h, y.s, y.e))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		q, k, v := in[0], in[1], in[2]
		var known [3]int64
		for i, d := range []struct {
			of   *ir.Value
			axis int
		}{{q, 1}, {k, 1}, {q, 3}} {
			var ok bool
			if s := d.of.Shape(); len(s) == 4 {
				known[i], ok = s[d.axis].Known()
			}
			if !ok && !(i == 2 && n.Attrs.Has("scale")) {
				b.Fail(fmt.Errorf("Q %v, K %v: expected known numbers of heads and of features", q.Type, k.Type))
				return []*ir.Value{nil}
			}
		}
		hq, hkv := known[0], known[1]
		if hkv < 1 || hq%hkv != 0 {
			b.Fail(fmt.Errorf("%d heads of queries, %d of keys: expected a multiple", hq, hkv))
			return []*ir.Value{nil}
		}
		as := func(v *ir.Value, elem tensor.DType) *ir.Value {
			return attr(b, "Cast", []*ir.Value{v}, ir.A("to", int64(elem)))
		}
		elem := tensor.Float32
		if q.Elem() == tensor.Float64 {
			elem = tensor.Float64
		}
		elem = tensor.DType(n.Attrs.Int("softmax_precision", int64(elem)))
		y := v.Elem()
		k, v = as(shareHeads(b, k, hq, hkv), elem), as(shareHeads(b, v, hq, hkv), elem)
		score := op(b, "MatMul", as(q, elem), attr(b, "Transpose", []*ir.Value{k}, i64Attr("perm", 0, 1, 3, 2)))
		score = op(b, "Mul", score, constLike(b, score, n.Attrs.Float("scale", 1/math.Sqrt(float64(known[2])))))
		score = inlineGraph(b, n.Attrs.Graph("score_mod"), score)
		score = inlineGraph(b, n.Attrs.Graph("prob_mod"), attr(b, "Softmax", []*ir.Value{score}, ir.A("axis", -1)))
		return []*ir.Value{as(op(b, "MatMul", score, v), y)}
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return workOf(n, bind, 2*(ops.Count(n.In(0), bind)+ops.Count(n.Outputs[0], bind))*ops.DimAt(n.In(1), 2, bind))
	},
	Linear: ops.LinearIn([]int{2}),
	Tol:    ir.Summing,
})
