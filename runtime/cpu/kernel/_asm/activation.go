package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// inPairs applies f to two vectors at a time if there are only sixteen registers.
func inPairs(x vecs, f func(x vecs) vecs) vecs {
	if target.masks() || len(x) <= 2 {
		return f(x)
	}
	return append(inPairs(x[:2], f), inPairs(x[2:], f)...)
}

// zeroVector returns a vector of zeros.
func zeroVector() VecVirtual {
	zero := target.vector()
	VXORPS(zero, zero, zero)
	return zero
}

// clear returns y, or 0 for x below a number.
func (y vecs) clear(x vecs, least float32) vecs {
	small := splat(least)
	for i := range y {
		under := compare(less, small, x[i])
		if target.masks() {
			VBLENDMPS(zeroVector(), y[i], under, y[i])
		} else {
			VANDNPS(y[i], under, y[i])
		}
	}
	return y
}

// expMinus1 returns e^x - 1, computed as 2·(2ⁿ⁻¹·(e^r - 1) + (2ⁿ⁻¹ - ½)); near zero, the second summand is 0. It may
// overwrite x. With signed, the result for -0 is -0.
func expMinus1(x vecs, low, signed bool) vecs {
	var signs vecs
	if signed {
		signs = x.with(signBit, VANDPS)
	}
	t, rest := reduce(x, 1, 126, low)
	p := poly(rest, 0.0013888872927054763, 0.008369104005396366, 0.041667137295007706, 0.16666506230831146,
		0.4999999701976776, 1)
	half := coefficient(0.5, len(x))
	for i := range x {
		VMULPS(rest[i], p[i], p[i])
		VPSLLD(Imm(23), t[i], t[i])
		VSUBPS(half, t[i], rest[i])
		VFMADD213PS(rest[i], t[i], p[i])
		VADDPS(p[i], p[i], p[i])
		if signed {
			VORPS(signs[i], p[i], p[i])
		}
	}
	return p
}

// expm1 returns e^x - 1: -1 far below zero, and infinity beyond the largest number.
func expm1(x vecs) vecs {
	return inPairs(x, func(x vecs) vecs { return expMinus1(x.clamp(-40, expMost+0.01), true, true) })
}

// elu returns above·x, or below·(e^x - 1) for x below zero. It loads the parameters where it uses them.
func elu(x vecs, below, above func() VecVirtual) vecs {
	return inPairs(x, func(x vecs) vecs {
		y := expMinus1(x.clamp(-40, 0), false, false)
		k, l, zero := below(), above(), zeroVector()
		for i := range x {
			VMULPS(k, y[i], y[i])
			v := target.vector()
			VMULPS(l, x[i], v)
			pick(compare(less, zero, x[i]), y[i], v, y[i])
		}
		return y
	})
}

// softplus returns max(x, 0) + ln(1 + e), where e = e^-|x|. With s = e/(2 + e), which is at most a third, the logarithm
// is 2s + 2s·s²·q(s²), or e + s·(2s²·q(s²) - e), in which errors of s count less. It is 0 for e below the normal
// numbers.
func softplus(x vecs) vecs {
	return inPairs(x, func(x vecs) vecs {
		e := exp(magnitude(x), -1)
		two, s, z := splat(2), fresh(len(x)), fresh(len(x))
		for i := range x {
			VADDPS(two, e[i], s[i])
			VDIVPS(s[i], e[i], s[i])
			VMULPS(s[i], s[i], z[i])
		}
		q := poly(z, 0.11612164610775634, 0.10853287900670121, 0.1429617899713976, 0.19999853165964993,
			0.33333333660263703)
		zero := zeroVector()
		for i := range x {
			VADDPS(z[i], z[i], z[i])
			VFMSUB213PS(e[i], z[i], q[i])
			VFMADD213PS(e[i], s[i], q[i])
			VMAXPS(x[i], zero, z[i]) // NaN stays
			VADDPS(z[i], q[i], q[i])
		}
		return q.clear(x, expLeast)
	})
}

// mish returns x·tanh(softplus(x)) = x·n/(n + 2), where n = e·(e + 2) and e = e^x. The fraction is 0 for e below the
// normal numbers.
func mish(x vecs) vecs {
	return inPairs(x, func(x vecs) vecs {
		e := x.clamp(expLeast, 20)
		t, rest := reduce(e, 1, 0, true)
		p := expRest(rest, 1, 1)
		two := splat(2)
		for i := range p {
			VPSLLD(Imm(23), t[i], t[i])
			VPADDD(t[i], p[i], p[i])
			VADDPS(p[i], p[i], t[i])
			VFMADD213PS(t[i], p[i], p[i]) // e² + 2e
			VADDPS(two, p[i], t[i])
			VDIVPS(t[i], p[i], p[i])
		}
		return p.clear(x, expLeast).and(x, VMULPS)
	})
}

// thresholdedRelu returns x, or 0 for x not above alpha.
func thresholdedRelu(x vecs, alpha VecVirtual) vecs {
	return x.each(func(x, y VecVirtual) { pick(compare(greater, alpha, x), x, zeroVector(), y) })
}

// shrink returns x + bias below -lambd, x - bias above lambd, and 0 between and for NaN.
func shrink(x vecs, bias, lambd VecVirtual) vecs {
	minus := target.vector()
	VXORPS(splat(signBit), lambd, minus)
	return x.each(func(x, y VecVirtual) {
		v := target.vector()
		VSUBPS(bias, x, v)
		pick(compare(greater, lambd, x), v, zeroVector(), y)
		VADDPS(bias, x, v)
		pick(compare(less, minus, x), v, y, y)
	})
}

// inRegister is a parameter in a register.
func inRegister(p VecVirtual) func() VecVirtual { return func() VecVirtual { return p } }

// activations generates the group.
func activations() {
	unary("expm1", "computes eˣ - 1.", 2, expm1)
	unary("softplus", "computes ln(1 + eˣ), and 0 for eˣ below the normal numbers.", 2, softplus)
	unary("mish", "computes x·tanh(ln(1 + eˣ)), and -0 for eˣ below the normal numbers.", 2, mish)
	parametric("elu", "computes above·x, or below·(eˣ - 1) for x "+
		"below zero.", []string{"below", "above"}, func(x vecs, p []VecVirtual) vecs {
		return elu(x, inRegister(p[0]), inRegister(p[1]))
	})
	parametric("thresholdedRelu", "computes x, or 0 for x not above alpha.", []string{"alpha"},
		func(x vecs, p []VecVirtual) vecs {
			return thresholdedRelu(x, p[0])
		})
	parametric("shrink", "computes x + bias below -lambd, x - bias above lambd, and 0 "+
		"between.", []string{"bias", "lambd"}, func(x vecs, p []VecVirtual) vecs {
		return shrink(x, p[0], p[1])
	})
	unary("neg", "computes y = -x.", 2, func(x vecs) vecs { return x.with(signBit, VXORPS) })
	unary("abs", "computes y = |x|.", 2, magnitude)
	for _, f := range []struct {
		name, doc string
		how       uint64
	}{{"floor", "rounds down.", 1}, {"ceil", "rounds up.", 2}, {"round", "rounds to the nearest whole number, " +
		"halves to even.", 0}} {
		parametric(f.name, f.doc, nil, func(x vecs, _ []VecVirtual) vecs {
			return x.each(func(x, y VecVirtual) { whole(f.how, x, y) })
		})
	}
	unary("float16", "rounds to float16, ties to even.", 2, roundedF16)
	unary("bfloat16", "rounds to bfloat16, ties to even; NaN stays NaN.", 2, roundedBF16)
	if !target.masks() {
		halfConversions()
	}
}

// roundedF16 returns x rounded to float16.
func roundedF16(x vecs) vecs {
	return x.each(func(x, y VecVirtual) {
		h := VecVirtual(XMM())
		if target.masks() {
			h = YMM()
		}
		VCVTPS2PH(Imm(0), x, h)
		VCVTPH2PS(h, y)
	})
}

// roundedBF16 returns x rounded to bfloat16.
func roundedBF16(x vecs) vecs {
	one, bias, mask := pattern(1), pattern(0x7fff), pattern(0xffff0000)
	and := func(a, b, y Op) {
		if target.masks() {
			VPANDD(a, b, y)
		} else {
			VPAND(a, b, y)
		}
	}
	return x.each(func(x, y VecVirtual) {
		odd := target.vector()
		VPSRLD(Imm(16), x, odd)
		and(one, odd, odd)
		VPADDD(odd, bias, odd)
		VPADDD(odd, x, odd)
		and(mask, odd, odd)
		pick(compare(unordered, x, x), x, odd, y)
	})
}

// halfConversions generates conversions between float16 and float32 in memory, for AVX2.
func halfConversions() {
	for _, f := range []struct {
		name, doc, y, x string
		size            [2]int // bytes of eight numbers
	}{{"widenF16AVX2", "widens float16 to float32.", "float32", "uint16", [2]int{32, 16}},
		{"narrowF16AVX2", "rounds float32 to float16, ties to even.", "uint16", "float32", [2]int{16, 32}}} {
		TEXT(f.name, NOSPLIT, "func(n int, y *"+f.y+", x *"+f.x+")")
		Pragma("noescape")
		describe(f.name + " " + f.doc + " n is a positive multiple of 8.")
		n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
		Label("next")
		v := YMM()
		if f.y == "float32" {
			VCVTPH2PS(Mem{Base: x}, v)
			VMOVUPS(v, Mem{Base: y})
		} else {
			VMOVUPS(Mem{Base: x}, v)
			VCVTPS2PH(Imm(0), v, Mem{Base: y})
		}
		ADDQ(Imm(uint64(f.size[1])), x)
		ADDQ(Imm(uint64(f.size[0])), y)
		SUBQ(Imm(8), n)
		JNZ(LabelRef("next"))
		VZEROUPPER()
		RET()
	}
}

// whole generates rounding to integers.
func whole(how uint64, x, y VecVirtual) {
	const quiet = 8 // raises no exception for inexact results
	if target.masks() {
		VRNDSCALEPS(Imm(how|quiet), x, y)
	} else {
		VROUNDPS(Imm(how|quiet), x, y)
	}
}

// pattern returns a vector of numbers with the given bits.
func pattern(bits uint32) VecVirtual { return splat(math.Float32frombits(bits)) }
