package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// constants are the float32 numbers that functions broadcast; each is placed in memory once.
var constants = map[uint32]Mem{}

func splatMem(x float32) Mem {
	bits := math.Float32bits(x)
	m, ok := constants[bits]
	if !ok {
		m = ConstData(fmt.Sprintf("f%08x", bits), U32(bits))
		constants[bits] = m
	}
	return m
}

// splat broadcasts a number.
func splat(x float32) VecVirtual {
	y := target.vector()
	VBROADCASTSS(splatMem(x), y)
	return y
}

// vecs are vectors that a function works on side by side: their chains of operations are independent, so one's latency hides
// behind the other's work, and they share the broadcast constants.
type vecs []VecVirtual

func fresh(n int) vecs {
	v := make(vecs, n)
	for i := range v {
		v[i] = target.vector()
	}
	return v
}

// splats broadcasts a number into as many vectors as x has.
func (x vecs) splats(c float32) vecs {
	v := fresh(len(x))
	VBROADCASTSS(splatMem(c), v[0])
	for _, w := range v[1:] {
		VMOVAPS(v[0], w)
	}
	return v
}

// with makes f(c, x, y) of each vector and one broadcast number.
func (x vecs) with(c float32, f func(...Op)) vecs {
	k, v := splat(c), fresh(len(x))
	for i := range x {
		f(k, x[i], v[i])
	}
	return v
}

// and makes f(b, a, y) of two vectors each.
func (x vecs) and(b vecs, f func(...Op)) vecs {
	v := fresh(len(x))
	for i := range x {
		f(b[i], x[i], v[i])
	}
	return v
}

// poly evaluates a polynomial by Horner's rule, highest coefficient first; each coefficient is broadcast when it is needed,
// so that functions fit into sixteen registers.
func poly(x vecs, c ...float32) vecs {
	p := x.splats(c[0])
	for _, k := range c[1:] {
		q := splat(k)
		for i := range x {
			VFMADD213PS(q, x[i], p[i]) // p = p·x + k
		}
	}
	return p
}

// clamp bounds x, which may stay NaN, from above and below.
func (x vecs) clamp(lo, hi float32) vecs {
	v := fresh(len(x))
	h, l := splat(hi), splat(lo)
	for i := range x {
		VMINPS(x[i], h, v[i]) // of two operands of which one is NaN these give the second, which is x here
		VMAXPS(v[i], l, v[i])
	}
	return v
}

// exp is e^(sign·x): 2ⁿ times a polynomial of degree six in the rest, which is at most a half. The argument is clamped to
// where float32 has normal numbers; results there are right, and below them tiny rather than denormal. NaN stays.
func exp(x vecs, sign float32) vecs {
	const log2e, rest = 1.4426950216293335, 1.9259629911266175e-08
	lo, hi := float32(-87.33), float32(88.72)
	if sign < 0 {
		lo, hi = -hi, -lo
	}
	t := x.clamp(lo, hi)
	n := t.with(sign*log2e, VMULPS)
	for i := range n {
		if target.masks() {
			VRNDSCALEPS(Imm(0), n[i], n[i])
		} else {
			VROUNDPS(Imm(0), n[i], n[i])
		}
	}
	f, high, low := fresh(len(x)), splat(sign*log2e), splat(sign*rest)
	for i := range t {
		VMOVAPS(n[i], f[i])
		VFMSUB231PS(high, t[i], f[i]) // t·high - n, exactly
		VFMADD231PS(low, t[i], f[i])
	}
	p := poly(f, 0.00015353357274721266, 0.00133988762426831, 0.009618437390965932, 0.05550332465333555, 0.24022647913122666, 0.6931472028587317, 1)
	for i := range p {
		VCVTPS2DQ(n[i], n[i])
		VPSLLD(Imm(23), n[i], n[i])
		VPADDD(n[i], p[i], p[i])
	}
	return p
}

// overflowing is exp with infinity where the argument is beyond the largest number.
func overflowing(x vecs, sign float32) vecs {
	y := exp(x, sign)
	big, inf, how := splat(sign*88.72), splat(float32(math.Inf(1))), uint64(greater)
	if sign < 0 {
		how = less
	}
	for i := range x {
		pick(compare(how, big, x[i]), inf, y[i], y[i])
	}
	return y
}

// exponential is eˣ over its whole range.
func exponential(x vecs) vecs {
	y := overflowing(x, 1)
	small := splat(-87.33)
	for i := range x {
		under := compare(less, small, x[i])
		if target.masks() {
			VBLENDMPS(splat(0), y[i], under, y[i])
		} else {
			VANDNPS(y[i], under, y[i])
		}
	}
	return y
}

// unary generates y = f(x) over n numbers, two vectors at a time.
func unary(name, doc string, f func(x vecs) vecs) {
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, y, x *float32)")
	Pragma("noescape")
	Doc(name + " " + doc + " " + target.numbers() + "; y may be x.")
	pairs(f)
}

// unaryAlpha is unary for functions with a parameter.
func unaryAlpha(name, doc string, f func(x vecs, alpha VecVirtual) vecs) {
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, y, x *float32, alpha float32)")
	Pragma("noescape")
	Doc(name + " " + doc + " " + target.numbers() + "; y may be x.")
	alpha := broadcast("alpha")
	pairs(func(x vecs) vecs { return f(x, alpha) })
}

// broadcast fills a vector with a parameter.
func broadcast(param string) VecVirtual {
	v := target.vector()
	VBROADCASTSS(argument(param), v)
	return v
}

// pairs writes the loop of unary.
func pairs(f func(x vecs) vecs) {
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	sweep(n.(GPVirtual), true, []Register{x, y}, func(width int, mask Op) {
		v := make(vecs, width)
		for i := range v {
			v[i] = fetch(Mem{Base: x, Disp: target.size * i}, mask)
		}
		for i, w := range f(v) {
			put(w, mask, Mem{Base: y, Disp: target.size * i})
		}
	})
	VZEROUPPER()
	RET()
}

// binary generates y = f(a, b) over n numbers.
func binary(name, doc string, f func(ops ...Op)) {
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, y, a, b *float32)")
	Pragma("noescape")
	Doc(name + " " + doc + " " + target.numbers() + "; y may be a or b.")
	n, y, a, b := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	sweep(n.(GPVirtual), false, []Register{a, b, y}, func(width int, mask Op) {
		for i := range width {
			at := target.size * i
			v := fetch(Mem{Base: a, Disp: at}, mask)
			f(fetched(Mem{Base: b, Disp: at}, mask), v, v)
			put(v, mask, Mem{Base: y, Disp: at})
		}
	})
	VZEROUPPER()
	RET()
}

// affine generates one row of y = scale·x + shift.
func affine() {
	name := "affine" + target.name
	TEXT(name, NOSPLIT, "func(n int, y, x, scale, shift *float32)")
	Pragma("noescape")
	Doc(name + " is y = scale·x + shift, rounded once. " + target.numbers() + "; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	scale, shift := Load(Param("scale"), GP64()), Load(Param("shift"), GP64())
	sweep(n.(GPVirtual), false, []Register{y, x, scale, shift}, func(width int, mask Op) {
		for i := range width {
			at := target.size * i
			s, v := fetch(Mem{Base: shift, Disp: at}, mask), fetch(Mem{Base: x, Disp: at}, mask)
			VFMADD231PS(fetched(Mem{Base: scale, Disp: at}, mask), v, s)
			put(s, mask, Mem{Base: y, Disp: at})
		}
	})
	VZEROUPPER()
	RET()
}

// passNaN gives x where it is not a number, and y elsewhere.
func passNaN(x, y vecs) vecs {
	for i := range x {
		pick(compare(unordered, x[i], x[i]), x[i], y[i], y[i])
	}
	return y
}

var signBit = float32(math.Copysign(0, -1))

// magnitude is |x|.
func magnitude(x vecs) vecs { return x.with(math.Float32frombits(0x7fffffff), VANDPS) }

// inverse is c/x.
func inverse(c float32, x vecs) vecs {
	k, y := splat(c), fresh(len(x))
	for i := range x {
		VDIVPS(x[i], k, y[i])
	}
	return y
}

func sigmoid(x vecs) vecs { return inverse(1, exp(x, -1).with(1, VADDPS)) }

// swish is x/(1 + e^(-alpha·x)).
func swish(x vecs, alpha VecVirtual) vecs {
	t := fresh(len(x))
	for i := range x {
		VMULPS(alpha, x[i], t[i])
	}
	d := overflowing(t, -1).with(1, VADDPS)
	for i := range x {
		VDIVPS(d[i], x[i], d[i])
	}
	return d
}

// halfErf is erf(x/√2)/2 to 1.4e-7, for x between -5.5 and 5.5: x times a quotient of polynomials in x², fitted to the least
// largest error as float32 computes it.
func halfErf(x vecs) vecs {
	s := x.and(x, VMULPS)
	q := poly(s, 1.19745198e-06, 7.36277652e-05, 0.00188414881, 0.028643107, 0.251510292, 1)
	p := poly(s, 2.27498074e-08, 6.35123843e-06, 0.000168772662, 0.00467693526, 0.0338480063, 0.398942232)
	for i := range x {
		VMULPS(x[i], p[i], p[i])
		VDIVPS(q[i], p[i], p[i])
	}
	return p
}

// gelu is x·(½ + erf(x/√2)/2); the bracket is exactly 0 or 1 where x is far from zero.
func gelu(x vecs) vecs {
	p := halfErf(x.clamp(-5.5, 5.5)).clamp(-0.5, 0.5).with(0.5, VADDPS)
	return p.and(x, VMULPS)
}

// erf is 2·halfErf(√2·x).
func erf(x vecs) vecs {
	return halfErf(x.with(math.Sqrt2, VMULPS).clamp(-5.5, 5.5)).with(2, VMULPS).clamp(-1, 1)
}

// tanh is a quotient of exponentials, and a polynomial near zero, where the quotient cancels.
func tanh(x vecs) vecs {
	a := magnitude(x)
	e := a.and(a, VADDPS).with(40, VMINPS)
	q := inverse(2, exp(e, 1).with(1, VADDPS))
	y := x.splats(1)
	sign := splat(signBit)
	for i := range x {
		VSUBPS(q[i], y[i], y[i])
		s := target.vector()
		VANDPS(sign, x[i], s)
		VORPS(s, y[i], y[i])
	}
	s := x.and(x, VMULPS)
	p := poly(s, -1382.0/155925, 62.0/2835, -17.0/315, 2.0/15, -1.0/3).and(s, VMULPS)
	limit := splat(0.45)
	for i := range x {
		VFMADD213PS(x[i], x[i], p[i]) // x + x·p
		pick(compare(below, limit, magnitude(x[i : i+1])[0]), p[i], y[i], y[i])
	}
	return passNaN(x, y)
}

// geluTanh is x/2·(1 + tanh u) = x/(1 + e^(-2u)), u = √(2/π)·(x + 0.044715·x³).
func geluTanh(x vecs) vecs {
	const c = 0.7978845608028654
	s := x.and(x, VMULPS)
	u := poly(s, 2*c*0.044715, 2*c)
	u = u.and(x, VMULPS)
	d := overflowing(u, -1).with(1, VADDPS)
	for i := range x {
		VDIVPS(d[i], x[i], d[i])
	}
	return d
}

func relu(x vecs) vecs {
	zero, y := target.vector(), fresh(len(x))
	VXORPS(zero, zero, zero)
	for i := range x {
		VMAXPS(x[i], zero, y[i]) // NaN and -0 stay
	}
	return y
}

func leakyRelu(x vecs, alpha VecVirtual) vecs {
	y := fresh(len(x))
	for i := range x {
		VMULPS(alpha, x[i], y[i])
		var negative Op = x[i] // a blend looks at the sign
		if target.masks() {
			negative = K()
			VPMOVD2M(x[i], negative)
		}
		pick(negative, y[i], x[i], y[i])
	}
	return y
}

// elementwise generates all of the group.
func elementwise() {
	unary("sigmoid", "is y = 1/(1+e⁻ˣ).", sigmoid)
	unary("gelu", "is x times the normal distribution function of x.", gelu)
	unary("tanh", "is the hyperbolic tangent.", tanh)
	unary("exp", "is eˣ, and 0 for what is below the normal numbers.", exponential)
	unary("erf", "is the error function.", erf)
	unary("geluTanh", "is gelu by its usual approximation.", geluTanh)
	unary("relu", "is y = max(x, 0).", relu)
	unaryAlpha("leakyRelu", "is x, or alpha·x where x is below zero.", leakyRelu)
	unaryAlpha("swish", "is x/(1+e^(-alpha·x)).", swish)
	binary("add", "is y = a + b.", VADDPS)
	binary("sub", "is y = a - b.", VSUBPS)
	binary("mul", "is y = a·b.", VMULPS)
	affine()
}
