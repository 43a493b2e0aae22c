package kernel

import (
	"math"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Functions of float32 that are rare, or need more digits in between. They compute in float64 and round once.

// horner64 is horner in float64.
func horner64(x ptx.F64, c ...float64) ptx.F64 {
	p := x.FMA(ptx.D(c[0]), ptx.D(c[1]))
	for _, a := range c[2:] {
		p = p.FMA(x, ptx.D(a))
	}
	return p
}

// exp64 returns e^x with a relative error below 1e-14, with x clamped to the range from -690 to 690.
func exp64(x ptx.F64) ptx.F64 {
	x = x.Lt(ptx.D(-690)).SelectF64(ptx.D(-690), x)
	x = x.Gt(ptx.D(690)).SelectF64(ptx.D(690), x)
	m := x.Mul(ptx.D(math.Log2E)).RoundEven()
	r := m.FMA(ptx.D(-6.93147180369123816490e-01), x)
	r = m.FMA(ptx.D(-1.90821492927058770002e-10), r)
	q := horner64(r, 2.7613869441565016e-7, 2.7625190699116632e-6, 2.4801536275858556e-5, 0.0001984120859709364,
		0.0013888888905938052, 0.0083333333537972305, 0.041666666666651287, 0.16666666666648207, 0.5)
	low, high := q.Mul(r).FMA(r, r).Add(ptx.D(1)).Halves()
	return ptx.JoinF64(low, high.Add(m.S32().Shl(ptx.U(20)).U32()))
}

// log64 returns the natural logarithm of a positive normal number, with a relative error below 1e-13.
func log64(x ptx.F64) ptx.F64 {
	low, high := x.Halves()
	e := high.Sub(ptx.U(0x3fe6a09e)).And(ptx.U(uint32(0xfff00000)))
	m := ptx.JoinF64(low, high.Sub(e)) // from √½ to √2
	s := m.Sub(ptx.D(1)).Div(m.Add(ptx.D(1)))
	u := s.Mul(s)
	p := horner64(u, 0.083111899427808192, 0.090700782750814145, 0.11111431566218855, 0.14285712065245488,
		0.20000000005615589, 0.33333333333331036)
	s = s.Add(s)
	return e.S32().Shr(ptx.U(20)).ToF64().FMA(ptx.D(math.Ln2), p.FMA(s.Mul(u), s))
}

// atan64 returns the arctangent of x ≥ 0, with an error below 1e-12.
func atan64(x ptx.F64) ptx.F64 {
	over := x.Gt(ptx.D(1))
	t := over.SelectF64(x.Rcp(), x)
	high := t.Gt(ptx.D(0.4142135623730951))
	t = high.SelectF64(t.Sub(ptx.D(1)).Div(t.Add(ptx.D(1))), t)
	u := t.Mul(t)
	p := horner64(u, 0.032943429670464103, -0.060265598397661896, 0.076046366540953332, -0.090840843007213618,
		0.1111081875143713, -0.14285708085366841, 0.19999999949614762, -0.33333333333265828)
	y := p.FMA(t.Mul(u), t).Add(high.SelectF64(ptx.D(math.Pi/4), ptx.D(0)))
	return over.SelectF64(ptx.D(math.Pi/2).Sub(y), y)
}

// tanF32 returns the tangent.
func tanF32(k *ptx.Kernel, x ptx.F32) ptx.F32 {
	a := x.F64()
	j := a.Mul(ptx.D(2 / math.Pi)).RoundEven()
	rest := j.FMA(ptx.D(-1.5707963267948966), a)
	rest = j.FMA(ptx.D(-6.123233995736766e-17), rest)
	q, r := k.VarU32(j.S32().U32()), k.VarF64(rest)
	k.If(x.Abs().Le(ptx.F(0x1p20)).Not(), func() {
		far, rest := farQuadrant(x)
		q.Set(far)
		r.Set(rest)
	})
	s := r.Mul(r)
	sine := horner64(s, 1.5916726193889337e-10, -2.5051112272573244e-8, 2.7557316008171551e-6, -0.00019841269836575709,
		0.008333333333330827, -0.16666666666666664).FMA(r.Mul(s), r)
	cosine := horner64(s, -1.1381754653662937e-11, 2.0876134024090146e-9, -2.755731721268659e-7, 2.4801587298651292e-5,
		-0.0013888888888887321, 0.041666666666666665).FMA(s.Mul(s), s.FMA(ptx.D(-0.5), ptx.D(1)))
	even := q.And(ptx.U(1)).Eq(ptx.U(0))
	y := even.SelectF64(sine, cosine.Neg()).Div(even.SelectF64(cosine, sine))
	return tiny(x, 0x1p-13, y.F32())
}

// atanF32 returns the arctangent.
func atanF32(x ptx.F32) ptx.F32 { return withSign(atan64(x.Abs().F64()).F32(), x) }

// asinF32 returns the arcsine.
func asinF32(x ptx.F32) ptx.F32 {
	a := x.Abs().F64()
	w := ptx.D(1).Sub(a).Mul(a.Add(ptx.D(1))).Sqrt()
	return nanOr(x, withSign(atan64(a.Div(w)).F32(), x), func() ptx.Pred { return x.Abs().Gt(ptx.F(1)) })
}

// nanOr returns NaN where x is NaN or p is true, and y elsewhere.
func nanOr(x, y ptx.F32, p func() ptx.Pred) ptx.F32 {
	return x.IsNaN().Or(p()).SelectF32(ptx.F(float32(math.NaN())), y)
}

// acosF32 returns the arccosine.
func acosF32(x ptx.F32) ptx.F32 {
	a := x.F64()
	y := atan64(ptx.D(1).Sub(a).Div(a.Add(ptx.D(1))).Sqrt())
	return nanOr(x, y.Add(y).F32(), func() ptx.Pred { return x.Abs().Gt(ptx.F(1)) })
}

// sinhF32 returns the hyperbolic sine.
func sinhF32(x ptx.F32) ptx.F32 {
	a := x.Abs().F64()
	s := a.Mul(a)
	near := horner64(s, 1.6290047203302096e-10, 2.5049503805057475e-8, 2.7557332743306003e-6, 0.00019841269809566648,
		0.0083333333333605147, 0.16666666666666629).FMA(a.Mul(s), a)
	e := exp64(a)
	far := e.Sub(e.Rcp()).Mul(ptx.D(0.5))
	return withSign(a.Lt(ptx.D(1)).SelectF64(near, far).F32(), x)
}

// coshF32 returns the hyperbolic cosine.
func coshF32(x ptx.F32) ptx.F32 {
	e := exp64(x.Abs().F64())
	return e.Add(e.Rcp()).Mul(ptx.D(0.5)).F32()
}

// asinhF32 returns the inverse hyperbolic sine.
func asinhF32(x ptx.F32) ptx.F32 {
	a := x.Abs().F64()
	y := withSign(log64(a.Add(a.FMA(a, ptx.D(1)).Sqrt())).F32(), x)
	y = x.Abs().Lt(ptx.F(float32(math.Inf(1)))).SelectF32(y, x)
	return tiny(x, 0x1p-13, y)
}

// acoshF32 returns the inverse hyperbolic cosine.
func acoshF32(x ptx.F32) ptx.F32 {
	a := x.F64()
	y := log64(a.Add(a.Sub(ptx.D(1)).Mul(a.Add(ptx.D(1))).Sqrt())).F32()
	y = x.Lt(ptx.F(float32(math.Inf(1)))).SelectF32(y, x)
	return x.Lt(ptx.F(1)).SelectF32(ptx.F(float32(math.NaN())), y)
}

// atanhF32 returns the inverse hyperbolic tangent.
func atanhF32(x ptx.F32) ptx.F32 {
	a := x.Abs().F64()
	y := withSign(log64(a.Add(ptx.D(1)).Div(ptx.D(1).Sub(a))).Mul(ptx.D(0.5)).F32(), x)
	y = x.Abs().Eq(ptx.F(1)).SelectF32(x.Mul(ptx.F(float32(math.Inf(1)))), y)
	return tiny(x, 0x1p-13, nanOr(x, y, func() ptx.Pred { return x.Abs().Gt(ptx.F(1)) }))
}

// powF32 returns a to the power of b.
func powF32(a, b ptx.F32) ptx.F32 {
	inf, one, nan := ptx.F(float32(math.Inf(1))), ptx.F(1), ptx.F(float32(math.NaN()))
	size := a.Abs()
	l := log64(size.F64())
	l = size.Eq(ptx.F(0)).SelectF64(ptx.D(-1e300), l) // out of range even times the smallest b
	l = size.Eq(inf).SelectF64(ptx.D(1e300), l)
	y := exp64(b.F64().Mul(l)).F32()
	whole := b.Trunc().Eq(b)
	half := b.Mul(ptx.F(0.5)).Trunc()
	odd := whole.And(half.Add(half).Ne(b))
	negative := a.Bits().Shr(ptx.U(31)).Eq(ptx.U(1))
	y = negative.And(odd).SelectF32(y.Neg(), y)
	root := a.Lt(ptx.F(0)).And(size.Lt(inf)).And(whole.Not())
	y = root.Or(a.IsNaN()).Or(b.IsNaN()).SelectF32(nan, y)
	unit := a.Eq(one).Or(b.Eq(ptx.F(0))).Or(size.Eq(one).And(b.Abs().Eq(inf)))
	return unit.SelectF32(one, y)
}
