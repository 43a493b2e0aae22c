package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// transposeAVX2 generates a transpose of squares of eight by eight numbers. It first combines halves of rows i and i+4
// in one vector. The rest happens inside the halves of vectors, first with numbers, then with pairs.
func transposeAVX2() {
	TEXT("transposeAVX2", NOSPLIT, "func(squares int, y *float32, ldy, stepY int, x *float32, ldx, stepX int)")
	Pragma("noescape")
	describe("transposeAVX2 transposes squares ≥ 1 squares of 8 by 8 numbers; rows lie ldx and ldy numbers apart, " +
		"squares stepX and stepY.")
	n := Load(Param("squares"), GP64())
	pointers := func(base, stride, step string) (rows [8]Mem, next func()) {
		p, ld, by := Load(Param(base), GP64()), Load(Param(stride), GP64()), Load(Param(step), GP64())
		SHLQ(Imm(2), ld)
		SHLQ(Imm(2), by)
		three, q := GP64(), GP64()
		LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, three)
		LEAQ(Mem{Base: p, Index: ld, Scale: 4}, q)
		for i, b := range []Register{p, q} {
			rows[4*i] = Mem{Base: b}
			rows[4*i+1] = Mem{Base: b, Index: ld, Scale: 1}
			rows[4*i+2] = Mem{Base: b, Index: ld, Scale: 2}
			rows[4*i+3] = Mem{Base: b, Index: three, Scale: 1}
		}
		return rows, func() {
			ADDQ(by, p)
			ADDQ(by, q)
		}
	}
	y, nextY := pointers("y", "ldy", "stepY")
	x, nextX := pointers("x", "ldx", "stepX")
	Label("square")
	var a, b [8]VecVirtual
	for i := range a {
		a[i], b[i] = YMM(), YMM()
	}
	for i := range 4 {
		VMOVUPS(x[i], a[i].AsX())
		VINSERTF128(Imm(1), x[i+4], a[i], a[i])
		lo := x[i]
		lo.Disp = 16
		hi := x[i+4]
		hi.Disp = 16
		VMOVUPS(lo, a[i+4].AsX())
		VINSERTF128(Imm(1), hi, a[i+4], a[i+4])
	}
	for i := 0; i < 8; i += 4 {
		VUNPCKLPS(a[i+1], a[i], b[i])
		VUNPCKHPS(a[i+1], a[i], b[i+1])
		VUNPCKLPS(a[i+3], a[i+2], b[i+2])
		VUNPCKHPS(a[i+3], a[i+2], b[i+3])
		VUNPCKLPD(b[i+2], b[i], a[i])
		VUNPCKHPD(b[i+2], b[i], a[i+1])
		VUNPCKLPD(b[i+3], b[i+1], a[i+2])
		VUNPCKHPD(b[i+3], b[i+1], a[i+3])
	}
	for i := range a {
		VMOVUPS(a[i], y[i])
	}
	nextX()
	nextY()
	DECQ(n)
	JNZ(LabelRef("square"))
	VZEROUPPER()
	RET()
}
