package std

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// activation makes an elementwise operator with attributes, and its body in smaller operators where it has one.
func activation(name string, since int, doc string, f func(n *ir.Node) func(float64) float64, body func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value, attrs ...ir.AttrSpec) *ir.Op {
	o := unaryOp(name, since, doc, f, attrs...)
	switch name {
	case "Softsign":
		ioNames(o)
	case "Gelu":
		o.Tol = ir.Cancelling
	}
	if body != nil {
		o.Body = func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value { return []*ir.Value{body(b, n, in[0])} }
	}
	return ops.Register(o)
}

func fixed(f func(float64) float64) func(*ir.Node) func(float64) float64 {
	return func(*ir.Node) func(float64) float64 { return f }
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func geluExact(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// whereNegative is neg where x is below zero, and x elsewhere.
func whereNegative(b *ir.Builder, x, neg *ir.Value) *ir.Value {
	return op(b, "Where", op(b, "Less", x, scalar(b, x, 0)), neg, x)
}

// Activations.
var (
	Relu = unaryExact("Relu", 14, "max(x, 0) for each element.", signedTypes,
		func(x float64) float64 {
			if x < 0 {
				return 0
			}
			return x
		},
		func(x int64) int64 { return max(x, 0) })
	Sigmoid   = unary("Sigmoid", 13, "1/(1+exp(-x)) for each element.", sigmoid)
	LeakyRelu = activation("LeakyRelu", 16, "x, or alpha*x below zero.", func(n *ir.Node) func(float64) float64 {
		alpha := getFloat(n, "alpha")
		return func(x float64) float64 {
			if x < 0 {
				return alpha * x
			}
			return x
		}
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		return whereNegative(b, x, op(b, "Mul", scalar(b, x, getFloat(n, "alpha")), x))
	}, floatAttr("alpha", f32(0.01), "slope below zero"))
	Elu = activation("Elu", 22, "x, or alpha*(exp(x)-1) below zero.", func(n *ir.Node) func(float64) float64 {
		alpha := getFloat(n, "alpha")
		return func(x float64) float64 {
			if x < 0 {
				return alpha * math.Expm1(x)
			}
			return x
		}
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		e := op(b, "Sub", op(b, "Exp", x), scalar(b, x, 1))
		return whereNegative(b, x, op(b, "Mul", scalar(b, x, getFloat(n, "alpha")), e))
	}, floatAttr("alpha", 1, "factor below zero"))
	Celu = activation("Celu", 12, "max(0, x) + min(0, alpha*(exp(x/alpha)-1)).", func(n *ir.Node) func(float64) float64 {
		alpha := getFloat(n, "alpha")
		return func(x float64) float64 { return max(0, x) + min(0, alpha*math.Expm1(x/alpha)) }
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		alpha := scalar(b, x, getFloat(n, "alpha"))
		return op(b, "Mul", alpha, op(b, "Elu", op(b, "Div", x, alpha)))
	}, floatAttr("alpha", 1, "scale of the exponential"))
	Selu = activation("Selu", 22, "gamma*x, or gamma*alpha*(exp(x)-1) where x is not above zero.", func(n *ir.Node) func(float64) float64 {
		alpha, gamma := getFloat(n, "alpha"), getFloat(n, "gamma")
		return func(x float64) float64 {
			if x <= 0 {
				return gamma * alpha * math.Expm1(x)
			}
			return gamma * x
		}
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		e := op(b, "Sub", op(b, "Exp", x), scalar(b, x, 1))
		y := whereNegative(b, x, op(b, "Mul", scalar(b, x, getFloat(n, "alpha")), e))
		return op(b, "Mul", scalar(b, x, getFloat(n, "gamma")), y)
	}, floatAttr("alpha", 1.67326319217681884765625, "factor below zero"), floatAttr("gamma", 1.05070102214813232421875, "overall factor"))
	Softplus = activation("Softplus", 22, "log(exp(x)+1) for each element.", fixed(softplus),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			// max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
			e := op(b, "Exp", op(b, "Neg", op(b, "Abs", x)))
			return op(b, "Add", op(b, "Relu", x), op(b, "Log", op(b, "Add", e, scalar(b, x, 1))))
		})
	Softsign = activation("Softsign", 22, "x/(1+|x|) for each element.", fixed(func(x float64) float64 { return x / (1 + math.Abs(x)) }),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			return op(b, "Div", x, op(b, "Add", op(b, "Abs", x), scalar(b, x, 1)))
		})
	ThresholdedRelu = activation("ThresholdedRelu", 22, "x where it is above alpha, 0 elsewhere.", func(n *ir.Node) func(float64) float64 {
		alpha := getFloat(n, "alpha")
		return func(x float64) float64 {
			if x > alpha {
				return x
			}
			return 0
		}
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		return op(b, "Where", op(b, "Less", scalar(b, x, getFloat(n, "alpha")), x), x, scalar(b, x, 0))
	}, floatAttr("alpha", 1, "threshold"))
	Gelu = activation("Gelu", 20, "x times the normal distribution function of x; exact, or approximated by tanh.", func(n *ir.Node) func(float64) float64 {
		if getStr(n, "approximate") == "tanh" {
			return geluTanh
		}
		return geluExact
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		if getStr(n, "approximate") == "tanh" {
			cube := op(b, "Mul", op(b, "Mul", x, x), x)
			z := op(b, "Add", x, op(b, "Mul", scalar(b, x, 0.044715), cube))
			t := op(b, "Tanh", op(b, "Mul", scalar(b, x, math.Sqrt(2/math.Pi)), z))
			return op(b, "Mul", op(b, "Mul", scalar(b, x, 0.5), x), op(b, "Add", t, scalar(b, x, 1)))
		}
		e := op(b, "Erf", op(b, "Mul", x, scalar(b, x, math.Sqrt2/2)))
		return op(b, "Mul", op(b, "Mul", scalar(b, x, 0.5), x), op(b, "Add", e, scalar(b, x, 1)))
	}, ir.AttrSpec{Name: "approximate", Kind: ir.AttrString, Default: "none", OneOf: []string{"none", "tanh"}, Doc: "which formula"})
	Swish = activation("Swish", 24, "x*sigmoid(alpha*x) for each element.", func(n *ir.Node) func(float64) float64 {
		alpha := getFloat(n, "alpha")
		return func(x float64) float64 { return x * sigmoid(alpha*x) }
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		return op(b, "Mul", x, op(b, "Sigmoid", op(b, "Mul", scalar(b, x, getFloat(n, "alpha")), x)))
	}, floatAttr("alpha", 1, "factor within the sigmoid"))
	HardSigmoid = activation("HardSigmoid", 22, "alpha*x+beta, clipped to [0, 1].", func(n *ir.Node) func(float64) float64 {
		alpha, beta := getFloat(n, "alpha"), getFloat(n, "beta")
		return func(x float64) float64 { return max(0, min(1, alpha*x+beta)) }
	}, func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
		y := op(b, "Add", op(b, "Mul", x, scalar(b, x, getFloat(n, "alpha"))), scalar(b, x, getFloat(n, "beta")))
		return op(b, "Max", op(b, "Min", y, scalar(b, x, 1)), scalar(b, x, 0))
	}, floatAttr("alpha", f32(0.2), "slope"), floatAttr("beta", 0.5, "offset"))
	HardSwish = activation("HardSwish", 22, "x*HardSigmoid(x) with slope 1/6 and offset 1/2.",
		fixed(func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) }),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			h := attr(b, "HardSigmoid", []*ir.Value{x}, ir.A("alpha", 1.0/6), ir.A("beta", 0.5))
			return op(b, "Mul", x, h)
		})
	Mish = activation("Mish", 22, "x*tanh(softplus(x)) for each element.",
		fixed(func(x float64) float64 { return x * math.Tanh(softplus(x)) }),
		func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value {
			return op(b, "Mul", x, op(b, "Tanh", op(b, "Softplus", x)))
		})
)
