package std

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

type activationBody = func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value

// activation registers an elementwise operator with attributes and, unless body is nil, a body of smaller operators.
func activation(name string, since int, doc string, f element, body activationBody, attrs ...ir.AttrSpec) *ir.Op {
	o := unaryOp(name, since, doc, f, attrs...)
	switch name {
	case "Softsign":
		ioNames(o)
	case "Gelu":
		o.Tol = ir.Cancelling
	case "ThresholdedRelu":
		o.Tol = ir.Exact
	}
	if body != nil {
		o.Body = func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value { return []*ir.Value{body(b, n, in[0])} }
	}
	return ops.Register(o)
}

// constOf returns a float attribute of a node, or its default.
func constOf(n *ir.Node, name string) scalar.Expr { return scalar.Const(getFloat(n, name)) }

// whereNegative returns neg where x is below zero, and x elsewhere.
func whereNegative(b *ir.Builder, x, neg *ir.Value) *ir.Value {
	return op(b, "Where", op(b, "Less", x, constLike(b, x, 0)), neg, x)
}

// Activations.
var (
	Relu = unaryExact("Relu", 14, "max(x, 0) for each element.", signedTypes,
		scalar.Relu, func(x int64) int64 { return max(x, 0) })
	Sigmoid   = unary("Sigmoid", 13, "1/(1+exp(-x)) for each element.", scalar.Sigmoid)
	LeakyRelu = activation("LeakyRelu", 16, "x, or alpha*x below zero.",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.LeakyRelu(x[0], constOf(n, "alpha")) },
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			return whereNegative(b, x, op(b, "Mul", constLike(b, x, getFloat(n, "alpha")), x))
		}, floatAttr("alpha", f32(0.01), "slope below zero"))
	Elu = activation("Elu", 22, "x, or alpha*(exp(x)-1) below zero.",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Elu(x[0], constOf(n, "alpha")) },
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			e := op(b, "Sub", op(b, "Exp", x), constLike(b, x, 1))
			return whereNegative(b, x, op(b, "Mul", constLike(b, x, getFloat(n, "alpha")), e))
		}, floatAttr("alpha", 1, "factor below zero"))
	Celu = activation("Celu", 28, "max(0, x) + min(0, alpha*(exp(x/alpha)-1)).",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Celu(x[0], constOf(n, "alpha")) },
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			alpha := constLike(b, x, getFloat(n, "alpha"))
			return op(b, "Mul", alpha, op(b, "Elu", op(b, "Div", x, alpha)))
		}, floatAttr("alpha", 1, "scale of the exponential"))
	Selu = activation("Selu", 22, "gamma*x, or gamma*alpha*(exp(x)-1) if x is not above zero.",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr {
			return scalar.Selu(x[0], constOf(n, "alpha"), constOf(n, "gamma"))
		},
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			e := op(b, "Sub", op(b, "Exp", x), constLike(b, x, 1))
			y := whereNegative(b, x, op(b, "Mul", constLike(b, x, getFloat(n, "alpha")), e))
			return op(b, "Mul", constLike(b, x, getFloat(n, "gamma")), y)
		}, floatAttr("alpha", 1.67326319217681884765625, "factor below zero"),
		floatAttr("gamma", 1.05070102214813232421875, "overall factor"))
	Softplus = activation("Softplus", 22, "log(exp(x)+1) for each element.", fixed(scalar.Softplus),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			// max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
			e := op(b, "Exp", op(b, "Neg", op(b, "Abs", x)))
			return op(b, "Add", op(b, "Relu", x), op(b, "Log", op(b, "Add", e, constLike(b, x, 1))))
		})
	Softsign = activation("Softsign", 22, "x/(1+|x|) for each element.", fixed(scalar.Softsign),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			return op(b, "Div", x, op(b, "Add", op(b, "Abs", x), constLike(b, x, 1)))
		})
	ThresholdedRelu = activation("ThresholdedRelu", 22, "x if it is above alpha, else 0.",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr {
			return scalar.ThresholdedRelu(x[0], constOf(n, "alpha"))
		},
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			return op(b, "Where", op(b, "Less", constLike(b, x, getFloat(n, "alpha")), x), x, constLike(b, x, 0))
		}, floatAttr("alpha", 1, "threshold"))
	Gelu = activation("Gelu", 20, "x times the normal distribution function of x; exact, or approximated by tanh.",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr {
			if getStr(n, "approximate") == "tanh" {
				return scalar.GeluTanh(x[0])
			}
			return scalar.Gelu(x[0])
		},
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			if getStr(n, "approximate") == "tanh" {
				cube := op(b, "Mul", op(b, "Mul", x, x), x)
				z := op(b, "Add", x, op(b, "Mul", constLike(b, x, 0.044715), cube))
				t := op(b, "Tanh", op(b, "Mul", constLike(b, x, math.Sqrt(2/math.Pi)), z))
				return op(b, "Mul", op(b, "Mul", constLike(b, x, 0.5), x), op(b, "Add", t, constLike(b, x, 1)))
			}
			e := op(b, "Erf", op(b, "Mul", x, constLike(b, x, math.Sqrt2/2)))
			return op(b, "Mul", op(b, "Mul", constLike(b, x, 0.5), x), op(b, "Add", e, constLike(b, x, 1)))
		}, ir.AttrSpec{Name: "approximate", Kind: ir.AttrString, Default: "none", OneOf: []string{"none", "tanh"},
			Doc: "which formula"})
	Swish = activation("Swish", 24, "x*sigmoid(alpha*x) for each element.",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Swish(x[0], constOf(n, "alpha")) },
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			return op(b, "Mul", x, op(b, "Sigmoid", op(b, "Mul", constLike(b, x, getFloat(n, "alpha")), x)))
		}, floatAttr("alpha", 1, "factor within the sigmoid"))
	// SwiGLU has no broadcasting.
	SwiGLU = ops.Register(&ir.Op{
		Name: "SwiGLU", Since: 28, Doc: "Swish of the gate A, times B.",
		In: ops.Sig("A:T[...]", "B:T[...]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", ops.Floats), Tol: ir.Rounding,
		Attrs: []ir.AttrSpec{floatAttr("alpha", 1, "factor within the sigmoid")},
		Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
			return scalar.Mul(scalar.Swish(x[0], constOf(n, "alpha")), x[1])
		},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			gate := attr(b, "Swish", x[:1], ir.A("alpha", getFloat(n, "alpha")))
			return []*ir.Value{op(b, "Mul", gate, x[1])}
		},
	})
	HardSigmoid = activation("HardSigmoid", 22, "alpha*x+beta, clipped to [0, 1].",
		func(n *ir.Node, x []scalar.Expr) scalar.Expr {
			return scalar.HardSigmoid(x[0], constOf(n, "alpha"), constOf(n, "beta"))
		},
		func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			y := op(b, "Add", op(b, "Mul", x, constLike(b, x, getFloat(n, "alpha"))),
				constLike(b, x, getFloat(n, "beta")))
			return op(b, "Max", op(b, "Min", y, constLike(b, x, 1)), constLike(b, x, 0))
		}, floatAttr("alpha", f32(0.2), "slope"), floatAttr("beta", 0.5, "offset"))
	HardSwish = activation("HardSwish", 22, "x*HardSigmoid(x) with slope 1/6 and offset 1/2.",
		fixed(scalar.HardSwish),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			h := attr(b, "HardSigmoid", []*ir.Value{x}, ir.A("alpha", 1.0/6), ir.A("beta", 0.5))
			return op(b, "Mul", x, h)
		})
	Mish = activation("Mish", 22, "x*tanh(softplus(x)) for each element.",
		fixed(scalar.Mish),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			return op(b, "Mul", x, op(b, "Tanh", op(b, "Softplus", x)))
		})
)
