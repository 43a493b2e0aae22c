package ml

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Scaler standardizes features.
var Scaler = ops.Register(&ir.Op{
	Domain: Domain, Name: "Scaler", Since: 1,
	Doc: "(X-offset)*scale as float32, with one offset and scale for all or one per feature (last axis).",
	In:  ops.Sig("X:T[...]"), Out: ops.Sig("Y:float32[...]"), Elems: elems("T", numeric),
	Attrs: []ir.AttrSpec{floatsAttr("offset", "subtracted first"), floatsAttr("scale", "factor of the difference")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		offset, scale := c.Node.Attrs.Floats("offset", []float64{0}), c.Node.Attrs.Floats("scale", []float64{1})
		if _, err := featureIndex(x, len(offset), "offset"); err != nil {
			return nil, err
		}
		if _, err := featureIndex(x, len(scale), "scale"); err != nil {
			return nil, err
		}
		v := ops.F64(c, in, 0)
		o, s := 0, 0
		for i, y := range ops.All(c, v) {
			v[i] = (y - offset[o]) * scale[s]
			if o++; o == len(offset) {
				o = 0
			}
			if s++; s == len(scale) {
				s = 0
			}
		}
		return ops.One(ops.Real(c, tensor.Float32, v, x.Shape()...))
	},
	Along: alongOwn(func(n *ir.Node) bool {
		return len(n.Attrs.Floats("offset", nil)) > 1 || len(n.Attrs.Floats("scale", nil)) > 1
	}),
	NoGradient: fitted,
	Linear:     linearScaler,
	Tol:        ir.Rounding,
})

func linearScaler(n *ir.Node) [][]int {
	for _, k := range n.Attrs.Floats("offset", nil) {
		if k != 0 {
			return nil
		}
	}
	return [][]int{{0}}
}
