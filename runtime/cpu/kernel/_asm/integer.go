package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pairsAVX2 generates pairsAVX2: VPMADDWD adds two exact products of 16 bits per number.
func pairsAVX2() {
	TEXT("pairsAVX2", NOSPLIT, "func(rows, k int, x *int16, ldx int, w *int16, y *int32, ldy int)")
	Pragma("noescape")
	describe("pairsAVX2 computes y[i][j] = Σ over p of x[i][p]·w[p][j] for i < rows and j < 16, rows ≥ 1, where " +
		"x[i][p] and w[p][j] are k pairs of numbers, multiplied one by one; sums wrap. " +
		"Rows of x and y lie ldx and ldy numbers of 16 and 32 bits apart; w is one panel, 16 pairs for each p.")
	k := Load(Param("k"), GP64())
	x, ldx := given("x"), given("ldx")
	SHLQ(Imm(1), ldx)
	y, ldy := strided("y", "ldy")
	panel := given("w")
	tiles(argument("rows"), upTo(6), func(rows int) {
		t := newTile(rows, 16)
		t.each(func(_, _ int, acc VecVirtual) { VPXOR(acc, acc, acc) })
		t.products(fmt.Sprint(rows), k, x, ldx, panel, func(p int) { t.step(p, 0, addPairs) })
		t.store(y, ldy, nil)
		skipRows(x, ldx, rows)
		skipRows(y, ldy, rows)
	})
}

// addPairs adds the products of pairs of numbers of 16 bits.
func addPairs(a, w, acc VecVirtual) {
	sums := YMM()
	VPMADDWD(w, a, sums)
	VPADDD(sums, acc, acc)
}

// everyByte, everyWord and every32 return vectors that repeat the low bits of an integer parameter.
func everyByte(name string, v Register) { VPBROADCASTB(lowest32(name), v) }

func everyWord(name string, v Register) { VPBROADCASTW(lowest32(name), v) }

func every32(name string, v Register) { VPBROADCASTD(lowest32(name), v) }

func lowest32(name string) VecVirtual {
	x := XMM()
	VMOVD(Load(Param(name), GP32()), x)
	return x
}

// splat32 returns a vector that repeats a float32 parameter.
func splat32(name string) VecVirtual {
	v := YMM()
	VBROADCASTSS(argument(name), v)
	return v
}

// widenBytesAVX2 generates widenBytesAVX2.
func widenBytesAVX2() {
	TEXT("widenBytesAVX2", NOSPLIT, "func(n int, y *int16, x *byte, flip, zero int32)")
	Pragma("noescape")
	describe("widenBytesAVX2 computes y[i] = (x[i] xor flip) - zero for i < n, a positive multiple of 16.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	flip, zero := XMM(), YMM()
	everyByte("flip", flip)
	everyWord("zero", zero)
	Label("next")
	b, v := XMM(), YMM()
	VPXOR(Mem{Base: x}, flip, b)
	VPMOVZXBW(b, v)
	VPSUBW(zero, v, v)
	VMOVDQU(v, Mem{Base: y})
	ADDQ(Imm(16), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// pairPanelAVX2 generates pairPanelAVX2.
func pairPanelAVX2() {
	TEXT("pairPanelAVX2", NOSPLIT, "func(pairs int, y *int16, x *byte, off *int32, flip, zero int32)")
	Pragma("noescape")
	describe("pairPanelAVX2 computes y[p][j][h] = (x[off[2p+h]+j] xor flip) - zero for p < pairs, j < 16 and h < " +
		"2, pairs ≥ 1.")
	n, y, x, off := Load(Param("pairs"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64()),
		Load(Param("off"), GP64())
	flip, zero := XMM(), YMM()
	everyByte("flip", flip)
	everyWord("zero", zero)
	Label("next")
	rows := [2]VecVirtual{XMM(), XMM()}
	for h := range rows {
		at := GP64()
		MOVLQSX(Mem{Base: off, Disp: 4 * h}, at)
		VPXOR(Mem{Base: x, Index: at, Scale: 1}, flip, rows[h])
	}
	lo, hi := XMM(), XMM()
	VPUNPCKLBW(rows[1], rows[0], lo)
	VPUNPCKHBW(rows[1], rows[0], hi)
	for v, half := range []VecVirtual{lo, hi} {
		w := YMM()
		VPMOVZXBW(half, w)
		VPSUBW(zero, w, w)
		VMOVDQU(w, Mem{Base: y, Disp: 32 * v})
	}
	ADDQ(Imm(8), off)
	ADDQ(Imm(64), y)
	DECQ(n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// quantizeBytesAVX2 generates quantizeBytesAVX2.
func quantizeBytesAVX2() {
	TEXT("quantizeBytesAVX2", NOSPLIT, "func(n int, y *byte, x *float32, scale, least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe("quantizeBytesAVX2 computes y[i] = (min(max(round(x[i]/scale), least), most) + zero) xor flip, " +
		"rounding ties to even, for i < n, a positive multiple of 32; 0 where that is NaN. " +
		"Before flip changes them, numbers lie in 0 to 255.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	scale, least, most := splat32("scale"), splat32("least"), splat32("most")
	zero, flip, nan := YMM(), YMM(), YMM()
	every32("zero", zero)
	everyByte("flip", flip)
	every32("flip", nan)
	order := YMM()
	VMOVDQU(laneOrder(), order)
	Label("next")
	v := fresh(4)
	for i := range v {
		number := YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v[i])
		VDIVPS(scale, v[i], v[i])
		VCMPPS(Imm(7), v[i], v[i], number) // not NaN
		VROUNDPS(Imm(0), v[i], v[i])
		VMAXPS(least, v[i], v[i])
		VMINPS(most, v[i], v[i])
		VCVTPS2DQ(v[i], v[i])
		VPADDD(zero, v[i], v[i])
		VBLENDVPS(number, v[i], nan, v[i])
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKUSWB(v[2], v[0], v[0])
	VPERMD(v[0], order, v[0])
	VPXOR(flip, v[0], v[0])
	VMOVDQU(v[0], Mem{Base: y})
	ADDQ(U32(128), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// laneOrder restores the order of four vectors of numbers that were packed to bytes within halves.
func laneOrder() Mem {
	m := GLOBL("laneOrder", RODATA|NOPTR)
	for i, k := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(k))
	}
	return m
}

// dequantizeBytesAVX2 generates dequantizeBytesAVX2.
func dequantizeBytesAVX2() {
	TEXT("dequantizeBytesAVX2", NOSPLIT, "func(n int, y *float32, x *byte, flip, zero int32, scale float32)")
	Pragma("noescape")
	describe("dequantizeBytesAVX2 computes y[i] = ((x[i] xor flip) - zero)·scale for i < n, a positive multiple of 16.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	flip, zero, scale := XMM(), YMM(), splat32("scale")
	everyByte("flip", flip)
	every32("zero", zero)
	Label("next")
	b := XMM()
	VPXOR(Mem{Base: x}, flip, b)
	for i := range 2 {
		v := YMM()
		if i > 0 {
			VPSRLDQ(Imm(8), b, b)
		}
		VPMOVZXBD(b, v)
		VPSUBD(zero, v, v)
		VCVTDQ2PS(v, v)
		VMULPS(scale, v, v)
		VMOVUPS(v, Mem{Base: y, Disp: 32 * i})
	}
	ADDQ(Imm(16), x)
	ADDQ(Imm(64), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// floatsOfIntsAVX2 generates floatsOfIntsAVX2.
func floatsOfIntsAVX2() {
	TEXT("floatsOfIntsAVX2", NOSPLIT, "func(n int, y *float32, x *int32)")
	Pragma("noescape")
	describe("floatsOfIntsAVX2 computes y[i] = x[i], rounded to float32, for i < n, a positive multiple of 8.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	Label("next")
	v := YMM()
	VCVTDQ2PS(Mem{Base: x}, v)
	VMOVUPS(v, Mem{Base: y})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// intsOfFloatsAVX2 generates intsOfFloatsAVX2.
func intsOfFloatsAVX2() {
	TEXT("intsOfFloatsAVX2", NOSPLIT, "func(n int, y *int32, x *float32)")
	Pragma("noescape")
	describe("intsOfFloatsAVX2 computes y[i] = x[i], which are integers, for i < n, a positive multiple of 8.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	Label("next")
	v := YMM()
	VCVTPS2DQ(Mem{Base: x}, v)
	VMOVDQU(v, Mem{Base: y})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// addIntsAVX2 generates addIntsAVX2.
func addIntsAVX2() {
	TEXT("addIntsAVX2", NOSPLIT, "func(n int, y, x *int32, more int32)")
	Pragma("noescape")
	describe("addIntsAVX2 computes y[i] += x[i] + more for i < n, a positive multiple of 8; sums wrap.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	more := YMM()
	every32("more", more)
	Label("next")
	v := YMM()
	VPADDD(Mem{Base: x}, more, v)
	VPADDD(Mem{Base: y}, v, v)
	VMOVDQU(v, Mem{Base: y})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// scaleIntsAVX2 generates scaleIntsAVX2.
func scaleIntsAVX2() {
	TEXT("scaleIntsAVX2", NOSPLIT, "func(n int, y *float32, x *int32, bias, scale float64)")
	Pragma("noescape")
	describe("scaleIntsAVX2 computes y[i] = (x[i] + bias)·scale in float64, rounded to float32, for i < n, a " +
		"positive multiple of 8.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	bias, scale := splat64("bias"), splat64("scale")
	Label("next")
	for i := range 2 {
		v := YMM()
		VCVTDQ2PD(Mem{Base: x, Disp: 16 * i}, v)
		VADDPD(bias, v, v)
		VMULPD(scale, v, v)
		VCVTPD2PSY(v, v.AsX())
		VMOVUPS(v.AsX(), Mem{Base: y, Disp: 16 * i})
	}
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// extremesAVX2 generates extremesAVX2.
func extremesAVX2() {
	TEXT("extremesAVX2", NOSPLIT, "func(n int, x *float32) (lo, hi float32, nan uint32)")
	Pragma("noescape")
	describe("extremesAVX2 returns the least and the greatest of n numbers, a positive multiple of 16. If one is " +
		"NaN, nan is not 0, and the other results have no meaning.")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	lo, hi, nan := fresh(2), fresh(2), YMM()
	for i := range lo {
		VMOVUPS(Mem{Base: x}, lo[i])
		VMOVAPS(lo[i], hi[i])
	}
	VPXOR(nan, nan, nan)
	Label("next")
	for i := range lo {
		v, odd := YMM(), YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VMINPS(v, lo[i], lo[i])
		VMAXPS(v, hi[i], hi[i])
		VCMPPS(Imm(unordered), v, v, odd)
		VORPS(odd, nan, nan)
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	fold := func(join func(ops ...Op), v []VecVirtual) Register {
		join(v[1], v[0], v[0])
		half, low := XMM(), v[0].AsX()
		VEXTRACTF128(Imm(1), v[0], half)
		join(half, low, low)
		VPSHUFD(Imm(0x4e), low, half)
		join(half, low, low)
		VPSHUFD(Imm(0xb1), low, half)
		join(half, low, low)
		return low
	}
	Store(fold(VMINPS, lo), ReturnIndex(0))
	Store(fold(VMAXPS, hi), ReturnIndex(1))
	mask := GP32()
	VMOVMSKPS(nan, mask)
	Store(mask, ReturnIndex(2))
	VZEROUPPER()
	RET()
}
