package std

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// BatchNormalization normalizes each channel by given statistics or, in training, by the batch's own.
var BatchNormalization = ops.Register(&ir.Op{
	Name: "BatchNormalization", Since: 15,
	Doc: "(X-mean)/sqrt(var+epsilon)*scale+B per channel of X (N,C,…), with the given statistics. With " +
		"training_mode, with the statistics of the batch, which also update the running ones.",
	In:  ops.Sig("X:T[N,C,...]", "scale:T1[C]", "B:T1[C]", "input_mean:T2[C]", "input_var:T2[C]"),
	Out: ops.Sig("Y:T[N,C,...]", "running_mean:T2[C]", "running_var:T2[C]"),
	Attrs: []ir.AttrSpec{floatAttr("epsilon", f32(1e-5), "added to the variance"),
		floatAttr("momentum", f32(0.9), "weight of the previous running statistics"),
		intAttr("training_mode", 0, "whether the batch's own statistics are used")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		t, err := b.Outputs(n.Op)
		if x := tensorIn(n, 0); err == nil && len(x.Shape) == 1 && !x.NoRank { // one axis: a single channel
			t[0] = x
		}
		return t, err
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, p, err := channels(c, in, 4)
		if err != nil {
			return nil, err
		}
		scale, bias, mean, variance := p[0], p[1], p[2], p[3]
		v := ops.F64(c, in, 0)
		n, ch, cols := x.Dim(0), x.Dim(1), product(x.Shape()[2:])
		runMean, runVar := mean, variance
		if getInt(c.Node, "training_mode") != 0 {
			m := getFloat(c.Node, "momentum")
			runMean, runVar = ops.Make[float64](c, ch), ops.Make[float64](c, ch)
			for k := range ch {
				c.Step(1)
				var all []float64
				for i := range ops.Each(c, n) {
					all = ops.Append(c, all, v[(i*ch+k)*cols:(i*ch+k+1)*cols]...)
				}
				mu, va := moments(c, all)
				runMean[k], runVar[k] = mean[k]*m+mu*(1-m), variance[k]*m+va*(1-m)
				mean[k], variance[k] = mu, va
			}
		}
		eps := getFloat(c.Node, "epsilon")
		for r := range n * ch {
			c.Step(1)
			k, row := r%ch, v[r*cols:(r+1)*cols]
			inv := 1 / math.Sqrt(variance[k]+eps)
			for i := range ops.Each(c, len(row)) {
				row[i] = (row[i]-mean[k])*inv*scale[k] + bias[k]
			}
		}
		stats := ops.Tensor(in, 3).DType()
		return several(
			func() (*tensor.Tensor, error) { return ops.Real(c, x.DType(), v, x.Shape()...) },
			func() (*tensor.Tensor, error) { return ops.Real(c, stats, runMean, ch) },
			func() (*tensor.Tensor, error) { return ops.Real(c, stats, runVar, ch) })
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		if getInt(n, "training_mode") != 0 {
			return spread(n, ops.Global(n, in))
		}
		facts := alongKeep(func(_ *ir.Node, axis, _ int) bool { return axis == 1 })(n, in)
		for i := 1; i < len(facts); i++ { // the statistics, as they were given
			facts[i] = in[i+2]
		}
		return facts
	},
	GradientBody: bodyBatchNorm,
	Linear:       linearBatchNorm,
	Tol:          ir.Rounding,
})

func linearBatchNorm(n *ir.Node) [][]int {
	if getInt(n, "training_mode") != 0 { // the statistics are those of X
		return [][]int{{1, 2}}
	}
	return [][]int{{0, 2, 3}, {1, 2}}
}
