package kernel

import (
	"math"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Functions of float32, in float32. They use no approximate instruction, so their results are the same on every
// card. operations has their accuracy. NaN gives NaN; infinities are as in package scalar.

// horner returns the polynomial of x with the given coefficients, highest power first.
func horner(x ptx.F32, c ...float64) ptx.F32 {
	p := x.FMA(ptx.F(float32(c[0])), ptx.F(float32(c[1])))
	for _, a := range c[2:] {
		p = p.FMA(x, ptx.F(float32(a)))
	}
	return p
}

// withSign returns |x| with the sign of s.
func withSign(x, s ptx.F32) ptx.F32 {
	return x.Bits().And(ptx.U(0x7fffffff)).Or(s.Bits().And(ptx.U(uint32(1) << 31))).Float()
}

// tiny returns x where |x| is below limit, because the function is x there, including -0.
func tiny(x ptx.F32, limit float32, y ptx.F32) ptx.F32 {
	return x.Abs().Lt(ptx.F(limit)).SelectF32(x, y)
}

// scaled returns p·2^n for n from -252 to 254. Subnormal results are rounded once.
func scaled(p ptx.F32, n ptx.S32) ptx.F32 {
	half := n.Shr(ptx.U(1))
	power := func(n ptx.S32) ptx.F32 { return n.Add(ptx.I(127)).Shl(ptx.U(23)).U32().Float() }
	return p.Mul(power(half)).Mul(power(n.Sub(half)))
}

// reduced returns n, the integer nearest to x/ln 2, and e^(x - n·ln 2) - 1, for |x| below 2^21.
func reduced(x ptx.F32) (n ptx.S32, e ptx.F32) {
	const round = 3 << 22 // adding it rounds to an integer
	t := x.FMA(ptx.F(math.Log2E), ptx.F(round))
	m := t.Sub(ptx.F(round))
	r := m.FMA(ptx.F(-0.693147182464599609375), x)
	r = m.FMA(ptx.F(1.9046542121259335e-9), r)
	// The coefficients below interpolate at Chebyshev points, like those of the other functions.
	q := horner(r, 0.00019891045921387787, 0.0013933699610442549, 0.0083333108758141816, 0.041666464478050265,
		0.16666666681672973, 0.5)
	return t.Bits().S32().Sub(ptx.I(0x4b400000)), q.Mul(r).FMA(r, r)
}

// expF32 returns e^x.
func expF32(x ptx.F32) ptx.F32 {
	n, e := reduced(x.MaxNaN(ptx.F(-104)).MinNaN(ptx.F(89)))
	return scaled(e.Add(ptx.F(1)), n)
}

// expm1F32 returns e^x - 1.
func expm1F32(x ptx.F32) ptx.F32 {
	n, e := reduced(x.MaxNaN(ptx.F(-30)).MinNaN(ptx.F(89)))
	s := n.Add(ptx.I(126)).Shl(ptx.U(23)).U32().Float() // 2^(n-1), because 2^128 overflows
	y := s.FMA(e, s.Sub(ptx.F(0.5)))
	return tiny(x, 0x1p-24, y.Add(y))
}

// logF32 returns the natural logarithm.
func logF32(x ptx.F32) ptx.F32 {
	small := x.Lt(ptx.F(0x1p-126))
	a := small.SelectF32(x.Mul(ptx.F(0x1p23)), x).Bits()
	e := a.Sub(ptx.U(0x3f2aaaab)).And(ptx.U(uint32(0xff800000)))
	i := e.S32().ToF32().FMA(ptx.F(0x1p-23), small.SelectF32(ptx.F(-23), ptx.F(0)))
	f := a.Sub(e).Float().Sub(ptx.F(1)) // from -1/3 to 1/3
	q := horner(f, -0.12422200575409693, 0.13748309139532635, -0.12288721609296725, 0.14055812653133344,
		-0.16673316253202249, 0.20007233984917232, -0.24999944186243984, 0.33333272619719945, -0.5)
	y := i.FMA(ptx.F(math.Ln2), q.FMA(f.Mul(f), f))
	return logarithm(y, x, 0)
}

// logarithm returns y except at the ends of its range: -∞ where x equals zero, NaN below that, and x for infinity
// and NaN.
func logarithm(y, x ptx.F32, zero float32) ptx.F32 {
	inf := float32(math.Inf(1))
	y = x.Lt(ptx.F(inf)).SelectF32(y, x)
	y = x.Lt(ptx.F(zero)).SelectF32(ptx.F(float32(math.NaN())), y)
	return x.Eq(ptx.F(zero)).SelectF32(ptx.F(-inf), y)
}

// log1pF32 returns the natural logarithm of 1 + x.
func log1pF32(x ptx.F32) ptx.F32 {
	return tiny(x, 0x1p-24, logarithm(log1pPositive(x), x, -1))
}

// log1pPositive is log1pF32 for finite x above -1; for -0 it returns 0.
func log1pPositive(x ptx.F32) ptx.F32 {
	e := x.Add(ptx.F(1)).Bits().Sub(ptx.U(0x3f400000)).And(ptx.U(uint32(0xff800000)))
	m := x.Bits().Sub(e).Float() // x·2^-n
	m = m.Add(ptx.U(0x40800000).Sub(e).Float().FMA(ptx.F(0.25), ptx.F(-1)))
	// (1 + x)·2^-n is 1 + m, from 3/4 to 3/2.
	q := horner(m, 0.039442228339169526, -0.092918689158674227, 0.11716110954488143, -0.12699308574268127,
		0.14270462797655825, -0.16656666989744085, 0.19999925279919019, -0.25000153208828495, 0.33333335766711843,
		-0.49999999626039005)
	return e.S32().ToF32().Mul(ptx.F(0x1p-23)).FMA(ptx.F(math.Ln2), q.FMA(m.Mul(m), m))
}

// tanhF32 returns the hyperbolic tangent.
func tanhF32(x ptx.F32) ptx.F32 {
	a := x.Abs()
	s := x.Mul(x)
	p := horner(s, 0.0025334413063156034, -0.0085311273160921135, 0.021819576964481883, -0.053964807172695307,
		0.13333324546900986, -0.33333333296784917)
	near := p.FMA(x.Mul(s), x)
	far := ptx.F(2).Div(expF32(a.Add(a)).Add(ptx.F(1))).Neg().Add(ptx.F(1))
	return tiny(x, 0x1p-13, a.Lt(ptx.F(0.55)).SelectF32(near, withSign(far, x)))
}

// sigmoidF32 returns 1/(1 + e^-x).
func sigmoidF32(x ptx.F32) ptx.F32 { return expF32(x.Neg()).Add(ptx.F(1)).Rcp() }

// swishF32 returns x/(1 + e^(-alpha·x)). It uses the part of alpha·x that rounding loses: without it, e^-88 would
// be off by 62 units in the last place.
func swishF32(x, alpha ptx.F32) ptx.F32 {
	p := x.Mul(alpha)
	e := expF32(p.Neg())
	exact := x.FMA(alpha, p.Neg()).Neg().FMA(e, e)
	e = exact.Eq(exact).SelectF32(exact, e) // NaN: p or e is infinite, and e is right
	return x.Div(e.Add(ptx.F(1)))
}

// tail returns erfc(z) for z = √square ≥ 0: t is 1/(1 + z/2), and square + rest is z².
func tail(t, square, rest ptx.F32) ptx.F32 {
	p := horner(t, 0.03474713299369722, -0.18569124604516813, 0.36947396405984945, -0.27476229343553256,
		-0.033049974255373093, 0.040428251943726256, 0.053609361183238124, 0.18570894262478991, 0.24520063794838363,
		0.28224628338009834, 0.28208894200828448)
	e := expF32(square.Neg())
	return p.Mul(t).Mul(e.FMA(rest.Neg(), e))
}

// erfcOfAbs returns the complementary error function of |x|.
func erfcOfAbs(x ptx.F32) ptx.F32 {
	z := x.Abs().MinNaN(ptx.F(12)) // the result is 0 there
	h := z.Mul(z)
	return tail(z.FMA(ptx.F(0.5), ptx.F(1)).Rcp(), h, z.FMA(z, h.Neg()))
}

// erfcF32 returns the complementary error function.
func erfcF32(x ptx.F32) ptx.F32 {
	r := erfcOfAbs(x)
	return x.Lt(ptx.F(0)).SelectF32(ptx.F(2).Sub(r), r)
}

// erfNear returns the error function for |x| ≤ 1, where s is x².
func erfNear(x, s ptx.F32) ptx.F32 {
	p := horner(s, -9.6670445714869964e-6, 0.00011265959025606609, -0.00084840804055351063, 0.0052210318078580228,
		-0.026865430727670243, 0.11283782495236845, -0.3761263846802871, 0.12837916706154342)
	return x.FMA(p, x)
}

// erfF32 returns the error function.
func erfF32(x ptx.F32) ptx.F32 {
	near := erfNear(x, x.Mul(x))
	far := withSign(ptx.F(1).Sub(erfcOfAbs(x)), x)
	return x.Abs().Lt(ptx.F(1)).SelectF32(near, far)
}

// geluF32 returns x times the normal distribution function of x.
func geluF32(x ptx.F32) ptx.F32 {
	a := x.Abs().MinNaN(ptx.F(17))
	b := a.Mul(ptx.F(0.5))
	h := a.Mul(b)
	r := tail(a.FMA(ptx.F(0.5/math.Sqrt2), ptx.F(1)).Rcp(), h, a.FMA(b, h.Neg())).Mul(ptx.F(0.5))
	far := x.Lt(ptx.F(0)).SelectF32(r, ptx.F(1).Sub(r))
	near := erfNear(x.Mul(ptx.F(1/math.Sqrt2)), h).FMA(ptx.F(0.5), ptx.F(0.5))
	return x.Mul(h.Lt(ptx.F(1)).SelectF32(near, far))
}

// geluTanhF32 returns the approximation of geluF32 by tanh: x/(1 + e^-2u), with the tanh of u.
func geluTanhF32(x ptx.F32) ptx.F32 {
	c := 2 * math.Sqrt(2/math.Pi)
	u := x.Mul(x).FMA(ptx.F(float32(c*0.044715)), ptx.F(float32(c))).Mul(x)
	return x.Div(expF32(u.Neg()).Add(ptx.F(1)))
}

// softplusF32 returns log(e^x + 1).
func softplusF32(x ptx.F32) ptx.F32 {
	return x.MaxNaN(ptx.F(0)).Add(log1pPositive(expF32(x.Abs().Neg())))
}

// mishF32 returns x·tanh(softplus(x)).
func mishF32(x ptx.F32) ptx.F32 {
	e := expF32(x.MinNaN(ptx.F(20)))
	n := e.Mul(e.Add(ptx.F(2))) // tanh(ln(1 + e)) is n/(n + 2)
	return x.Mul(n.Div(n.Add(ptx.F(2))))
}

// quadrant returns the integer q nearest to x/(π/2), whose lowest bits matter, and the remainder r in radians,
// which is NaN for infinities and NaN.
func quadrant(k *ptx.Kernel, x ptx.F32) (q ptx.U32, r ptx.F32) {
	const round = 3 << 22 // adding it rounds to an integer
	t := x.FMA(ptx.F(2/math.Pi), ptx.F(round))
	j := t.Sub(ptx.F(round))
	// π/2 in three parts
	r = j.FMA(ptx.F(-0x1.921fb0p0), x)
	r = j.FMA(ptx.F(-0x1.5110b4p-22), r)
	r = j.FMA(ptx.F(-0x1.846988p-48), r)
	q, r = k.VarU32(t.Bits()), k.VarF32(r)
	k.If(x.Abs().Le(ptx.F(48039)).Not(), func() {
		far, rest := farQuadrant(x)
		q.Set(far)
		r.Set(rest.F32())
	})
	return q, r
}

// twoOverPi is the fraction of 2/π in 32-bit words, after 32 bits of 0.
var twoOverPi = [...]uint32{0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab}

// farQuadrant is quadrant for |x| above 2^16, by a product of integers with the bits of 2/π that count.
func farQuadrant(x ptx.F32) (q ptx.U32, r ptx.F64) {
	bits := x.Bits()
	e := bits.Shr(ptx.U(23)).And(ptx.U(255))
	m := bits.And(ptx.U(0x7fffff)).Or(ptx.U(0x800000)) // |x| is m·2^(e-150)
	at := e.Sub(ptx.U(120))                            // the first bit of twoOverPi·2^(e-150) below 4
	word, shift := at.Shr(ptx.U(5)), at.And(ptx.U(31))
	var w [4]ptx.U64
	for i := range w {
		c := ptx.U(twoOverPi[i+4])
		for j := 3; j >= 0; j-- {
			c = word.Eq(ptx.U(j)).SelectU32(ptx.U(twoOverPi[i+j]), c)
		}
		w[i] = c.Wide()
	}
	var part [3]ptx.U32 // 2 bits before the point, and 94 after it
	for i := range part {
		part[i] = w[i].Shl(ptx.U(32)).Or(w[i+1]).Shl(shift).Shr(ptx.U(32)).Low()
	}
	p := m.MulWide(part[0]).Shl(ptx.U(32)).Add(m.MulWide(part[1])).Add(m.MulWide(part[2]).Shr(ptx.U(32)))
	near := p.Add(ptx.L(1 << 61)).Shr(ptx.U(62))
	r = p.Sub(near.Shl(ptx.U(62))).SignedF64().Mul(ptx.D(math.Pi / 2 * 0x1p-62))
	q = near.Low()
	below := x.Lt(ptx.F(0))
	q = below.SelectU32(ptx.U(0).Sub(q), q)
	r = below.SelectF64(r.Neg(), r)
	return q, x.Abs().Lt(ptx.F(float32(math.Inf(1)))).SelectF64(r, ptx.D(math.NaN()))
}

// sinOrCos returns the sine of the angle of quadrant q and rest r.
func sinOrCos(q ptx.U32, r ptx.F32) ptx.F32 {
	s := r.Mul(r)
	sine := horner(s, 2.7246868722877945e-6, -0.00019840063040804117, 0.0083333318306294284, -0.16666666663741368).
		FMA(r.Mul(s), r)
	cosine := horner(s, -2.7298407652795175e-7, 2.4800580601354642e-5, -0.0013888887635227975, 0.041666666664226134).
		FMA(s.Mul(s), s.FMA(ptx.F(-0.5), ptx.F(1)))
	y := q.And(ptx.U(1)).Eq(ptx.U(0)).SelectF32(sine, cosine)
	return y.Bits().Xor(q.And(ptx.U(2)).Shl(ptx.U(30))).Float()
}

// sinF32 returns the sine.
func sinF32(k *ptx.Kernel, x ptx.F32) ptx.F32 {
	return tiny(x, 0x1p-13, sinOrCos(quadrant(k, x)))
}

// cosF32 returns the cosine.
func cosF32(k *ptx.Kernel, x ptx.F32) ptx.F32 {
	q, r := quadrant(k, x)
	return sinOrCos(q.Add(ptx.U(1)), r)
}

// modF32 returns the remainder of a/b with the sign of a, which is exact: of integers, 40 bits of the quotient at a time.
func modF32(k *ptx.Kernel, a, b ptx.F32) ptx.F32 {
	parts := func(x ptx.F32) (exponent, m ptx.U32) { // |x| is m·2^(exponent-150)
		e := x.Bits().Shr(ptx.U(23)).And(ptx.U(255))
		m = x.Bits().And(ptx.U(0x7fffff))
		return e.Max(ptx.U(1)), e.Eq(ptx.U(0)).SelectU32(m, m.Or(ptx.U(0x800000)))
	}
	ea, ma := parts(a)
	eb, mb := parts(b)
	inf := ptx.F(float32(math.Inf(1)))
	less := a.Abs().Lt(b.Abs())
	divisor := mb.Max(ptx.U(1)).Wide()
	rest := k.VarU64(ma.Wide().Rem(divisor))
	left := k.VarU32(less.SelectU32(ptx.U(0), ea.Max(eb).Sub(eb)))
	k.While(func() ptx.Pred { return left.Gt(ptx.U(0)) }, func() {
		n := left.Min(ptx.U(40))
		rest.Set(rest.Shl(n).Rem(divisor))
		left.Set(left.Sub(n))
	})
	y := scaled(rest.Low().ToF32(), eb.S32().Sub(ptx.I(150)))
	y = less.SelectF32(a, withSign(y, a))
	valid := a.Abs().Lt(inf).And(b.Eq(ptx.F(0)).Or(b.IsNaN()).Not())
	return valid.SelectF32(y, ptx.F(float32(math.NaN())))
}
