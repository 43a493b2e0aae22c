package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// LRN normalizes by the squares of neighboring channels.
var LRN = ops.Same(ops.Register(&ir.Op{
	Name: "LRN", Since: 13,
	Doc: "X/(bias + alpha/size·Σx²)^beta for X (N,C,…); the sum is over the size channels around each that exist.",
	In:  ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"),
	Attrs: []ir.AttrSpec{floatAttr("alpha", f32(1e-4), "weight of the sum"), floatAttr("beta", 0.75, "exponent"),
		floatAttr("bias", 1, "added to the sum"), {Name: "size", Kind: ir.AttrInt, Required: true,
			Doc: "number of channels"}},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		size := getInt(c.Node, "size")
		if x.Rank() < 2 || size < 1 || size > 1<<31 {
			return nil, fmt.Errorf("X %s, size %d: expected at least two axes, and a positive size", x, size)
		}
		alpha, beta, bias := getFloat(c.Node, "alpha")/float64(size), getFloat(c.Node, "beta"), getFloat(c.Node, "bias")
		v := ops.F64(c, in, 0)
		y := ops.Make[float64](c, len(v))
		outer, ch, inner := splitAt(x.Shape(), 1)
		below, above := int(size-1)/2, int(size)/2
		for o := range outer {
			c.Step(1)
			for k := range ch {
				c.Step(1)
				for i := range inner {
					c.Step(1)
					var sum float64
					for j := max(0, k-below); j <= min(ch-1, k+above); j++ {
						c.Step(1)
						z := v[(o*ch+j)*inner+i]
						sum += z * z
					}
					at := (o*ch+k)*inner + i
					y[at] = v[at] / math.Pow(bias+alpha*sum, beta)
				}
			}
		}
		return ops.One(ops.Real(c, x.DType(), y, x.Shape()...))
	},
	Along: alongKeep(func(_ *ir.Node, axis, _ int) bool { return axis == 1 }),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return workOf(n, bind, 2*getInt(n, "size")*ops.Count(n.Outputs[0], bind))
	},
	GradientBody: bodyLRN,
	Tol:          ir.Summing,
}), 1)

// LpNormalization divides by a norm.
var LpNormalization = ops.Same(ops.Register(&ir.Op{
	Name: "LpNormalization", Since: 22, Doc: "input divided by its norm (p 1 or 2) along axis; 0 if the norm is 0.",
	In: ops.Sig("input:T[...]"), Out: ops.Sig("output:T[...]"),
	Attrs: []ir.AttrSpec{intAttr("axis", -1, "the axis"), intAttr("p", 2, "which norm")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		a, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil {
			return nil, err
		}
		p := getInt(c.Node, "p")
		if p != 1 && p != 2 {
			return nil, fmt.Errorf("p is %d, expected 1 or 2", p)
		}
		v := ops.F64(c, in, 0)
		outer, n, inner := splitAt(x.Shape(), a)
		for o := range outer {
			c.Step(1)
			for i := range inner {
				c.Step(1)
				var norm float64
				for k := range ops.Each(c, n) {
					norm += power(math.Abs(v[(o*n+k)*inner+i]), float64(p))
				}
				if norm = power(norm, 1/float64(p)); norm == 0 {
					continue
				}
				for k := range ops.Each(c, n) {
					v[(o*n+k)*inner+i] /= norm
				}
			}
		}
		return ops.One(ops.Real(c, x.DType(), v, x.Shape()...))
	},
	Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
		a, err := ops.Axis(getInt(n, "axis"), rank)
		return err != nil || a == axis
	}),
	GradientBody: bodyLpNorm,
	Tol:          ir.Summing,
}), 1)
