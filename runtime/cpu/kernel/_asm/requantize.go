package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// requantizations generates scaleBytesAVX512 and requantizeAVX512.
func requantizations() {
	const bytes = "(min(max(round(z), least), most) + zero) xor flip, rounding ties to even, for i < n, a positive multiple of " +
		"16. z is no NaN. Before flip changes them, numbers lie in 0 to 255."

	TEXT("scaleBytesAVX512", NOSPLIT, "func(n int, y *byte, x *int32, bias, scale float64, least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe("scaleBytesAVX512 computes y[i] of z = (x[i] + bias)·scale in float64, rounded to float32: " + bytes)
	n, y, x := given("n"), given("y"), given("x")
	bias, scale := ZMM(), ZMM()
	VBROADCASTSD(Load(Param("bias"), XMM()), bias)
	VBROADCASTSD(Load(Param("scale"), XMM()), scale)
	b := newByteRange()
	Label("next")
	halves := []VecVirtual{YMM(), YMM()}
	for i, half := range halves {
		v := ZMM()
		VCVTDQ2PD(Mem{Base: x, Disp: 32 * i}, v)
		VADDPD(bias, v, v)
		VMULPD(scale, v, v)
		VCVTPD2PS(v, half)
	}
	z := ZMM()
	VINSERTF32X8(Imm(1), halves[1], halves[0].AsZ(), z)
	b.store(z, y)
	ADDQ(Imm(64), x)
	ADDQ(Imm(16), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()

	TEXT("requantizeAVX512", NOSPLIT,
		"func(n int, y *byte, x, add *int32, more int32, factor *float32, unit, least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe("requantizeAVX512 computes y[i] of z = (x[i] + add[i] + more)·factor[i]/unit, where the sum wraps around and each " +
		"operation rounds to float32: " + bytes)
	n, y, x = given("n"), given("y"), given("x")
	add, factor := given("add"), given("factor")
	more, unit := ZMM(), ZMM()
	VPBROADCASTD(Load(Param("more"), GP32()), more)
	VBROADCASTSS(Load(Param("unit"), XMM()), unit)
	b = newByteRange()
	Label("next")
	v := ZMM()
	VPADDD(Mem{Base: x}, more, v)
	VPADDD(Mem{Base: add}, v, v)
	VCVTDQ2PS(v, v)
	VMULPS(Mem{Base: factor}, v, v)
	VDIVPS(unit, v, v)
	b.store(v, y)
	for _, p := range []Register{x, add, factor} {
		ADDQ(Imm(64), p)
	}
	ADDQ(Imm(16), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// pairBytesAVX512 generates addBytesAVX512 and mulBytesAVX512.
func pairBytesAVX512(name, sign string, join func(...Op)) {
	TEXT(name, NOSPLIT, "func(n int, y, a, b *byte, scale *float32, zeros *int32, least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe(name + " computes y[i] of z = ((a[i] xor flip - zeros[0])·scale[0] " + sign + " (b[i] xor flip - zeros[1])·scale[1])/scale[2], " +
		"where each operation rounds to float32: (min(max(round(z), least), most) + zero) xor flip, rounding ties to even, for " +
		"i < n, a positive multiple of 16. z is no NaN. Before flip changes them, numbers lie in 0 to 255.")
	n, y, x := given("n"), given("y"), []Register{given("a"), given("b")}
	scales, zeros := given("scale"), given("zeros")
	var scale, from [2]VecVirtual
	for i := range scale {
		scale[i], from[i] = ZMM(), ZMM()
		VBROADCASTSS(Mem{Base: scales, Disp: 4 * i}, scale[i])
		VPBROADCASTD(Mem{Base: zeros, Disp: 4 * i}, from[i])
	}
	unit := ZMM()
	VBROADCASTSS(Mem{Base: scales, Disp: 8}, unit)
	r := newByteRange()
	Label("next")
	var v [2]VecVirtual
	for i := range v {
		v[i] = ZMM()
		narrow := XMM()
		VPXOR(Mem{Base: x[i]}, r.flip, narrow)
		VPMOVZXBD(narrow, v[i])
		VPSUBD(from[i], v[i], v[i])
		VCVTDQ2PS(v[i], v[i])
		VMULPS(scale[i], v[i], v[i])
	}
	join(v[1], v[0], v[0])
	VDIVPS(unit, v[0], v[0])
	r.store(v[0], y)
	for _, p := range append(x, y) {
		ADDQ(Imm(16), p)
	}
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// byteRange turns numbers into bytes of a range.
type byteRange struct{ least, most, zero, flip VecVirtual }

func newByteRange() (b byteRange) {
	b = byteRange{ZMM(), ZMM(), ZMM(), XMM()}
	VBROADCASTSS(Load(Param("least"), XMM()), b.least)
	VBROADCASTSS(Load(Param("most"), XMM()), b.most)
	VPBROADCASTD(Load(Param("zero"), GP32()), b.zero)
	everyByte("flip", b.flip)
	return b
}

// store writes 16 numbers as bytes.
func (b byteRange) store(v VecVirtual, to Register) {
	VMAXPS(b.least, v, v)
	VMINPS(b.most, v, v)
	VCVTPS2DQ(v, v)
	VPADDD(b.zero, v, v)
	w := XMM()
	VPMOVDB(v, w)
	VPXOR(b.flip, w, w)
	VMOVDQU(w, Mem{Base: to})
}
