package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// constants are the float32 numbers that functions broadcast. Each is in memory once.
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

// held are vectors that repeat a number, which a function broadcasts once, before its loops. Nothing may overwrite them.
var held = map[uint32]VecVirtual{}

// hold broadcasts numbers for the function under way, where there are registers for them. Its result ends that.
func hold(numbers ...float32) (release func()) {
	if target.masks() {
		for _, x := range numbers {
			held[math.Float32bits(x)] = splat(x)
		}
	}
	return func() { clear(held) }
}

// splat returns a vector that repeats a number. Callers do not overwrite it.
func splat(x float32) VecVirtual {
	if y, ok := held[math.Float32bits(x)]; ok {
		return y
	}
	y := target.vector()
	VBROADCASTSS(splatMem(x), y)
	return y
}

// vecs are vectors that a function computes together. Their operations are independent, which hides the latency, and
// they share the broadcast constants.
type vecs []VecVirtual

func fresh(n int) vecs {
	v := make(vecs, n)
	for i := range v {
		v[i] = target.vector()
	}
	return v
}

// splats returns as many vectors as x has, each of which repeats a number.
func (x vecs) splats(c float32) vecs {
	v := fresh(len(x))
	if y, ok := held[math.Float32bits(c)]; ok {
		VMOVAPS(y, v[0])
	} else {
		VBROADCASTSS(splatMem(c), v[0])
	}
	for _, w := range v[1:] {
		VMOVAPS(v[0], w)
	}
	return v
}

// with applies f(c, x, y) to each vector x, with a broadcast number c, and returns the results y.
func (x vecs) with(c float32, f func(...Op)) vecs {
	k, v := splat(c), fresh(len(x))
	for i := range x {
		f(k, x[i], v[i])
	}
	return v
}

// and applies f(b, a, y) to each pair of vectors, and returns the results y.
func (x vecs) and(b vecs, f func(...Op)) vecs {
	v := fresh(len(x))
	for i := range x {
		f(b[i], x[i], v[i])
	}
	return v
}

// poly evaluates a polynomial by Horner's rule, highest coefficient first. Each coefficient is broadcast where it is
// used, so that functions fit sixteen registers.
func poly(x vecs, c ...float32) vecs {
	p := x.splats(c[0])
	for _, k := range c[1:] {
		q := coefficient(k, len(x))
		for i := range x {
			VFMADD213PS(q, x[i], p[i]) // p = p·x + k
		}
	}
	return p
}

// coefficient returns an operand with a number in each lane, for the given number of instructions. For more than two
// vectors, AVX2 has no register to spare, and instructions read it from memory.
func coefficient(c float32, uses int) Op {
	if target.masks() || uses <= 2 {
		return splat(c)
	}
	return lanes(c)
}

// wholes are numbers that are in memory once for each lane of AVX2.
var wholes = map[uint32]Mem{}

func lanes(x float32) Mem {
	bits := math.Float32bits(x)
	m, ok := wholes[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("v%08x", bits), attr.RODATA|attr.NOPTR)
		for i := range 8 {
			DATA(4*i, U32(bits))
		}
		wholes[bits] = m
	}
	return m
}

// clamp returns x clamped to lo and hi. NaN stays NaN.
func (x vecs) clamp(lo, hi float32) vecs {
	v := fresh(len(x))
	h, l := splat(hi), splat(lo)
	for i := range x {
		VMINPS(x[i], h, v[i]) // if an operand is NaN, these return the last one, which is x here
		VMAXPS(v[i], l, v[i])
	}
	return v
}

// The range of arguments whose exponential is a normal number.
const (
	expLeast = float32(-87.33)
	expMost  = float32(88.72)
)

// reduce splits sign·x, between expLeast and expMost, into n·ln 2 and a rest of at most ln 2/2. It returns the rest
// times sign, and t with n + bias in its lowest bits. With low, the rest is exact to the last place for large n, too;
// otherwise its error is up to 2e-9·n. It overwrites x.
func reduce(x vecs, sign float32, bias int, low bool) (t, rest vecs) {
	const (
		log2e   = 1.44269504088896340736
		ln2     = float32(0.693147182464599609375) // and the difference to ln 2:
		ln2Rest = float32(-1.904654323148236e-09)
	)
	round := float32(3<<22 + bias) // adding it rounds to an integer
	r, k := splat(round), splat(sign*log2e)
	t = fresh(len(x))
	for i := range x {
		VMOVAPS(r, t[i])
		VFMADD231PS(k, x[i], t[i])
	}
	high, rests := splat(-sign*ln2), coefficient(-sign*ln2Rest, len(x))
	for i := range x {
		n := target.vector()
		VSUBPS(r, t[i], n)
		VFMADD231PS(high, n, x[i])
		if low {
			VFMADD231PS(rests, n, x[i])
		}
	}
	return t, x
}

// expRest returns scale·e^r to 2e-8, for rests r times sign.
func expRest(rest vecs, sign, scale float32) vecs {
	return poly(rest, scale*0.0013836794532835484, scale*sign*0.008374856784939766, scale*0.041668228805065155,
		scale*sign*0.16666419804096222,
		scale*0.49999991059303284, scale*sign, scale)
}

// exp returns e^(sign·x): 2ⁿ times a polynomial of degree six in the rest. Arguments are clamped to the range of normal
// numbers; below it, results are tiny rather than denormal. NaN stays NaN.
func exp(x vecs, sign float32) vecs {
	t, rest := reduce(x.clampTo(sign, expLeast, expMost), sign, 0, true)
	p := expRest(rest, sign, 1)
	for i := range p {
		VPSLLD(Imm(23), t[i], t[i])
		VPADDD(t[i], p[i], p[i])
	}
	return p
}

// onePlusExp returns 1 + e^(sign·x), rounded once after the sum, and infinity beyond the largest number.
func onePlusExp(x vecs, sign float32) vecs {
	t, rest := reduce(x.clampTo(sign, expLeast, expMost+0.01), sign, 126, false)
	p := expRest(rest, sign, 2)
	one := coefficient(1, len(x))
	for i := range p {
		VPSLLD(Imm(23), t[i], t[i]) // 2ⁿ⁻¹, which is finite for n = 128, too, and may be zero beside 1
		VFMADD213PS(one, t[i], p[i])
	}
	return p
}

// clampTo clamps sign·x.
func (x vecs) clampTo(sign, lo, hi float32) vecs {
	if sign < 0 {
		lo, hi = -hi, -lo
	}
	return x.clamp(lo, hi)
}

// exponential returns eˣ over its whole range.
func exponential(x vecs) vecs {
	y := exp(x, 1)
	big, inf := splat(expMost), splat(float32(math.Inf(1)))
	for i := range x {
		v := target.vector()
		VMAXPS(x[i], inf, v) // NaN stays: adding to the exponent of one may have made it a number
		pick(compare(notLessEqual, big, x[i]), v, y[i], y[i])
	}
	return y.clear(x, expLeast)
}

// unary generates y = f(x) over n numbers, some vectors at a time.
func unary(name, doc string, vectors int, f func(x vecs) vecs) {
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, y, x *float32)")
	Pragma("noescape")
	describe(name + " " + doc + " " + target.numbers() + "; y may be x.")
	each(vectors, f)
}

// unaryAlpha is unary for functions with a parameter.
func unaryAlpha(name, doc string, vectors int, f func(x vecs, alpha VecVirtual) vecs) {
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, y, x *float32, alpha float32)")
	Pragma("noescape")
	describe(name + " " + doc + " " + target.numbers() + "; y may be x.")
	each(vectors, func(x vecs) vecs { return f(x, broadcast("alpha")) }) // loaded for each block, to save a register
}

// broadcast returns a vector that repeats a parameter.
func broadcast(param string) VecVirtual {
	v := target.vector()
	VBROADCASTSS(argument(param), v)
	return v
}

// each writes the loop of unary.
func each(vectors int, f func(x vecs) vecs) {
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	sweepBy(n.(GPVirtual), vectors, []Register{x, y}, func(width int, mask Op) {
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
	describe(name + " " + doc + " " + target.numbers() + "; y may be a or b.")
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
	describe(name + " computes y = scale·x + shift, rounded once. " + target.numbers() + "; y may be x.")
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

var signBit = float32(math.Copysign(0, -1))

// magnitude returns |x|.
func magnitude(x vecs) vecs { return x.with(math.Float32frombits(0x7fffffff), VANDPS) }

// inverse returns c/x.
func inverse(c float32, x vecs) vecs {
	k, y := splat(c), fresh(len(x))
	for i := range x {
		VDIVPS(x[i], k, y[i])
	}
	return y
}

func sigmoid(x vecs) vecs { return inverse(1, onePlusExp(x, -1)) }

// swish returns x/(1 + e^(-alpha·x)).
func swish(x vecs, alpha VecVirtual) vecs {
	t := fresh(len(x))
	for i := range x {
		VMULPS(alpha, x[i], t[i])
	}
	d := onePlusExp(t, -1)
	for i := range x {
		VDIVPS(d[i], x[i], d[i])
	}
	return d
}

// halfErf returns erf(x/√2)/2 to 1.4e-7 for x between -5.5 and 5.5, and more than a half in magnitude beyond: x times a
// quotient of polynomials in x². Their coefficients minimize the largest error in float32 arithmetic.
func halfErf(x vecs) vecs {
	s := x.and(x, VMULPS)
	most := splat(5.5 * 5.5)
	for i := range s {
		VMINPS(s[i], most, s[i]) // NaN stays NaN
	}
	q := poly(s, 1.19745198e-06, 7.36277652e-05, 0.00188414881, 0.028643107, 0.251510292, 1)
	p := poly(s, 2.27498074e-08, 6.35123843e-06, 0.000168772662, 0.00467693526, 0.0338480063, 0.398942232)
	for i := range x {
		VDIVPS(q[i], p[i], p[i])
		VMULPS(x[i], p[i], p[i])
	}
	return p
}

// gelu returns x·(½ + erf(x/√2)/2). The bracket is exactly 0 or 1 far from zero.
func gelu(x vecs) vecs {
	p := halfErf(x).clamp(-0.5, 0.5).with(0.5, VADDPS)
	return p.and(x, VMULPS)
}

// erf returns 2·halfErf(√2·x).
func erf(x vecs) vecs {
	return halfErf(x.with(math.Sqrt2, VMULPS)).with(2, VMULPS).clamp(-1, 1)
}

// tanh returns m/(m + 2) with the sign of x, where m = e^(2|x|) - 1 = 2ⁿ·(e^r - 1) + (2ⁿ - 1) keeps its precision near
// zero.
func tanh(x vecs) vecs {
	e := magnitude(x)
	most := splat(40)
	for i := range e {
		VADDPS(e[i], e[i], e[i])
		VMINPS(e[i], most, e[i]) // NaN stays NaN
	}
	t, rest := reduce(e, 1, 127, false)
	p := poly(rest, 0.0013888872927054763, 0.008369104005396366, 0.041667137295007706, 0.16666506230831146,
		0.4999999701976776, 1)
	one, two, sign := coefficient(1, len(x)), coefficient(2, len(x)), coefficient(signBit, len(x))
	for i := range x {
		VMULPS(rest[i], p[i], p[i])
		VPSLLD(Imm(23), t[i], t[i])
		VSUBPS(one, t[i], rest[i])
		VFMADD213PS(rest[i], t[i], p[i])
		VADDPS(two, p[i], t[i])
		VDIVPS(t[i], p[i], p[i])
		VANDPS(sign, x[i], t[i])
		VORPS(t[i], p[i], p[i])
	}
	return p
}

// geluTanh returns x/2·(1 + tanh u) = x/(1 + e^(-2u)), where u = √(2/π)·(x + 0.044715·x³).
func geluTanh(x vecs) vecs {
	const c = 0.7978845608028654
	s := x.and(x, VMULPS)
	u := poly(s, 2*c*0.044715, 2*c)
	u = u.and(x, VMULPS)
	d := onePlusExp(u, -1)
	for i := range x {
		VDIVPS(d[i], x[i], d[i])
	}
	return d
}

func relu(x vecs) vecs {
	zero, y := target.vector(), fresh(len(x))
	VXORPS(zero, zero, zero)
	for i := range x {
		VMAXPS(x[i], zero, y[i]) // NaN and -0 stay as they are
	}
	return y
}

func leakyRelu(x vecs, alpha VecVirtual) vecs {
	zero := zeroVector()
	return x.each(func(x, y VecVirtual) {
		VMULPS(alpha, x, y)
		pick(compare(less, zero, x), y, x, y) // -0 stays, also for an alpha that is not finite
	})
}

// elementwise generates the group.
func elementwise() {
	unary("sigmoid", "computes y = 1/(1+e⁻ˣ).", 4, sigmoid)
	unary("gelu", "computes x times the normal distribution function of x.", 4, gelu)
	unary("tanh", "computes the hyperbolic tangent.", 4, tanh)
	unary("exp", "computes eˣ, and 0 for results below the normal numbers.", 4, exponential)
	unary("erf", "computes the error function.", 4, erf)
	unary("geluTanh", "computes the approximation of gelu by tanh.", 4, geluTanh)
	unary("relu", "computes y = max(x, 0).", 2, relu)
	unaryAlpha("leakyRelu", "computes x, or alpha·x for x below zero.", 2, leakyRelu)
	unaryAlpha("swish", "computes x/(1+e^(-alpha·x)).", 4, swish)
	binary("add", "computes y = a + b.", VADDPS)
	binary("sub", "computes y = a - b.", VSUBPS)
	binary("mul", "computes y = a·b.", VMULPS)
	affine()
}
