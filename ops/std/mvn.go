package std

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// MeanVarianceNormalization normalizes over given axes.
var MeanVarianceNormalization = ops.Register(&ir.Op{
	Name: "MeanVarianceNormalization", Since: 13,
	Doc: "(X-mean)/(sqrt(var)+1e-9) with biased mean and variance over axes (default 0, 2, 3).",
	In:  ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"),
	Attrs: []ir.AttrSpec{{Name: "axes", Kind: ir.AttrInts, Default: []int64{0, 2, 3}, Doc: "the axes"}},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		axes, err := mvnAxes(c.Node, x.Rank())
		if err != nil {
			return nil, err
		}
		v, err := ops.Float64s(c, x)
		if err != nil {
			return nil, err
		}
		kept, _, count := reducedDims(x.Shape(), axes)
		average := func(v []float64) []float64 {
			sum := ops.Make[float64](c, product(kept))
			fold(c, v, x.Shape(), kept, sum, plus)
			for i := range ops.Each(c, len(sum)) {
				sum[i] /= float64(count)
			}
			return ops.BroadcastTo(c, sum, kept, x.Shape())
		}
		mean, square := average(v), ops.Make[float64](c, len(v))
		for i := range ops.Each(c, len(v)) {
			v[i] -= mean[i]
			square[i] = v[i] * v[i]
		}
		for i, s := range ops.All(c, average(square)) {
			v[i] /= math.Sqrt(s) + 1e-9
		}
		return ops.One(ops.Real(c, x.DType(), v, x.Shape()...))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		axes := b.Ints(n.Attrs.Ints("axes", defaultOf[[]int64](n, "axes"))...)
		d := op(b, "Sub", in[0], op(b, "ReduceMean", in[0], axes))
		// The mean of the differences is its rounding error, which is large relative to elements that are nearly
		// equal.
		d = op(b, "Sub", d, op(b, "ReduceMean", d, axes))
		std := op(b, "Sqrt", op(b, "ReduceMean", op(b, "Mul", d, d), axes))
		return []*ir.Value{op(b, "Div", d, op(b, "Add", std, constLike(b, d, 1e-9)))}
	},
	Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
		axes, err := mvnAxes(n, rank)
		return err != nil || slices.Contains(axes, axis)
	}),
	Tol: ir.Summing,
})

func mvnAxes(n *ir.Node, rank int) ([]int, error) {
	return ops.AxesOf(n.Attrs.Ints("axes", defaultOf[[]int64](n, "axes")), rank)
}
