package kernel

import (
	"math"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Functions of float64, accurate to 2 units in the last place unless documented otherwise. NaN gives NaN; infinities
// are as in package scalar.

// wideDirect reports whether an operation on float64 has an implementation.
func wideDirect(op scalar.Op) bool {
	switch op {
	case scalar.OpAdd, scalar.OpSub, scalar.OpMul, scalar.OpDiv, scalar.OpFMA, scalar.OpMin, scalar.OpMax, scalar.OpNeg,
		scalar.OpAbs, scalar.OpSqrt, scalar.OpFloor, scalar.OpCeil, scalar.OpRound, scalar.OpFloat32, scalar.OpExp,
		scalar.OpExpm1, scalar.OpLog, scalar.OpLog1p, scalar.OpTanh, scalar.OpPow, scalar.OpLess, scalar.OpLessEqual,
		scalar.OpEqual, scalar.OpSelect:
		return true
	}
	return false
}

// powerOf2 returns 2^n for n from -1022 to 1023.
func powerOf2(n ptx.S32) ptx.F64 {
	return ptx.JoinF64(n.U32().And(ptx.U(0)), n.Add(ptx.I(1023)).Shl(ptx.U(20)).U32())
}

// reduced64 returns n, the integer nearest to x/ln 2, and e^(x - n·ln 2) - 1.
func reduced64(x ptx.F64) (n ptx.S32, e ptx.F64) {
	m := x.Mul(ptx.D(math.Log2E)).RoundEven()
	r := m.FMA(ptx.D(-6.93147180369123816490e-01), x)
	r = m.FMA(ptx.D(-1.90821492927058770002e-10), r)
	c := make([]float64, 12) // 1/13! to 1/2!
	f := 1.0
	for i := 2; i <= 13; i++ {
		f *= float64(i)
		c[13-i] = 1 / f
	}
	return m.S32(), horner64(r, c...).Mul(r).FMA(r, r)
}

// expF64 returns e^x.
func expF64(x ptx.F64) ptx.F64 {
	x = x.Lt(ptx.D(-746)).SelectF64(ptx.D(-746), x)
	x = x.Gt(ptx.D(710)).SelectF64(ptx.D(710), x)
	n, e := reduced64(x)
	half := n.Shr(ptx.U(1))
	return e.Add(ptx.D(1)).Mul(powerOf2(half)).Mul(powerOf2(n.Sub(half)))
}

// expm1F64 returns e^x - 1.
func expm1F64(x ptx.F64) ptx.F64 {
	_, e := reduced64(x)
	return x.Abs().Lt(ptx.D(math.Ln2/2)).SelectF64(e, expF64(x).Sub(ptx.D(1)))
}

// logF64 returns the natural logarithm.
func logF64(x ptx.F64) ptx.F64 {
	low := x.Lt(ptx.D(0x1p-1022)) // subnormal numbers
	y := low.SelectF64(x.Mul(ptx.D(0x1p54)), x)
	l, h := y.Halves()
	e := h.Sub(ptx.U(0x3fe6a09e)).And(ptx.U(uint32(0xfff00000)))
	f := ptx.JoinF64(l, h.Sub(e)).Sub(ptx.D(1)) // from √½ - 1 to √2 - 1
	k := e.S32().Shr(ptx.U(20)).Sub(low.SelectS32(ptx.I(54), ptx.I(0))).ToF64()
	s := f.Div(f.Add(ptx.D(2)))
	z := s.Mul(s)
	r := horner64(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
		2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01).Mul(z)
	half := f.Mul(f).Mul(ptx.D(0.5))
	rest := k.FMA(ptx.D(1.90821492927058770002e-10), s.Mul(half.Add(r)))
	out := k.FMA(ptx.D(6.93147180369123816490e-01), f.Sub(half.Sub(rest)))
	inf := ptx.D(math.Inf(1))
	out = x.Lt(inf).SelectF64(out, x) // infinity and NaN
	out = x.Lt(ptx.D(0)).SelectF64(ptx.D(math.NaN()), out)
	return x.Eq(ptx.D(0)).SelectF64(ptx.D(math.Inf(-1)), out)
}

// log1pF64 returns the natural logarithm of 1 + x.
func log1pF64(x ptx.F64) ptx.F64 {
	u := x.Add(ptx.D(1))
	y := logF64(u).Add(x.Sub(u.Sub(ptx.D(1))).Div(u)) // the part that the sum has lost
	ordinary := u.Gt(ptx.D(0)).And(u.Lt(ptx.D(math.Inf(1))))
	y = ordinary.SelectF64(y, logF64(u))
	return x.Abs().Lt(ptx.D(0x1p-54)).SelectF64(x, y)
}

// tanhF64 returns the hyperbolic tangent.
func tanhF64(x ptx.F64) ptx.F64 {
	a := x.Abs()
	a = a.Gt(ptx.D(22)).SelectF64(ptx.D(22), a)
	e := expm1F64(a.Add(a))
	y := e.Div(e.Add(ptx.D(2)))
	y = x.Lt(ptx.D(0)).SelectF64(y.Neg(), y)
	return x.Abs().Lt(ptx.D(0x1p-28)).SelectF64(x, y)
}

// powF64 returns a to the power of b, within a relative error of 1e-13 and |b|·|log a| units in the last place.
// Integer powers up to 64 whose results have at most 53 bits are exact, and so is the square root.
func powF64(k *ptx.Kernel, a, b ptx.F64) ptx.F64 {
	inf := ptx.D(math.Inf(1))
	size, whole := a.Abs(), b.RoundEven().Eq(b)
	half := b.Mul(ptx.D(0.5))
	odd := whole.And(half.RoundEven().Ne(half)).And(b.Abs().Lt(ptx.D(0x1p53)))
	y := k.VarF64(ptx.D(1))
	k.IfElse(whole.And(b.Abs().Le(ptx.D(64))), func() {
		n, square := k.VarU32(b.Abs().S32().U32()), k.VarF64(size)
		k.While(func() ptx.Pred { return n.Ne(ptx.U(0)) }, func() {
			y.Set(n.And(ptx.U(1)).Ne(ptx.U(0)).SelectF64(y.Mul(square), y))
			square.Set(square.Mul(square))
			n.Set(n.Shr(ptx.U(1)))
		})
		y.Set(b.Lt(ptx.D(0)).SelectF64(y.Rcp(), y))
	}, func() {
		l := logF64(size)
		t := b.Mul(l)
		y.Set(expF64(t))
		// Infinite or zero operands: the logarithm may be infinite, but never meets a power of 0.
		y.Set(size.Eq(ptx.D(1)).SelectF64(ptx.D(1), y))
		y.Set(b.Eq(ptx.D(0.5)).SelectF64(size.Sqrt(), y))
	})
	out := odd.And(a.Bits().Shr(ptx.U(63)).Ne(ptx.L(0))).SelectF64(y.Neg(), y)
	root := a.Lt(ptx.D(0)).And(size.Lt(inf)).And(whole.Not()).And(b.Abs().Lt(inf))
	out = root.Or(a.IsNaN()).Or(b.IsNaN()).SelectF64(ptx.D(math.NaN()), out)
	return a.Eq(ptx.D(1)).Or(b.Eq(ptx.D(0))).SelectF64(ptx.D(1), out)
}
