package scalar

import "math"

func init() {
	zero, one := Const(0), Const(1)
	for op, i := range map[Op]info{
		OpSign: {name: "sign", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Select(Less(zero, x[0]), one, Select(Less(x[0], zero), Const(-1), x[0]))
		}, derive: flat},
		OpRelu: {name: "relu", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Select(Less(x[0], zero), zero, x[0])
		}, derive: deriveRelu},
		OpLeakyRelu: {name: "leakyrelu", arity: 2, define: func(x [MaxArgs]Expr) Expr {
			return Select(Less(x[0], zero), Mul(x[1], x[0]), x[0])
		}, derive: deriveLeakyRelu},
		OpThresholdedRelu: {name: "thresholdedrelu", arity: 2, define: func(x [MaxArgs]Expr) Expr {
			return Select(Less(x[1], x[0]), x[0], zero)
		}},
		OpClip: {name: "clip", arity: 3, define: func(x [MaxArgs]Expr) Expr {
			return Min(Max(x[0], x[1]), x[2])
		}, derive: deriveClip},
		OpShrink: {name: "shrink", arity: 3, define: func(x [MaxArgs]Expr) Expr {
			return Select(Less(x[0], Neg(x[2])), Add(x[0], x[1]), Select(Less(x[2], x[0]), Sub(x[0], x[1]), zero))
		}},
		OpSigmoid: {name: "sigmoid", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Div(one, Add(one, Exp(Neg(x[0]))))
		}, derive: deriveSigmoid},
		OpHardSigmoid: {name: "hardsigmoid", arity: 3, define: func(x [MaxArgs]Expr) Expr {
			return Max(zero, Min(one, Add(Mul(x[1], x[0]), x[2])))
		}, derive: deriveHardSigmoid},
		OpSwish: {name: "swish", arity: 2, define: func(x [MaxArgs]Expr) Expr {
			return Mul(x[0], Sigmoid(Mul(x[1], x[0])))
		}},
		OpHardSwish: {name: "hardswish", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Mul(x[0], Max(zero, Min(one, Add(Div(x[0], Const(6)), Const(0.5)))))
		}, derive: deriveHardSwish},
		OpGelu: {name: "gelu", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Mul(Mul(Const(0.5), x[0]), Erfc(Div(Neg(x[0]), Const(math.Sqrt2))))
		}},
		OpGeluTanh: {name: "gelutanh", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			cubic := Mul(Mul(Mul(Const(0.044715), x[0]), x[0]), x[0])
			// (1 + tanh t)/2 is sigmoid(2t), which does not cancel where t is negative
			return Mul(x[0], Sigmoid(Mul(Const(2*math.Sqrt(2/math.Pi)), Add(x[0], cubic))))
		}},
		OpElu: {name: "elu", arity: 2, define: func(x [MaxArgs]Expr) Expr {
			return Select(Less(x[0], zero), Mul(x[1], Expm1(x[0])), x[0])
		}, derive: deriveElu},
		OpCelu: {name: "celu", arity: 2, define: func(x [MaxArgs]Expr) Expr {
			return Add(Max(zero, x[0]), Min(zero, Mul(x[1], Expm1(Div(x[0], x[1])))))
		}},
		OpSelu: {name: "selu", arity: 3, define: func(x [MaxArgs]Expr) Expr {
			return Select(LessEqual(x[0], zero), Mul(Mul(x[2], x[1]), Expm1(x[0])), Mul(x[2], x[0]))
		}},
		OpSoftplus: {name: "softplus", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Add(Max(x[0], zero), Log1p(Exp(Neg(Abs(x[0])))))
		}, derive: deriveSoftplus},
		OpSoftsign: {name: "softsign", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Div(x[0], Add(one, Abs(x[0])))
		}},
		OpMish: {name: "mish", arity: 1, define: func(x [MaxArgs]Expr) Expr {
			return Mul(x[0], Tanh(Softplus(x[0])))
		}},
		OpFloorMod: {name: "floormod", arity: 2, define: func(x [MaxArgs]Expr) Expr {
			r := Mod(x[0], x[1])
			other := Xor(Less(r, zero), Less(x[1], zero))
			return Select(And(Not(Equal(r, zero)), other), Add(r, x[1]), r)
		}},
	} {
		infos[op] = i
	}
}

// Functions are given by their definitions. Parameters such as alpha are operands, and mostly constants.

// Sign is -1, 0 or 1 for x below, at or above zero. Sign of -0 is -0.
func Sign(x Expr) Expr { return Apply(OpSign, x) }

// Relu is x, or 0 below zero. Relu of -0 is -0.
func Relu(x Expr) Expr { return Apply(OpRelu, x) }

// LeakyRelu is x, or alpha·x below zero.
func LeakyRelu(x, alpha Expr) Expr { return Apply(OpLeakyRelu, x, alpha) }

// ThresholdedRelu is x if x > alpha, and 0 otherwise, for NaN too.
func ThresholdedRelu(x, alpha Expr) Expr { return Apply(OpThresholdedRelu, x, alpha) }

// Clip is min(max(x, lo), hi).
func Clip(x, lo, hi Expr) Expr { return Apply(OpClip, x, lo, hi) }

// Shrink is x+bias if x < -lambd, x-bias if x > lambd, and 0 otherwise, for NaN too.
func Shrink(x, bias, lambd Expr) Expr { return Apply(OpShrink, x, bias, lambd) }

// Sigmoid is 1/(1+exp(-x)).
func Sigmoid(x Expr) Expr { return Apply(OpSigmoid, x) }

// HardSigmoid is alpha·x+beta, clipped to [0, 1].
func HardSigmoid(x, alpha, beta Expr) Expr { return Apply(OpHardSigmoid, x, alpha, beta) }

// Swish is x·sigmoid(alpha·x). For -∞ it is NaN.
func Swish(x, alpha Expr) Expr { return Apply(OpSwish, x, alpha) }

// HardSwish is x·hardsigmoid(x) with slope 1/6 and offset 1/2. For -∞ it is NaN.
func HardSwish(x Expr) Expr { return Apply(OpHardSwish, x) }

// Gelu is x times the normal distribution function of x. For -∞ it is NaN.
func Gelu(x Expr) Expr { return Apply(OpGelu, x) }

// GeluTanh is Gelu by its usual approximation with tanh. For -∞ it is NaN.
func GeluTanh(x Expr) Expr { return Apply(OpGeluTanh, x) }

// Elu is x, or alpha·(exp(x)-1) below zero.
func Elu(x, alpha Expr) Expr { return Apply(OpElu, x, alpha) }

// Celu is max(0, x) + min(0, alpha·(exp(x/alpha)-1)).
func Celu(x, alpha Expr) Expr { return Apply(OpCelu, x, alpha) }

// Selu is gamma·x, or gamma·alpha·(exp(x)-1) where x is not above zero.
func Selu(x, alpha, gamma Expr) Expr { return Apply(OpSelu, x, alpha, gamma) }

// Softplus is log(exp(x)+1), computed as max(x, 0) + log1p(exp(-|x|)): accurate on both sides.
func Softplus(x Expr) Expr { return Apply(OpSoftplus, x) }

// Softsign is x/(1+|x|). For ±∞ it is NaN.
func Softsign(x Expr) Expr { return Apply(OpSoftsign, x) }

// Mish is x·tanh(softplus(x)). For -∞ it is NaN.
func Mish(x Expr) Expr { return Apply(OpMish, x) }

// FloorMod is the remainder of a/b with the sign of b: Mod(a, b), plus b if the signs of the two differ.
func FloorMod(a, b Expr) Expr { return Apply(OpFloorMod, a, b) }
