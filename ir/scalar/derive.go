package scalar

import "math"

// Derivative is the derivative of e with respect to operand i. Rounding to a smaller type counts as the identity;
// rounding to integers and comparisons count as constant. At kinks it is what torch's autograd has:
//
//   - 0 for Abs, Sign and Relu at 0; the slope below 0 for LeakyRelu, Elu and Selu at 0
//   - 0 at the threshold of ThresholdedRelu and Shrink, and at both ends of HardSigmoid and HardSwish that are flat
//   - 1 for Clip with respect to its first operand at a bound, and 0 with respect to the bound
//   - a half for each of two equal operands of Min and Max
//   - 0 for Pow with respect to x where y is 0, and with respect to y where x is 0
func Derivative(e Expr, i int) Expr {
	d := deriver{by: Input(i), done: map[Expr]Expr{}}
	return Simplify(orZero(d.derive(e)))
}

// deriver finds derivatives. The zero Expr represents 0, so that no product with 0 arises, which might be NaN.
type deriver struct {
	by   Expr
	done map[Expr]Expr
}

func orZero(e Expr) Expr {
	if !e.Valid() {
		return Const(0)
	}
	return e
}

func (d deriver) derive(e Expr) Expr {
	if e == d.by {
		return Const(1)
	}
	if to, ok := d.done[e]; ok {
		return to
	}
	n := e.h.Value()
	var sum Expr
	if rule := infos[n.op].derive; rule == nil && n.op.IsFunction() {
		sum = d.derive(e.Define())
	} else if n.op == OpSelect { // a sum of products would let the side that is not selected in
		if a, b := d.derive(n.args[1]), d.derive(n.args[2]); a.Valid() || b.Valid() {
			sum = Select(n.args[0], orZero(a), orZero(b))
		}
	} else if rule != nil {
		for i, a := range n.args[:n.op.Arity()] {
			inner := d.derive(a)
			if !inner.Valid() {
				continue
			}
			if term := rule(e, n.args, i); term.Valid() {
				if inner.IsConst(1) {
					inner = term
				} else if !term.IsConst(1) {
					inner = Mul(inner, term)
				}
				if sum.Valid() {
					inner = Add(sum, inner)
				}
				sum = inner
			}
		}
	}
	d.done[e] = sum
	return sum
}

type args = [MaxArgs]Expr

// A rule is the derivative of an operation with respect to its operand i, in terms of its operands x and its value e.

func flat(Expr, args, int) Expr { return Expr{} }

func through(Expr, args, int) Expr { return Const(1) }

func square(a Expr) Expr { return Mul(a, a) }

func deriveAdd(Expr, args, int) Expr { return Const(1) }

func deriveSub(_ Expr, _ args, i int) Expr { return Const(float64(1 - 2*i)) }

func deriveMul(_ Expr, x args, i int) Expr { return x[1-i] }

func deriveDiv(e Expr, x args, i int) Expr {
	if i == 0 {
		return Div(Const(1), x[1])
	}
	return Neg(Div(e, x[1]))
}

func deriveFMA(_ Expr, x args, i int) Expr {
	if i == 2 {
		return Const(1)
	}
	return x[1-i]
}

func deriveMin(_ Expr, x args, i int) Expr {
	return Select(Equal(x[0], x[1]), Const(0.5), LessEqual(x[i], x[1-i]))
}

func deriveMax(_ Expr, x args, i int) Expr {
	return Select(Equal(x[0], x[1]), Const(0.5), LessEqual(x[1-i], x[i]))
}

// deriveMod uses mod(a, b) = a - k·b for an integer k, which is locally constant.
func deriveMod(e Expr, x args, i int) Expr {
	if i == 0 {
		return Const(1)
	}
	return Neg(Round(Div(Sub(x[0], e), x[1])))
}

func derivePow(e Expr, x args, i int) Expr {
	if i == 0 {
		return Select(Equal(x[1], Const(0)), Const(0), Mul(x[1], Pow(x[0], Sub(x[1], Const(1)))))
	}
	return Select(Equal(x[0], Const(0)), Const(0), Mul(e, Log(x[0])))
}

func deriveNeg(Expr, args, int) Expr { return Const(-1) }

func deriveAbs(_ Expr, x args, _ int) Expr { return Sign(x[0]) }

func deriveSqrt(e Expr, _ args, _ int) Expr { return Div(Const(0.5), e) }

func deriveExp(e Expr, _ args, _ int) Expr { return e }

func deriveExpm1(_ Expr, x args, _ int) Expr { return Exp(x[0]) }

func deriveLog(_ Expr, x args, _ int) Expr { return Reciprocal(x[0]) }

func deriveLog1p(_ Expr, x args, _ int) Expr { return Reciprocal(Add(Const(1), x[0])) }

func deriveErf(_ Expr, x args, _ int) Expr {
	return Mul(Const(2/math.Sqrt(math.Pi)), Exp(Neg(square(x[0]))))
}

func deriveErfc(e Expr, x args, i int) Expr { return Neg(deriveErf(e, x, i)) }

func deriveSin(_ Expr, x args, _ int) Expr { return Cos(x[0]) }

func deriveCos(_ Expr, x args, _ int) Expr { return Neg(Sin(x[0])) }

func deriveTan(e Expr, _ args, _ int) Expr { return Add(Const(1), square(e)) }

func deriveAsin(_ Expr, x args, _ int) Expr {
	return Reciprocal(Sqrt(Mul(Sub(Const(1), x[0]), Add(Const(1), x[0]))))
}

func deriveAcos(e Expr, x args, i int) Expr { return Neg(deriveAsin(e, x, i)) }

func deriveAtan(_ Expr, x args, _ int) Expr { return Reciprocal(Add(Const(1), square(x[0]))) }

func deriveSinh(_ Expr, x args, _ int) Expr { return Cosh(x[0]) }

func deriveCosh(_ Expr, x args, _ int) Expr { return Sinh(x[0]) }

func deriveTanh(e Expr, _ args, _ int) Expr { return Sub(Const(1), square(e)) }

func deriveAsinh(_ Expr, x args, _ int) Expr { return Reciprocal(Sqrt(Add(square(x[0]), Const(1)))) }

func deriveAcosh(_ Expr, x args, _ int) Expr {
	return Reciprocal(Mul(Sqrt(Sub(x[0], Const(1))), Sqrt(Add(x[0], Const(1)))))
}

func deriveAtanh(_ Expr, x args, _ int) Expr {
	return Reciprocal(Mul(Sub(Const(1), x[0]), Add(Const(1), x[0])))
}

func deriveSigmoid(e Expr, _ args, _ int) Expr { return Mul(e, Sub(Const(1), e)) }

func deriveSoftplus(_ Expr, x args, _ int) Expr { return Sigmoid(x[0]) }

func deriveRelu(_ Expr, x args, _ int) Expr { return Less(Const(0), x[0]) }

func deriveLeakyRelu(_ Expr, x args, i int) Expr {
	if i == 1 {
		return Select(Less(Const(0), x[0]), Const(0), x[0])
	}
	return Select(Less(Const(0), x[0]), Const(1), x[1])
}

func deriveClip(_ Expr, x args, i int) Expr {
	switch low, high := Less(x[0], x[1]), Less(x[2], x[0]); i {
	case 0:
		return And(LessEqual(x[1], x[0]), LessEqual(x[0], x[2]))
	case 1:
		return And(low, Less(x[1], x[2]))
	default:
		return Or(high, Less(x[2], x[1]))
	}
}

func deriveHardSigmoid(_ Expr, x args, i int) Expr {
	t := Add(Mul(x[1], x[0]), x[2])
	return And(And(Less(Const(0), t), Less(t, Const(1))), [MaxArgs]Expr{x[1], x[0], Const(1)}[i])
}

func deriveHardSwish(_ Expr, x args, _ int) Expr {
	inner := Add(Div(x[0], Const(3)), Const(0.5))
	return Select(LessEqual(x[0], Const(-3)), Const(0), Select(Less(x[0], Const(3)), inner, Const(1)))
}

func deriveElu(_ Expr, x args, i int) Expr {
	below := LessEqual(x[0], Const(0))
	if i == 1 {
		return Select(below, Expm1(x[0]), Const(0))
	}
	return Select(below, Mul(x[1], Exp(x[0])), Const(1))
}
