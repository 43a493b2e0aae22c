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

// splat broadcasts a number.
func splat(x float32) VecVirtual {
	bits := math.Float32bits(x)
	m, ok := constants[bits]
	if !ok {
		m = ConstData(fmt.Sprintf("f%08x", bits), U32(bits))
		constants[bits] = m
	}
	y := YMM()
	VBROADCASTSS(m, y)
	return y
}

// poly evaluates a polynomial by Horner's rule, highest coefficient first; each coefficient is broadcast when it is needed,
// so that functions fit into sixteen registers.
func poly(x VecVirtual, c ...float32) VecVirtual {
	p := splat(c[0])
	for _, k := range c[1:] {
		VFMADD213PS(splat(k), x, p) // p = p·x + k
	}
	return p
}

// exp replaces x by eˣ: 2ⁿ times a polynomial of degree six in the rest, which is at most half of ln 2. The argument is
// clamped to where float32 has normal numbers; results there are right, and below them tiny rather than denormal.
func exp(x VecVirtual) VecVirtual {
	VMINPS(splat(88.37), x, x)
	VMAXPS(splat(-87.33), x, x)
	n := YMM()
	VMULPS(splat(1.4426950408889634), x, n)
	VROUNDPS(Imm(0), n, n)
	VFNMADD231PS(splat(0.693359375), n, x)
	VFNMADD231PS(splat(-2.12194440e-4), n, x)
	p := poly(x, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	s := YMM()
	VMULPS(x, x, s)
	VFMADD213PS(x, s, p)
	VADDPS(splat(1), p, p)
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	VPADDD(n, p, p)
	return p
}

// unary generates y = f(x) over n numbers, n a positive multiple of 8.
func unary(name, doc string, f func(x VecVirtual) VecVirtual) {
	TEXT(name, NOSPLIT, "func(n int, y, x *float32)")
	Pragma("noescape")
	Doc(name + " " + doc + " n is a positive multiple of 8; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	Label("next")
	v := YMM()
	VMOVUPS(Mem{Base: x}, v)
	VMOVUPS(f(v), Mem{Base: y})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
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
func passNaN(x, y VecVirtual) VecVirtual {
	nan := YMM()
	VCMPPS(Imm(3), x, x, nan)
	VBLENDVPS(nan, x, y, y)
	return y
}

func negate(x VecVirtual) VecVirtual {
	y := YMM()
	VXORPS(splat(float32(math.Copysign(0, -1))), x, y)
	return y
}

func sigmoid(x VecVirtual) VecVirtual {
	e := exp(negate(x))
	VADDPS(splat(1), e, e)
	y := YMM()
	VDIVPS(e, splat(1), y)
	return passNaN(x, y)
}

// gelu is x·Φ(x) = x/2·erfc(-x/√2): the tail of erfc is e^(-z²) times a polynomial in 1/(1+z/2), z = |x|/√2, and the side of
// x decides between it and its complement.
func gelu(x VecVirtual) VecVirtual {
	z := YMM()
	VANDPS(splat(math.Float32frombits(0x7fffffff)), x, z)
	VMULPS(splat(0.7071067811865476), z, z)
	t := splat(1)
	VFMADD231PS(splat(0.5), z, t)
	d := YMM()
	VDIVPS(t, splat(1), d)
	p := poly(d, 0.04317306619941519, -0.23460549203423398, 0.49338574494487375, -0.45456372191543437, 0.1318500429100169,
		-0.059050911224032276, 0.0934147488228958, 0.17532407533627248, 0.24688387983634835, 0.2820937767893684, 0.28209479506443297)
	VMULPS(d, p, p)
	// x·x/2 rather than z·z: one rounding, not two
	s := YMM()
	VMULPS(x, x, s)
	VMULPS(splat(-0.5), s, s)
	VMULPS(exp(s), p, p) // erfc(z)
	up := splat(2)
	VSUBPS(p, up, up) // erfc(-z)
	VBLENDVPS(x, p, up, p)
	h := YMM()
	VMULPS(splat(0.5), x, h)
	VMULPS(h, p, p)
	return passNaN(x, p)
}

// tanh is a quotient of exponentials, and a polynomial near zero, where the quotient cancels.
func tanh(x VecVirtual) VecVirtual {
	a := YMM()
	VANDPS(splat(math.Float32frombits(0x7fffffff)), x, a)
	e := YMM()
	VADDPS(a, a, e)
	VMINPS(splat(40), e, e)
	e = exp(e)
	VADDPS(splat(1), e, e)
	q := YMM()
	VDIVPS(e, splat(2), q)
	y := splat(1)
	VSUBPS(q, y, y)
	sign := YMM()
	VANDPS(splat(float32(math.Copysign(0, -1))), x, sign)
	VORPS(sign, y, y)
	s := YMM()
	VMULPS(x, x, s)
	p := poly(s, -1382.0/155925, 62.0/2835, -17.0/315, 2.0/15, -1.0/3)
	VMULPS(s, p, p)
	VFMADD213PS(x, x, p) // x + x·p
	near := YMM()
	VCMPPS(Imm(1), splat(0.45), a, near)
	VBLENDVPS(near, p, y, y)
	return passNaN(x, y)
}
