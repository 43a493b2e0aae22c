package std

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

// reduceGradients are the derivatives of a reduction by an element, for the element x0, the result x1 and the
// gradient x2 of the result; ReduceSum and ReduceMean need neither. Results that are not smooth have torch's: 0 for
// ReduceL1 and ReduceL2 at 0.
var reduceGradients = map[string]func(x, y, g scalar.Expr) scalar.Expr{
	"ReduceSum":       func(_, _, g scalar.Expr) scalar.Expr { return g },
	"ReduceSumSquare": func(x, _, g scalar.Expr) scalar.Expr { return scalar.Mul(g, scalar.Mul(scalar.Const(2), x)) },
	"ReduceL1":        func(x, _, g scalar.Expr) scalar.Expr { return scalar.Mul(g, scalar.Sign(x)) },
	"ReduceL2": func(x, y, g scalar.Expr) scalar.Expr {
		zero := scalar.Const(0)
		return scalar.Select(scalar.Equal(y, zero), zero, scalar.Mul(g, scalar.Div(x, y)))
	},
	"ReduceLogSum":    func(_, y, g scalar.Expr) scalar.Expr { return scalar.Div(g, scalar.Exp(y)) },
	"ReduceLogSumExp": func(x, y, g scalar.Expr) scalar.Expr { return scalar.Mul(g, scalar.Exp(scalar.Sub(x, y))) },
}

// gradReduce is the Gradient of reductions. Equal elements share that of a maximum or minimum, as torch's amax.
func gradReduce(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x := n.In(0)
	reduced := func(name string, v *ir.Value) *ir.Value { // with axes of size 1
		attrs := slices.DeleteFunc(slices.Clone(n.Attrs), func(a ir.Attr) bool { return a.Name == "keepdims" })
		in := slices.Clone(n.Inputs)
		in[0] = v
		return attr(b, name, in, append(attrs, ir.A("keepdims", 1))...)
	}
	y := reduced(n.Op.Name, x)
	g := ops.ReshapeLike(b, dOut[0], y)
	in := scalar.Inputs(3)
	switch n.Op.Name {
	case "ReduceMean":
		count := op(b, "Div", ops.CastLike(b, op(b, "Size", x), x), ops.CastLike(b, op(b, "Size", y), x))
		g = op(b, "Div", g, count)
		return []*ir.Value{ops.ExpandLike(b, g, x)}
	case "ReduceMax", "ReduceMin":
		same := ops.MapOf(b, scalar.Equal(in[0], in[1]), x, y)
		return []*ir.Value{op(b, "Mul", op(b, "Div", g, reduced("ReduceSum", same)), same)}
	case "ReduceProd":
		zero, one := scalar.Const(0), scalar.Const(1)
		isZero := scalar.Equal(in[0], zero)
		zeros := reduced("ReduceSum", ops.MapOf(b, isZero, x))
		others := reduced(n.Op.Name, ops.MapOf(b, scalar.Select(isZero, one, in[0]),
			x)) // the product of those that are not 0
		x0, others0, zeros0, g0 := scalar.Input(0), scalar.Input(1), scalar.Input(2), scalar.Input(3)
		single := scalar.And(isZero, scalar.Equal(zeros0, one))
		d := scalar.Select(scalar.Equal(zeros0, zero), scalar.Div(others0, x0), scalar.Select(single, others0, zero))
		return []*ir.Value{ops.MapOf(b, scalar.Mul(g0, d), x, others, zeros, g)}
	}
	f := reduceGradients[n.Op.Name]
	return []*ir.Value{ops.ExpandLike(b, ops.MapOf(b, f(in[0], in[1], in[2]), x, y, g), x)}
}

// gradSoftmax is the Gradient of Softmax and LogSoftmax. Rows of -∞, whose Softmax is NaN, have none: attention does
// not use them.
func gradSoftmax(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	y, g, axes := n.Out(0), dOut[0], b.Ints(getInt(n, "axis"))
	in := scalar.Inputs(3)
	if n.Op.Name == "LogSoftmax" {
		sum := op(b, "ReduceSum", g, axes)
		return []*ir.Value{ops.MapOf(b, scalar.Sub(in[0], scalar.Mul(scalar.Exp(in[1]), in[2])), g, y, sum)}
	}
	sum := op(b, "ReduceSum", op(b, "Mul", g, y), axes)
	d := scalar.Mul(in[1], scalar.Sub(in[0], in[2]))
	return []*ir.Value{ops.MapOf(b, scalar.Select(scalar.IsNaN(in[1]), scalar.Const(0), d), g, y, sum)}
}

// gradCumSum sums up from the other end.
func gradCumSum(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	return []*ir.Value{attr(b, "CumSum", []*ir.Value{dOut[0], n.In(1)}, ir.A("exclusive", getInt(n, "exclusive")),
		ir.A("reverse", 1-getInt(n, "reverse")))}
}
