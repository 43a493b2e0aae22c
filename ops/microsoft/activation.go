package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

func gelu(b *ir.Builder, x *ir.Value) *ir.Value { return std(b, "Gelu", x) }

func tanhGelu(b *ir.Builder, x *ir.Value) *ir.Value {
	return with(b, "Gelu", vals(x), ir.A("approximate", "tanh"))
}

func sum(x ...scalar.Expr) scalar.Expr {
	e := x[0]
	for _, a := range x[1:] {
		if a.Valid() {
			e = scalar.Add(e, a)
		}
	}
	return e
}

// Activations, some of them after a bias.
var (
	Gelu = composed(&ir.Op{Name: "Gelu", Doc: "x times the normal distribution function of x.",
		In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Tol: ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Gelu(x[0]) },
		Body:    func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value { return vals(gelu(b, x[0])) }})
	FastGelu = composed(&ir.Op{Name: "FastGelu", Doc: "Gelu, approximated by tanh, of X plus an optional bias.",
		In: ops.Sig("X:T", "bias:T?"), Out: ops.Sig("Y:T"), Tol: ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.GeluTanh(sum(x...)) },
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(tanhGelu(b, add(b, x[0], in(x, 1))))
		}})
	GemmFastGelu = composed(&ir.Op{Name: "GemmFastGelu", Doc: "FastGelu of the product of X and W plus an optional " +
		"bias.",
		In: ops.Sig("X:T", "W:T", "bias:T?"), Out: ops.Sig("Y:T"), Elems: types{"T": half16}, Tol: ir.Summing,
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(tanhGelu(b, add(b, std(b, "MatMul", x[0], x[1]), in(x, 2))))
		}})
	BiasGelu = composed(&ir.Op{Name: "BiasGelu", Doc: "Gelu of A plus a bias for the last axis.",
		In: ops.Sig("A:T", "B:T"), Out: ops.Sig("C:T"), Tol: ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Gelu(sum(x...)) },
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(gelu(b, add(b, x[0], x[1])))
		}})
	QuickGelu = composed(&ir.Op{Name: "QuickGelu", Doc: "x*sigmoid(alpha*x).", In: ops.Sig("X:T[...]"),
		Out: ops.Sig("Y:T[...]"), Tol: ir.Rounding,
		Attrs: []ir.AttrSpec{ops.FloatSpec("alpha", 1.702, "factor within the sigmoid")},
		Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
			return scalar.Swish(x[0], scalar.Const(ops.Float(n, "alpha")))
		},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(with(b, "Swish", x[:1], ir.A("alpha", ops.Float(n, "alpha"))))
		}})
	BiasSplitGelu = composed(&ir.Op{Name: "BiasSplitGelu",
		Doc: "a*Gelu(b) for the halves a, b of the last axis of X plus a bias.", In: ops.Sig("X:T", "bias:T"),
		Out: ops.Sig("Y:T"), Tol: ir.Cancelling,
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			h := b.Ops("", "Split", 2, vals(add(b, x[0], x[1])), ir.A("axis", -1), ir.A("num_outputs", 2))
			return vals(std(b, "Mul", h[0], gelu(b, h[1])))
		}})
	BiasAdd = composed(&ir.Op{Name: "BiasAdd", Doc: "X plus a bias for the last axis plus skip.",
		In: ops.Sig("X:T", "bias:T", "skip:T"), Out: ops.Sig("Y:T"), Tol: ir.Summing,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return sum(x...) },
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(add(b, add(b, x[0], x[1]), x[2]))
		}})
)

// activate applies the activation that a fused operator names, if any. Its parameters are alpha and beta, in this
// order.
func activate(b *ir.Builder, x *ir.Value, name string, param func(i int, def float64) float64) *ir.Value {
	switch name {
	case "", "Identity":
		return x
	case "Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "HardSwish":
		return std(b, name, x)
	case "LeakyRelu":
		return with(b, name, vals(x), ir.A("alpha", param(0, 0.01)))
	case "Elu", "ThresholdedRelu":
		return with(b, name, vals(x), ir.A("alpha", param(0, 1)))
	case "HardSigmoid":
		return with(b, name, vals(x), ir.A("alpha", param(0, 0.2)), ir.A("beta", param(1, 0.5)))
	case "Clip":
		return std(b, name, x, constLike(b, x, param(0, 0)), constLike(b, x, param(1, 1)))
	case "ScaledTanh":
		y := std(b, "Tanh", std(b, "Mul", x, constLike(b, x, param(1, 1))))
		return std(b, "Mul", y, constLike(b, x, param(0, 1)))
	case "ParametricSoftplus":
		y := std(b, "Softplus", std(b, "Mul", x, constLike(b, x, param(1, 1))))
		return std(b, "Mul", y, constLike(b, x, param(0, 1)))
	}
	fail(b, "activation: expected a known one, found %q", name)
	return nil
}
