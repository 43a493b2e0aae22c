package essm

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

// gradConstrain is the Gradient of Constrain.
func gradConstrain(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	re, im := scalar.Input(0), scalar.Input(1)
	zero := scalar.Const(0)
	var real, imag scalar.Expr
	switch n.Attrs.Str("real", "clip") {
	case "softplus":
		real = scalar.Neg(scalar.Softplus(re))
	case "sigmoid":
		real = scalar.Neg(scalar.Sigmoid(re))
	case "Gaussian":
		real = scalar.Neg(scalar.Exp(scalar.Neg(scalar.Mul(re, re))))
	default:
		real = atMost(re, -n.Attrs.Float("max_real", 1e-4))
	}
	switch n.Attrs.Str("imag", "same") {
	case "softplus":
		imag = scalar.Softplus(im)
	case "sigmoid":
		imag = scalar.Sigmoid(im)
	case "Gaussian":
		imag = scalar.Exp(scalar.Mul(im, im))
	case "clip":
		imag = scalar.Clip(im, scalar.Const(-1), scalar.Const(1))
	case "zero":
		imag = zero
	case "negtive":
		imag = atMost(im, -1e-4)
	default:
		imag = im
	}
	lambda := n.In(0)
	parts := b.Ops("", "Split", 2, []*ir.Value{lambda}, ir.A("axis", -1), ir.A("num_outputs", 2))
	for i, g := range dOut {
		if g != nil {
			dOut[i] = std(b, "Unsqueeze", g, b.Ints(-1))
		}
	}
	grads := ops.GradientMap(b, parts, dOut, []scalar.Expr{real, imag})
	if b.Err() != nil {
		return nil
	}
	for i, g := range grads {
		if g == nil {
			grads[i] = ops.FilledLike(b, 0, parts[i])
		}
	}
	return []*ir.Value{stdWith(b, "Concat", grads, ir.A("axis", -1))}
}

// atMost is the lesser of x and a bound, at which its derivative is 1, as that of torch's clip.
func atMost(x scalar.Expr, bound float64) scalar.Expr {
	k := scalar.Const(bound)
	return scalar.Select(scalar.LessEqual(x, k), x, k)
}

// gradDiscretize is the Gradient of Discretize.
func gradDiscretize(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	lam := complexExpr{scalar.Input(0), scalar.Input(1)}
	dt := scalar.Mul(scalar.Const(n.Attrs.Float("rate", 1)), scalar.Exp(scalar.Input(2)))
	var a, gain complexExpr
	eps := n.Attrs.Float("epsilon", 0)
	if alpha, ok := Alpha(n.Attrs.Str("method", "zoh")); ok {
		x := lam.scale(dt)
		den := x.scale(scalar.Const(-alpha)).plus(1)
		a = logExpr(x.scale(scalar.Const(1 - alpha)).plus(1).over(den))
		gain = complexExpr{dt, scalar.Const(0)}.over(den)
	} else if a = lam.scale(dt); eps == 0 {
		gain = phi1Expr(a).scale(dt)
	} else {
		gain = expm1Expr(a).times(lam.conj()).scale(scalar.Reciprocal(scalar.Add(lam.square(), scalar.Const(eps))))
	}
	return ops.GradientMap(b, n.Inputs, dOut, []scalar.Expr{a.re, a.im, gain.re, gain.im})
}
