package essm

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// BatchNorm is a batch norm over the last axis, with fixed statistics.
var BatchNorm = ops.Register(&ir.Op{
	Domain: "essm", Name: "BatchNorm",
	Doc: "y = (x - mean)/√(var + epsilon)·weight + bias per feature (last axis), with the running statistics " +
		"(docs/math.md, Norms).",
	In: ops.Sig("x:T[...,H]", "weight:T[H]", "bias:T[H]", "mean:T[H]", "var:T[H]"), Out: ops.Sig("y:T[...,H]"),
	Attrs: []ir.AttrSpec{{Name: "epsilon", Kind: ir.AttrFloat, Default: 1e-5, Doc: "added to the variance"}},
	Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
		weight, bias, mean, variance := x[1], x[2], x[3], x[4]
		scale := scalar.Div(weight, scalar.Sqrt(scalar.Add(variance, scalar.Const(ops.Float(n, "epsilon")))))
		return scalar.Add(scalar.Mul(scale, x[0]), scalar.Sub(bias, scalar.Mul(mean, scale)))
	},
	Along: ops.AlongRows,
	Tol:   ir.Rounding,
})

// BatchNormAffine returns the scale and shift that a batch norm with fixed statistics amounts to.
func BatchNormAffine(weight, bias, mean, variance []float64, eps float64) (scale, shift []float64) {
	scale, shift = make([]float64, len(weight)), make([]float64, len(weight))
	for i := range weight {
		scale[i] = weight[i] / math.Sqrt(variance[i]+eps)
		shift[i] = bias[i] - mean[i]*scale[i]
	}
	return scale, shift
}

// ScalarNorm is the released code's norm with two learnt scalars.
var ScalarNorm = ops.Register(&ir.Op{
	Domain: "essm", Name: "ScalarNorm",
	Doc: "y = s/std·(x - mean + m) over the last axis, with the biased deviation and no epsilon (docs/math.md, " +
		"Norms: layer_scalar).",
	In: ops.Sig("x:T[...,H]", "m:T[1]", "s:T[1]"), Out: ops.Sig("y:T[...,H]"),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		x, m, s := ops.F64(c, in, 0), ops.F64(c, in, 1)[0], ops.F64(c, in, 2)[0]
		h := t.Dim(-1)
		for lo := 0; lo < len(x); lo += h {
			c.Step(1)
			row := x[lo : lo+h]
			mean, variance := moments(c, row)
			for i := range ops.Each(c, len(row)) {
				row[i] = s / math.Sqrt(variance) * (row[i] - mean + m)
			}
		}
		return ops.One(ops.Real(c, t.DType(), x, t.Shape()...))
	},
	Along:        ops.AlongRows,
	GradientBody: bodyScalarNorm,
	Linear:       ops.LinearIn([]int{2}),
	Tol:          ir.Summing,
})

// moments are the mean and the biased variance.
func moments(c *ir.EvalCtx, x []float64) (mean, variance float64) {
	for _, v := range ops.All(c, x) {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range ops.All(c, x) {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(x))
}

// InstanceNorm normalises each feature over time.
var InstanceNorm = ops.Register(&ir.Op{
	Domain: "essm", Name: "InstanceNorm",
	Doc: "y = (x - mean)/√(var + epsilon), with mean and biased variance over time, per sample and feature " +
		"(docs/math.md, Norms).",
	In: ops.Sig("x:T[B,L,H]"), Out: ops.Sig("y:T[B,L,H]"),
	Attrs: []ir.AttrSpec{{Name: "epsilon", Kind: ir.AttrFloat, Default: 1e-5, Doc: "added to the variance"}},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		x, eps := ops.F64(c, in, 0), c.Node.Attrs.Float("epsilon", 1e-5)
		b, l, h := t.Dim(0), t.Dim(1), t.Dim(2)
		col := ops.Make[float64](c, l)
		for i := range b {
			c.Step(1)
			for j := range h {
				c.Step(1)
				for k := range ops.Each(c, l) {
					col[k] = x[(i*l+k)*h+j]
				}
				mean, variance := moments(c, col)
				for k := range ops.Each(c, l) {
					x[(i*l+k)*h+j] = (col[k] - mean) / math.Sqrt(variance+eps)
				}
			}
		}
		return ops.One(ops.Real(c, t.DType(), x, t.Shape()...))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		if f.Axis == 1 {
			f = ops.Global(n, in)
		}
		return []ir.Fact{f}
	},
	GradientBody: bodyInstanceNorm,
	Tol:          ir.Summing,
})
