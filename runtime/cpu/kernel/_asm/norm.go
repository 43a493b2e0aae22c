package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// splat64 returns a vector that repeats a float64 parameter.
func splat64(name string) VecVirtual {
	v := YMM()
	VBROADCASTSD(argument(name), v)
	return v
}

// sum64AVX2 generates a sum in float64 over f of n float32 numbers.
func sum64AVX2(name, doc, params string, f func(x, acc VecVirtual)) {
	TEXT(name, NOSPLIT, "func(n int, x *float32"+params+") float64")
	Pragma("noescape")
	describe(name + " " + doc + " n is a positive multiple of 8.")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	var mean VecVirtual
	if params != "" {
		mean = splat64("mean")
	}
	acc := fresh(2)
	for _, a := range acc {
		VXORPD(a, a, a)
	}
	Label("next")
	for i, a := range acc {
		v := YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
		if params != "" {
			VSUBPD(mean, v, v)
		}
		f(v, a)
	}
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VADDPD(acc[1], acc[0], acc[0])
	high, low := XMM(), acc[0].AsX()
	VEXTRACTF128(Imm(1), acc[0], high)
	VADDPD(high, low, low)
	VHADDPD(low, low, low)
	Store(low, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// normAVX2 generates (x - mean)·inv, optionally times a scale and plus a shift per number.
func normAVX2(name, doc string, scale, shift bool) {
	list := ""
	if scale {
		list += ", scale"
	}
	if shift {
		list += ", shift"
	}
	TEXT(name, NOSPLIT, "func(n int, y, x"+list+" *float32, mean, inv float64)")
	Pragma("noescape")
	describe(name + " " + doc + ", computed in float64 and rounded once. n is a positive multiple of 8; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	ptrs := []Register{y, x}
	var scales, shifts Register
	if scale {
		scales = Load(Param("scale"), GP64())
		ptrs = append(ptrs, scales)
	}
	if shift {
		shifts = Load(Param("shift"), GP64())
		ptrs = append(ptrs, shifts)
	}
	mean, inv := splat64("mean"), splat64("inv")
	Label("next")
	for i := range 2 {
		v := YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
		VSUBPD(mean, v, v)
		VMULPD(inv, v, v)
		if scale {
			s := YMM()
			VCVTPS2PD(Mem{Base: scales, Disp: 16 * i}, s)
			if shift {
				t := YMM()
				VCVTPS2PD(Mem{Base: shifts, Disp: 16 * i}, t)
				VFMADD213PD(t, s, v)
			} else {
				VMULPD(s, v, v)
			}
		}
		out := XMM()
		VCVTPD2PSY(v, out)
		VMOVUPS(out, Mem{Base: y, Disp: 16 * i})
	}
	for _, p := range ptrs {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

func norm() {
	sum64AVX2("sum64AVX2", "returns the sum of n numbers, in float64.", "",
		func(x, acc VecVirtual) { VADDPD(x, acc, acc) })
	sum64AVX2("squares64AVX2", "returns the sum of (x - mean)², in float64.", ", mean float64",
		func(x, acc VecVirtual) { VFMADD231PD(x, x, acc) })
	normAVX2("normAVX2", "computes y = (x - mean)·inv", false, false)
	normAVX2("normScaleAVX2", "computes y = (x - mean)·inv·scale", true, false)
	normAVX2("normAffineAVX2", "computes y = (x - mean)·inv·scale + shift", true, true)
}
