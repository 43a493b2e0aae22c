package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// addRowsAVX2 generates sums of rows in float64. The sums of a few columns stay in registers over all rows.
func addRowsAVX2() {
	const vectors = 4 // of four numbers
	TEXT("addRowsAVX2", NOSPLIT, "func(rows, n int, y *float64, x *float32, stride int)")
	Pragma("noescape")
	describe("addRowsAVX2 adds rows of n numbers, stride apart, to y, in order. rows is positive, n a positive " +
		"multiple of 16.")
	rows, n, y, x, stride := Load(Param("rows"), GP64()), Load(Param("n"), GP64()), Load(Param("y"), GP64()),
		Load(Param("x"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)
	acc := fresh(vectors)
	Label("columns")
	for i, a := range acc {
		VMOVUPD(Mem{Base: y, Disp: 32 * i}, a)
	}
	at, left := GP64(), GP64()
	MOVQ(x, at)
	MOVQ(rows, left)
	Label("row")
	for i, a := range acc {
		v := YMM()
		VCVTPS2PD(Mem{Base: at, Disp: 16 * i}, v)
		VADDPD(v, a, a)
	}
	ADDQ(stride, at)
	DECQ(left)
	JNZ(LabelRef("row"))
	for i, a := range acc {
		VMOVUPD(a, Mem{Base: y, Disp: 32 * i})
	}
	ADDQ(Imm(32*vectors), y)
	ADDQ(Imm(16*vectors), x)
	SUBQ(Imm(4*vectors), n)
	JNZ(LabelRef("columns"))
	VZEROUPPER()
	RET()
}
