package std

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// RMSNormalization divides each sample by its root mean square over its last axes.
var RMSNormalization = ops.Register(&ir.Op{
	Name: "RMSNormalization", Since: 23,
	Doc: "X/sqrt(mean(X²)+epsilon)*scale with the mean over the axes from axis on.",
	In:  ops.Sig("X:T", "scale:V"), Out: ops.Sig("Y:V"),
	Attrs: []ir.AttrSpec{intAttr("axis", -1, "first normalized axis"),
		floatAttr("epsilon", f32(1e-5), "added to the mean square"),
		intAttr("stash_type", 1, "element type of the computation")},
	Infer: inferAs(elemOf(1), func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		a, err := ops.Axis(getInt(n, "axis"), len(in))
		if err != nil {
			return nil, err
		}
		return in, fillsOut(n, 1, in[a:])
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		s, err := need(in, 1, "scale")
		if err != nil {
			return nil, err
		}
		a, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil {
			return nil, err
		}
		scale, _, err := affine(c, in[:2], x.Shape()[a:], x)
		if err != nil {
			return nil, err
		}
		cols := product(x.Shape()[a:])
		v, eps := ops.F64(c, in, 0), getFloat(c.Node, "epsilon")
		for r := range product(x.Shape()[:a]) {
			c.Step(1)
			row, sum := v[r*cols:(r+1)*cols], 0.0
			for _, x := range ops.All(c, row) {
				sum += x * x
			}
			inv := 1 / math.Sqrt(sum/float64(cols)+eps)
			for i := range ops.Each(c, len(row)) {
				row[i] *= inv * scale[i]
			}
		}
		return ops.One(ops.Real(c, s.DType(), v, x.Shape()...))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		axes, ok := axesFrom(b, in[0], getInt(n, "axis"))
		if !ok {
			return make([]*ir.Value, 1)
		}
		u := attr(b, "Cast", in[:1], ir.A("to", getInt(n, "stash_type")))
		mean := op(b, "ReduceMean", op(b, "Mul", u, u), axes)
		root := op(b, "Sqrt", op(b, "Add", mean, constLike(b, u, getFloat(n, "epsilon"))))
		y := attr(b, "Cast", []*ir.Value{op(b, "Div", u, root)}, ir.A("to", int(in[1].Elem())))
		return []*ir.Value{op(b, "Mul", y, in[1])}
	},
	Linear: ops.LinearIn([]int{1}),
	Along:  alongAxesFrom, Tol: ir.Summing,
})
