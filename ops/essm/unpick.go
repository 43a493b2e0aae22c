package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Unpick is the adjoint of Pick.
var Unpick = ops.Register(&ir.Op{
	Domain: "essm", Name: "Unpick",
	Doc: `The gradient of Pick with respect to x, for the gradient g of y: g at the steps that Pick reads, zeros at
others; with pool it is divided by their number.`,
	In: ops.Sig("g:T[B,H]", "steps:int64[]", "lengths:int64[B]?"), Out: ops.Sig("x:T[B,_,H]"),
	Attrs: Pick.Attrs,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		steps := ir.Unknown
		if d, ok := ops.DimsOf(n.In(1)); ok && len(d) == 1 {
			steps = d[0]
		}
		return []ir.Type{ir.Tensor(b.Elem["T"], b.At("B"), steps, b.At("H"))}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		b, h := t.Dim(0), t.Dim(1)
		l, err := lengthInput(c, ops.Tensor(in, 1), t.Len())
		if err != nil {
			return nil, fmt.Errorf("steps: %w", err)
		}
		var name string
		if v := c.Node.In(2); v != nil {
			name = v.Name
		}
		lengths, err := Lengths(c, name, ops.Tensor(in, 2), b, l)
		if err != nil {
			return nil, err
		}
		g, x := ops.F64(c, in, 0), ops.Make[float64](c, b*l*h)
		mode := c.Node.Attrs.Str("mode", "")
		for i := range b {
			c.Step(1)
			lo, hi, scale := 0, lengths[i], 1.0
			switch mode {
			case "last":
				lo = hi - 1
			case "first":
				hi = 1
			case "pool":
				scale = float64(hi)
			}
			for k := lo; k < hi; k++ {
				c.Step(1)
				for j := range ops.Each(c, h) {
					x[(i*l+k)*h+j] = g[i*h+j] / scale
				}
			}
		}
		return ops.One(ops.Real(c, t.DType(), x, b, l, h))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := ops.Global(n, in)
		if !in[0].Constant() && in[1].Constant() && in[0].Axis >= 0 && (len(in) < 3 || in[2].Constant() ||
			in[2].Axis == in[0].Axis) {
			f = in[0]
			if f.State = 0; f.Axis == 1 {
				f.Axis = 2
			}
		} else if f.Symbol != "" {
			f.Axis = -1
		}
		return []ir.Fact{f}
	},
	Gradient: func(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
		return []*ir.Value{b.Op("essm", "Pick", trim(dOut[0], n.In(2)), n.Attrs...)}
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Rounding,
})
