package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// InstanceNormalization normalizes each channel of each sample.
var InstanceNormalization = ops.Register(&ir.Op{
	Name: "InstanceNormalization", Since: 22,
	Doc: "scale*(x-mean)/sqrt(var+epsilon)+B with biased mean and variance over all axes after the channels of input " +
		"(N,C,…).",
	In: ops.Sig("input:T[N,C,...]", "scale:T[C]", "B:T[C]"), Out: ops.Sig("output:T[N,C,...]"),
	Attrs: []ir.AttrSpec{floatAttr("epsilon", f32(1e-5), "added to the variance")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, scale, err := channels(c, in, 2)
		if err != nil {
			return nil, err
		}
		v, eps := ops.F64(c, in, 0), getFloat(c.Node, "epsilon")
		ch, cols := x.Dim(1), product(x.Shape()[2:])
		for r := range x.Dim(0) * ch {
			c.Step(1)
			row := v[r*cols : (r+1)*cols]
			mean, variance := moments(c, row)
			inv := 1 / math.Sqrt(variance+eps)
			for i := range ops.Each(c, len(row)) {
				row[i] = (row[i]-mean)*inv*scale[0][r%ch] + scale[1][r%ch]
			}
		}
		return ops.One(ops.Real(c, x.DType(), v, x.Shape()...))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		rank := len(in[0].Shape())
		if rank < 3 {
			b.Fail(fmt.Errorf("rank %d: nothing to normalize over", rank))
			return make([]*ir.Value, 1)
		}
		axes, _ := axesFrom(b, in[0], 2)
		mean := op(b, "ReduceMean", in[0], axes)
		d := op(b, "Sub", in[0], mean)
		variance := op(b, "ReduceMean", op(b, "Mul", d, d), axes)
		y := op(b, "Div", d, op(b, "Sqrt", op(b, "Add", variance, constLike(b, d, getFloat(n, "epsilon")))))
		return []*ir.Value{op(b, "Add", op(b, "Mul", y, perChannel(b, in[1], rank)), perChannel(b, in[2], rank))}
	},
	Along:  alongKeep(func(_ *ir.Node, axis, _ int) bool { return axis >= 1 }),
	Linear: ops.LinearIn([]int{1, 2}),
	Tol:    ir.Summing,
})

// channels reads an input (N,C,…) and the k vectors (C) after it.
func channels(c *ir.EvalCtx, in []tensor.Datum, k int) (*tensor.Tensor, [][]float64, error) {
	x, err := need(in, 0, "input")
	if err != nil {
		return nil, nil, err
	}
	if x.Rank() < 2 {
		return nil, nil, fmt.Errorf("input: expected at least two axes, found %s", x)
	}
	var out [][]float64
	for i := 1; i <= k; i++ {
		t, err := need(in, i, "parameter")
		if err != nil {
			return nil, nil, err
		}
		if t.Rank() != 1 || t.Len() != x.Dim(1) {
			return nil, nil, fmt.Errorf("input %d: expected %d channels, found %s", i, x.Dim(1), t)
		}
		out = append(out, ops.F64(c, in, i))
	}
	return x, out, nil
}

// perChannel reshapes a vector (C) to broadcast against (N,C,…) of the given rank.
func perChannel(b *ir.Builder, v *ir.Value, rank int) *ir.Value {
	var axes []int64
	for i := 1; i < rank-1; i++ {
		axes = append(axes, int64(i))
	}
	if len(axes) == 0 {
		return v
	}
	return op(b, "Unsqueeze", v, b.Ints(axes...))
}
