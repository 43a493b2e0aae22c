package ml

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Binarizer compares with a threshold.
var Binarizer = ops.Register(&ir.Op{
	Domain: Domain, Name: "Binarizer", Since: 1,
	Doc: "1 where X is greater than the threshold, 0 elsewhere.",
	In:  ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", numeric),
	Attrs: []ir.AttrSpec{ops.FloatSpec("threshold", 0, "what a value must exceed")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		v, limit := ops.F64(in, 0), ops.Float(c.Node, "threshold")
		for i, y := range v {
			v[i] = 0
			if y > limit {
				v[i] = 1
			}
		}
		return ops.One(tensor.FromFloat64s(x.DType(), v, x.Shape()...))
	},
	Along: alongOwn(never), Tol: ir.Exact,
})
