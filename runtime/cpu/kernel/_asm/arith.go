package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// parametric generates y = f(x) over n numbers, two vectors at a time, for functions of some float32 parameters.
func parametric(name, doc string, params []string, f func(x vecs, p []VecVirtual) vecs) {
	list := ""
	for _, p := range params {
		list += ", " + p
	}
	if list != "" {
		list += " float32"
	}
	TEXT(name, NOSPLIT, "func(n int, y, x *float32"+list+")")
	Pragma("noescape")
	Doc(name + " " + doc + " n is a positive multiple of 8; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	var ps []VecVirtual
	for _, p := range params {
		ps = append(ps, broadcast(p))
	}
	block := func(width int) {
		v := fresh(width)
		for i := range v {
			VMOVUPS(Mem{Base: x, Disp: 32 * i}, v[i])
		}
		for i, w := range f(v, ps) {
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

// each makes f(x) of each vector.
func (x vecs) each(f func(x, y VecVirtual)) vecs {
	y := fresh(len(x))
	for i := range x {
		f(x[i], y[i])
	}
	return y
}

// bounded is x between lo and hi. The instructions give their last operand where one is not a number, which is x.
func (x vecs) bounded(lo, hi VecVirtual) vecs {
	return x.each(func(x, y VecVirtual) {
		VMAXPS(x, lo, y)
		VMINPS(y, hi, y)
	})
}

func hardSigmoid(x vecs, alpha, beta VecVirtual) vecs {
	zero := YMM()
	VXORPS(zero, zero, zero)
	return x.each(func(x, y VecVirtual) {
		VMOVAPS(x, y)
		VFMADD213PS(beta, alpha, y)
	}).bounded(zero, splat(1))
}

// extreme generates the greater or lesser of two numbers, NaN where either is.
func extreme(name, doc string, f func(ops ...Op)) {
	TEXT(name, NOSPLIT, "func(n int, y, a, b *float32)")
	Pragma("noescape")
	Doc(name + " " + doc + " n is a positive multiple of 8; y may be a or b.")
	n, y, a, b := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	Label("next")
	v, w, m := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: a}, v)
	VMOVUPS(Mem{Base: b}, w)
	f(w, v, w) // b where one is not a number
	VCMPPS(Imm(3), v, v, m)
	VBLENDVPS(m, v, w, w)
	VMOVUPS(w, Mem{Base: y})
	ADDQ(Imm(32), a)
	ADDQ(Imm(32), b)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

func arith() {
	parametric("clipAVX2", "is y = min(max(x, lo), hi).", []string{"lo", "hi"}, func(x vecs, p []VecVirtual) vecs { return x.bounded(p[0], p[1]) })
	parametric("hardSigmoidAVX2", "is y = alpha·x + beta between 0 and 1.", []string{"alpha", "beta"}, func(x vecs, p []VecVirtual) vecs {
		return hardSigmoid(x, p[0], p[1])
	})
	parametric("hardSwishAVX2", "is y = x times alpha·x + beta between 0 and 1.", []string{"alpha", "beta"}, func(x vecs, p []VecVirtual) vecs {
		return x.and(hardSigmoid(x, p[0], p[1]), VMULPS)
	})
	parametric("sqrtAVX2", "is the square root.", nil, func(x vecs, _ []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) { VSQRTPS(x, y) })
	})
	parametric("scaleShiftAVX2", "is y = scale·x + shift, rounded once.", []string{"scale", "shift"}, func(x vecs, p []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) {
			VMOVAPS(x, y)
			VFMADD213PS(p[1], p[0], y)
		})
	})
	for _, op := range []struct {
		name, doc string
		f         func(...Op)
	}{{"add", "a + s", VADDPS}, {"sub", "a - s", VSUBPS}, {"mul", "a·s", VMULPS}, {"div", "a/s", VDIVPS}} {
		parametric(op.name+"SAVX2", "is y = "+op.doc+".", []string{"s"}, func(x vecs, p []VecVirtual) vecs {
			return x.each(func(x, y VecVirtual) { op.f(p[0], x, y) })
		})
	}
	parametric("subFromSAVX2", "is y = s - a.", []string{"s"}, func(x vecs, p []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) { VSUBPS(x, p[0], y) })
	})
	parametric("divIntoSAVX2", "is y = s/a.", []string{"s"}, func(x vecs, p []VecVirtual) vecs {
		return x.each(func(x, y VecVirtual) { VDIVPS(x, p[0], y) })
	})
	binary("divAVX2", "is y = a/b.", VDIVPS)
	extreme("maxAVX2", "is y = max(a, b), NaN where either is.", VMAXPS)
	extreme("minAVX2", "is y = min(a, b), NaN where either is.", VMINPS)
	total("sumAVX2", "is the sum of n numbers.", VADDPS, 0)
	total("greatestAVX2", "is the greatest of n numbers, NaN where one is.", func(ops ...Op) {
		src, acc := ops[0], ops[1]
		nan, keep := vectorLike(acc), vectorLike(acc)
		VCMPPS(Imm(3), acc, acc, nan)
		VMOVAPS(acc, keep)
		VMAXPS(src, acc, acc) // src where one is not a number
		VBLENDVPS(nan, keep, acc, acc)
	}, float32(math.Inf(-1)))
}

// vectorLike is a new vector as wide as v.
func vectorLike(v Op) VecVirtual {
	if r, ok := v.(Register); ok && r.Size() == 16 {
		return XMM()
	}
	return YMM()
}

// total generates a reduction with four vectors side by side.
func total(name, doc string, f func(ops ...Op), start float32) {
	TEXT(name, NOSPLIT, "func(n int, x *float32) float32")
	Pragma("noescape")
	Doc(name + " " + doc + " n is a positive multiple of 8.")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	acc := fresh(4)
	for i := range acc {
		VBROADCASTSS(splatMem(start), acc[i])
	}
	SUBQ(Imm(32), n)
	JL(LabelRef("rest"))
	Label("four")
	for i := range acc {
		f(Mem{Base: x, Disp: 32 * i}, acc[i], acc[i])
	}
	ADDQ(U32(128), x)
	SUBQ(Imm(32), n)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(Imm(32), n)
	JZ(LabelRef("done"))
	Label("one")
	f(Mem{Base: x}, acc[0], acc[0])
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("one"))
	Label("done")
	f(acc[1], acc[0], acc[0])
	f(acc[3], acc[2], acc[2])
	f(acc[2], acc[0], acc[0])
	half := XMM()
	VEXTRACTF128(Imm(1), acc[0], half)
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
