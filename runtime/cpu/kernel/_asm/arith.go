package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// parametric generates y = f(x) over n numbers, two vectors at a time, for functions with float32 parameters.
func parametric(name, doc string, params []string, f func(x vecs, p []VecVirtual) vecs) {
	list := ""
	for _, p := range params {
		list += ", " + p
	}
	if list != "" {
		list += " float32"
	}
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, y, x *float32"+list+")")
	Pragma("noescape")
	describe(name + " " + doc + " " + target.numbers() + "; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	var ps []VecVirtual
	for _, p := range params {
		ps = append(ps, broadcast(p))
	}
	sweep(n.(GPVirtual), true, []Register{x, y}, func(width int, mask Op) {
		v := make(vecs, width)
		for i := range v {
			v[i] = fetch(Mem{Base: x, Disp: target.size * i}, mask)
		}
		for i, w := range f(v, ps) {
			put(w, mask, Mem{Base: y, Disp: target.size * i})
		}
	})
	VZEROUPPER()
	RET()
}

// each returns f(x) for each vector.
func (x vecs) each(f func(x, y VecVirtual)) vecs {
	y := fresh(len(x))
	for i := range x {
		f(x[i], y[i])
	}
	return y
}

// bounded returns x clamped to lo and hi. If an operand is NaN, the instructions return their last one, which is x.
func (x vecs) bounded(lo, hi VecVirtual) vecs {
	return x.each(func(x, y VecVirtual) {
		VMAXPS(x, lo, y)
		VMINPS(y, hi, y)
	})
}

func hardSigmoid(x vecs, alpha, beta VecVirtual) vecs {
	zero := target.vector()
	VXORPS(zero, zero, zero)
	return x.each(func(x, y VecVirtual) {
		VMOVAPS(x, y)
		VFMADD213PS(beta, alpha, y)
	}).bounded(zero, splat(1))
}

// extreme generates the maximum or the minimum of two numbers, NaN if either is.
func extreme(name, doc string, f func(ops ...Op)) {
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, y, a, b *float32)")
	Pragma("noescape")
	describe(name + " " + doc + " " + target.numbers() + "; y may be a or b.")
	n, y, a, b := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	sweep(n.(GPVirtual), false, []Register{a, b, y}, func(width int, mask Op) {
		for i := range width {
			at := target.size * i
			v, w := fetch(Mem{Base: a, Disp: at}, mask), fetch(Mem{Base: b, Disp: at}, mask)
			f(w, v, w) // b if either is NaN
			pick(compare(unordered, v, v), v, w, w)
			put(w, mask, Mem{Base: y, Disp: at})
		}
	})
	VZEROUPPER()
	RET()
}

func arith() {
	parametric("clip", "computes y = min(max(x, lo), hi).", []string{"lo", "hi"}, func(x vecs, p []VecVirtual) vecs {
		return x.bounded(p[0], p[1])
	})
	parametric("hardSigmoid", "computes y = min(max(alpha·x + beta, 0), 1).", []string{"alpha", "beta"},
		func(x vecs, p []VecVirtual) vecs {
			return hardSigmoid(x, p[0], p[1])
		})
	parametric("hardSwish", "computes y = x·min(max(alpha·x + beta, 0), 1).", []string{"alpha", "beta"},
		func(x vecs, p []VecVirtual) vecs {
			return x.and(hardSigmoid(x, p[0], p[1]), VMULPS)
		})
	parametric("sqrt", "computes y = √x.", nil, func(x vecs, _ []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) { VSQRTPS(x, y) })
	})
	parametric("cube", "computes y = x³ in float64, rounded once.", nil, func(x vecs, _ []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) {
			inFloat64(x, y, func(z VecVirtual) { power := vectorLike(z); VMULPD(z, z, power); VMULPD(z, power, z) })
		})
	})
	parametric("scaleShift", "computes y = scale·x + shift, rounded once.", []string{"scale", "shift"},
		func(x vecs, p []VecVirtual) vecs {
			return x.each(func(x, y VecVirtual) {
				VMOVAPS(x, y)
				VFMADD213PS(p[1], p[0], y)
			})
		})
	for _, op := range []struct {
		name, doc string
		f         func(...Op)
	}{{"add", "a + s", VADDPS}, {"sub", "a - s", VSUBPS}, {"mul", "a·s", VMULPS}, {"div", "a/s", VDIVPS}} {
		parametric(op.name+"S", "computes y = "+op.doc+".", []string{"s"}, func(x vecs, p []VecVirtual) vecs {
			return x.each(func(x, y VecVirtual) { op.f(p[0], x, y) })
		})
	}
	parametric("subFromS", "computes y = s - a.", []string{"s"}, func(x vecs, p []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) { VSUBPS(x, p[0], y) })
	})
	parametric("divIntoS", "computes y = s/a.", []string{"s"}, func(x vecs, p []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) { VDIVPS(x, p[0], y) })
	})
	binary("div", "computes y = a/b.", VDIVPS)
	extreme("max", "computes y = max(a, b), NaN if either is.", VMAXPS)
	extreme("min", "computes y = min(a, b), NaN if either is.", VMINPS)
	total("sum", "returns the sum of n numbers.", VADDPS, 0)
	total("greatest", "returns the greatest of n numbers, NaN if one is.", func(ops ...Op) {
		src, acc := ops[0], ops[1]
		nan, keep := compare(unordered, acc, acc), vectorLike(acc)
		VMOVAPS(acc, keep)
		VMAXPS(src, acc, acc) // src if either is NaN
		pick(nan, keep, acc, acc)
	}, float32(math.Inf(-1)))
}

// inFloat64 applies f to the halves of x as numbers of 64 bits, and rounds them.
func inFloat64(x, y VecVirtual, f func(z VecVirtual)) {
	if target.masks() {
		high, halves := YMM(), [2]VecVirtual{YMM(), YMM()}
		VEXTRACTF32X8(Imm(1), x, high)
		for i, half := range []Op{x.AsY(), high} {
			z := ZMM()
			VCVTPS2PD(half, z)
			f(z)
			VCVTPD2PS(z, halves[i])
		}
		VINSERTF32X8(Imm(1), halves[1], halves[0].AsZ(), y)
		return
	}
	high, halves := XMM(), [2]VecVirtual{XMM(), XMM()}
	VEXTRACTF128(Imm(1), x, high)
	for i, half := range []Op{x.AsX(), high} {
		z := YMM()
		VCVTPS2PD(half, z)
		f(z)
		VCVTPD2PSY(z, halves[i])
	}
	VINSERTF128(Imm(1), halves[1], halves[0].AsY(), y)
}

// total generates a reduction with four vectors of accumulators.
func total(name, doc string, f func(ops ...Op), start float32) {
	name += target.name
	TEXT(name, NOSPLIT, "func(n int, x *float32) float32")
	Pragma("noescape")
	describe(name + " " + doc + " " + target.numbers() + ".")
	n, x := Load(Param("n"), GP64()).(GPVirtual), Load(Param("x"), GP64())
	acc := fresh(4)
	for i := range acc {
		VBROADCASTSS(splatMem(start), acc[i])
	}
	four := Imm(uint64(target.size))
	SUBQ(four, n)
	JL(LabelRef("rest"))
	Label("four")
	for i := range acc {
		f(Mem{Base: x, Disp: target.size * i}, acc[i], acc[i])
	}
	ADDQ(U32(uint32(4*target.size)), x)
	SUBQ(four, n)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(four, n)
	JZ(LabelRef("done"))
	Label("one")
	if target.masks() {
		v := splat(start)
		VMOVUPS(Mem{Base: x}, lowest(n), v)
		f(v, acc[0], acc[0])
	} else {
		f(Mem{Base: x}, acc[0], acc[0])
	}
	ADDQ(Imm(uint64(target.size)), x)
	SUBQ(Imm(uint64(target.size/4)), n)
	if target.masks() {
		JG(LabelRef("one"))
	} else {
		JNZ(LabelRef("one"))
	}
	Label("done")
	f(acc[1], acc[0], acc[0])
	f(acc[3], acc[2], acc[2])
	f(acc[2], acc[0], acc[0])
	if target.masks() {
		high, low := YMM(), acc[0].AsY()
		VEXTRACTF64X4(Imm(1), acc[0], high)
		f(high, low, low)
	}
	half := XMM()
	VEXTRACTF128(Imm(1), acc[0].AsY(), half)
	low := acc[0].AsX()
	f(half, low, low)
	VPERMILPS(Imm(0x4e), low, half)
	f(half, low, low)
	VPERMILPS(Imm(0xb1), low, half)
	f(half, low, low)
	Store(low, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
