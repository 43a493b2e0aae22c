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
	y := YMM()
	VBROADCASTSS(splatMem(x), y)
	return y
}

// vecs are vectors that a function works on side by side: their chains of operations are independent, so one's latency hides
// behind the other's work, and they share the broadcast constants.
type vecs []VecVirtual

func fresh(n int) vecs {
	v := make(vecs, n)
	for i := range v {
		v[i] = YMM()
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

// exp is eˣ, and takes x as its scratch: 2ⁿ times a polynomial of degree six in the rest, which is at most half of ln 2. The
// argument is clamped to where float32 has normal numbers; results there are right, and below them tiny rather than denormal.
func exp(x vecs) vecs {
	hi, lo := splat(88.37), splat(-87.33)
	for i := range x {
		VMINPS(hi, x[i], x[i])
		VMAXPS(lo, x[i], x[i])
	}
	n := x.with(1.4426950408889634, VMULPS)
	for i := range n {
		VROUNDPS(Imm(0), n[i], n[i])
	}
	for _, c := range []float32{0.693359375, -2.12194440e-4} {
		k := splat(c)
		for i := range x {
			VFNMADD231PS(k, n[i], x[i])
		}
	}
	p := poly(x, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	s := x.and(x, VMULPS)
	one := splat(1)
	for i := range x {
		VFMADD213PS(x[i], s[i], p[i])
		VADDPS(one, p[i], p[i])
		VCVTPS2DQ(n[i], n[i])
		VPSLLD(Imm(23), n[i], n[i])
		VPADDD(n[i], p[i], p[i])
	}
	return p
}

// unary generates y = f(x) over n numbers, two vectors at a time.
func unary(name, doc string, f func(x vecs) vecs) {
	TEXT(name, NOSPLIT, "func(n int, y, x *float32)")
	Pragma("noescape")
	Doc(name + " " + doc + " n is a positive multiple of 8; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	block := func(width int) {
		v := fresh(width)
		for i := range v {
			VMOVUPS(Mem{Base: x, Disp: 32 * i}, v[i])
		}
		for i, w := range f(v) {
			VMOVUPS(w, Mem{Base: y, Disp: 32 * i})
		}
	}
	SUBQ(Imm(16), n)
	JL(LabelRef("last"))
	Label("two")
	block(2)
	ADDQ(Imm(64), x)
	ADDQ(Imm(64), y)
	SUBQ(Imm(16), n)
	JGE(LabelRef("two"))
	Label("last")
	ADDQ(Imm(16), n)
	JZ(LabelRef("done"))
	block(1)
	Label("done")
	VZEROUPPER()
	RET()
}

// binary generates y = f(a, b) over n numbers, n a positive multiple of 8.
func binary(name, doc string, f func(ops ...Op)) {
	TEXT(name, NOSPLIT, "func(n int, y, a, b *float32)")
	Pragma("noescape")
	Doc(name + " " + doc + " n is a positive multiple of 8; y may be a or b.")
	n, y, a, b := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	Label("next")
	v := YMM()
	VMOVUPS(Mem{Base: a}, v)
	f(Mem{Base: b}, v, v)
	VMOVUPS(v, Mem{Base: y})
	ADDQ(Imm(32), a)
	ADDQ(Imm(32), b)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// affineAVX2 generates one row of y = scale·x + shift.
func affineAVX2() {
	TEXT("affineAVX2", NOSPLIT, "func(n int, y, x, scale, shift *float32)")
	Pragma("noescape")
	Doc("affineAVX2 is y = scale·x + shift, rounded once. n is a positive multiple of 8; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	scale, shift := Load(Param("scale"), GP64()), Load(Param("shift"), GP64())
	Label("next")
	v, s := YMM(), YMM()
	VMOVUPS(Mem{Base: shift}, s)
	VMOVUPS(Mem{Base: x}, v)
	VFMADD231PS(Mem{Base: scale}, v, s)
	VMOVUPS(s, Mem{Base: y})
	for _, p := range []Register{y, x, scale, shift} {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// passNaN gives x where it is not a number, and y elsewhere.
func passNaN(x, y vecs) vecs {
	for i := range x {
		nan := YMM()
		VCMPPS(Imm(3), x[i], x[i], nan)
		VBLENDVPS(nan, x[i], y[i], y[i])
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

func sigmoid(x vecs) vecs {
	e := exp(x.with(signBit, VXORPS))
	return passNaN(x, inverse(1, e.with(1, VADDPS)))
}

// gelu is x·Φ(x) = x/2·erfc(-x/√2): the tail of erfc is e^(-z²) times a polynomial in 1/(1+z/2), z = |x|/√2, and the side of
// x decides between it and its complement.
func gelu(x vecs) vecs {
	z := magnitude(x)
	t := x.splats(1)
	half := splat(0.5 * 0.7071067811865476)
	for i := range z {
		VFMADD231PS(half, z[i], t[i])
	}
	d := inverse(1, t)
	p := poly(d, 0.04317306619941519, -0.23460549203423398, 0.49338574494487375, -0.45456372191543437, 0.1318500429100169,
		-0.059050911224032276, 0.0934147488228958, 0.17532407533627248, 0.24688387983634835, 0.2820937767893684, 0.28209479506443297)
	p = p.and(d, VMULPS)
	// x·x/2 rather than z·z: one rounding, not two
	p = p.and(exp(x.and(x, VMULPS).with(-0.5, VMULPS)), VMULPS) // erfc(z)
	two, h := splat(2), splat(0.5)
	for i := range x {
		up := YMM()
		VSUBPS(p[i], two, up) // erfc(-z)
		VBLENDVPS(x[i], p[i], up, p[i])
		VMULPS(h, p[i], p[i])
		VMULPS(x[i], p[i], p[i])
	}
	return passNaN(x, p)
}

// tanh is a quotient of exponentials, and a polynomial near zero, where the quotient cancels.
func tanh(x vecs) vecs {
	a := magnitude(x)
	e := a.and(a, VADDPS).with(40, VMINPS)
	q := inverse(2, exp(e).with(1, VADDPS))
	y := x.splats(1)
	sign := splat(signBit)
	for i := range x {
		VSUBPS(q[i], y[i], y[i])
		s := YMM()
		VANDPS(sign, x[i], s)
		VORPS(s, y[i], y[i])
	}
	s := x.and(x, VMULPS)
	p := poly(s, -1382.0/155925, 62.0/2835, -17.0/315, 2.0/15, -1.0/3).and(s, VMULPS)
	limit := splat(0.45)
	for i := range x {
		VFMADD213PS(x[i], x[i], p[i]) // x + x·p
		near := YMM()
		VCMPPS(Imm(1), limit, magnitude(x[i : i+1])[0], near)
		VBLENDVPS(near, p[i], y[i], y[i])
	}
	return passNaN(x, y)
}
