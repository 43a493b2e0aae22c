package essm

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// BatchNormTrain is BatchNorm in training, as torch has it.
var BatchNormTrain = ops.Register(&ir.Op{
	Domain: "essm", Name: "BatchNormTrain",
	Doc: `BatchNorm with the mean and the biased variance of all rows of x, padding included. mean_out and var_out are
the next running statistics: (1-momentum)·mean + momentum·(mean of the rows), and the same of var with the unbiased
variance, which is NaN for a single row.`,
	In:  ops.Sig("x:T[...,H]", "weight:T[H]", "bias:T[H]", "mean:T[H]", "var:T[H]"),
	Out: ops.Sig("y:T[...,H]", "mean_out:T[H]", "var_out:T[H]"),
	Attrs: []ir.AttrSpec{{Name: "epsilon", Kind: ir.AttrFloat, Default: 1e-5, Doc: "added to the variance"},
		{Name: "momentum", Kind: ir.AttrFloat, Default: 0.1, Doc: "weight of the new statistics"}},
	Eval: evalBatchNormTrain,
	Body: bodyBatchNormTrain,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		out := make([]ir.Fact, len(n.Outputs))
		for i := range out {
			if out[i] = ops.Global(n, in); i > 0 && out[i].Symbol != "" {
				out[i].Axis = -1
			}
		}
		return out
	},
	Gradient: gradBatchNormTrain,
	Linear:   ops.LinearIn([]int{1, 2}),
	Tol:      ir.Summing,
})

func evalBatchNormTrain(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	t, eps, momentum := ops.Tensor(in, 0), ops.Float(c.Node, "epsilon"), ops.Float(c.Node, "momentum")
	x, weight, bias, means, variances := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2), ops.F64(c, in,
		3), ops.F64(c, in, 4)
	h := t.Dim(-1)
	rows := t.Len() / max(h, 1)
	col := ops.Make[float64](c, rows)
	for j := range h {
		c.Step(1)
		for i := range ops.Each(c, rows) {
			col[i] = x[i*h+j]
		}
		mean, variance := moments(c, col)
		scale := weight[j] / math.Sqrt(variance+eps)
		for i := range ops.Each(c, rows) {
			x[i*h+j] = (col[i]-mean)*scale + bias[j]
		}
		means[j] = (1-momentum)*means[j] + momentum*mean
		variances[j] = (1-momentum)*variances[j] + momentum*variance*float64(rows)/float64(rows-1)
	}
	out := make([]tensor.Datum, 3)
	for i, v := range [][]float64{x, means, variances} {
		shape := []int{h}
		if i == 0 {
			shape = t.Shape()
		}
		y, err := ops.Real(c, t.DType(), v, shape...)
		if err != nil {
			return nil, err
		}
		out[i] = y
	}
	return out, nil
}

// batchMoments returns the mean of the rows, the rows less their mean, the biased variance, and the number of rows.
func batchMoments(b *ir.Builder, x *ir.Value) (mean, centred, variance, count *ir.Value) {
	rows := rowsOf(b, x)
	moment := func(v *ir.Value) *ir.Value {
		return stdWith(b, "ReduceMean", []*ir.Value{v, b.Ints(0)}, ir.A("keepdims", 0))
	}
	mean = moment(rows)
	centred = std(b, "Sub", rows, mean)
	if b.Err() != nil {
		return nil, nil, nil, nil
	}
	length := stdWith(b, "Gather", []*ir.Value{std(b, "Shape", rows), b.Const("axis", scalarInt(0))}, ir.A("axis", 0))
	return mean, centred, moment(std(b, "Mul", centred, centred)), ops.CastLike(b, length, x)
}

func bodyBatchNormTrain(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	mean, centred, variance, count := batchMoments(b, in[0])
	e, eps, m := scalar.Inputs(4), scalar.Const(ops.Float(n, "epsilon")), scalar.Const(ops.Float(n, "momentum"))
	y := ops.MapOf(b, scalar.Add(scalar.Mul(e[0], scalar.Div(e[2], scalar.Sqrt(scalar.Add(e[1], eps)))), e[3]),
		centred, variance, in[1], in[2])
	mix := func(old, now scalar.Expr) scalar.Expr {
		return scalar.Add(scalar.Mul(scalar.Sub(scalar.Const(1), m), old), scalar.Mul(m, now))
	}
	unbiased := scalar.Div(scalar.Mul(e[1], e[2]), scalar.Sub(e[2], scalar.Const(1)))
	return []*ir.Value{ops.ReshapeLike(b, y, in[0]), ops.MapOf(b, mix(e[0], e[1]), in[3], mean),
		ops.MapOf(b, mix(e[0], unbiased), in[4], variance, count)}
}

// gradBatchNormTrain is the Gradient of BatchNormTrain. For rows x with the mean μ and the deviation σ, and x̂ =
// (x-μ)/σ, the gradient of x is weight/σ·(g - mean(g) - x̂ mean(g x̂)), and parts of those of the statistics.
func gradBatchNormTrain(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, weight := n.In(0), n.In(1)
	_, centred, variance, count := batchMoments(b, x)
	e := scalar.Inputs(7)
	eps, m := scalar.Const(ops.Float(n, "epsilon")), scalar.Const(ops.Float(n, "momentum"))
	inverse := ops.MapOf(b, scalar.Reciprocal(scalar.Sqrt(scalar.Add(e[0], eps))), variance)
	grads := make([]*ir.Value, 5)
	var dx *ir.Value
	if dOut[0] != nil {
		g := rowsOf(b, dOut[0])
		normal := std(b, "Mul", centred, inverse)
		grads[1], grads[2] = sumOver(b, std(b, "Mul", g, normal), 0), sumOver(b, g, 0)
		mean := scalar.Div(scalar.Add(e[2], scalar.Mul(e[1], e[3])), e[6])
		dx = ops.MapOf(b, scalar.Mul(scalar.Mul(e[4], e[5]), scalar.Sub(e[0], mean)), g, normal, grads[2], grads[1],
			weight, inverse, count)
	}
	add := func(v *ir.Value) {
		if dx != nil {
			v = std(b, "Add", dx, v)
		}
		dx = v
	}
	keep := scalar.Mul(scalar.Sub(scalar.Const(1), m), e[0])
	if len(dOut) > 1 && dOut[1] != nil {
		grads[3] = ops.MapOf(b, keep, dOut[1])
		add(std(b, "Add", ops.MapOf(b, scalar.Div(scalar.Mul(m, e[0]), e[1]), dOut[1], count), std(b, "Sub", centred,
			centred)))
	}
	if len(dOut) > 2 && dOut[2] != nil {
		grads[4] = ops.MapOf(b, keep, dOut[2])
		slope := scalar.Div(scalar.Mul(scalar.Const(2), m), scalar.Sub(e[2], scalar.Const(1)))
		add(ops.MapOf(b, scalar.Mul(scalar.Mul(slope, e[0]), e[1]), dOut[2], centred, count))
	}
	grads[0] = ops.ReshapeLike(b, dx, x)
	return grads
}
