package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wideProductAVX2 generates a product in float64 of four rows with a panel of eight columns, which stays in registers.
func wideProductAVX2() {
	const rows, vectors = 4, 2 // vectors of four numbers
	TEXT("wideProductAVX2", NOSPLIT, "func(k int, y *float64, ldy int, w *float64, ldw int, panel *float64)")
	Pragma("noescape")
	describe("wideProductAVX2 computes y[r·ldy+j] = Σ over p of w[r·ldw+p]·panel[8·p+j] for four rows and eight columns. " +
		"k is positive.")
	k, y, ldy, w, ldw, panel := Load(Param("k"), GP64()), Load(Param("y"), GP64()), Load(Param("ldy"), GP64()),
		Load(Param("w"), GP64()), Load(Param("ldw"), GP64()), Load(Param("panel"), GP64())
	SHLQ(Imm(3), ldy)
	SHLQ(Imm(3), ldw)
	third := GP64() // three times ldw
	LEAQ(Mem{Base: ldw, Index: ldw, Scale: 2}, third)
	x := []Mem{{Base: w}, {Base: w, Index: ldw, Scale: 1}, {Base: w, Index: ldw, Scale: 2},
		{Base: w, Index: third, Scale: 1}}
	var acc [rows][vectors]VecVirtual
	for r := range acc {
		for v := range acc[r] {
			acc[r][v] = YMM()
			VXORPD(acc[r][v], acc[r][v], acc[r][v])
		}
	}
	Label("step")
	b := fresh(vectors)
	for v := range b {
		VMOVUPD(Mem{Base: panel, Disp: 32 * v}, b[v])
	}
	for r := range acc {
		a := YMM()
		VBROADCASTSD(x[r], a)
		for v := range b {
			VFMADD231PD(b[v], a, acc[r][v])
		}
	}
	ADDQ(Imm(8), w)
	ADDQ(Imm(32*vectors), panel)
	DECQ(k)
	JNZ(LabelRef("step"))
	for r := range acc {
		for v := range acc[r] {
			VMOVUPD(acc[r][v], Mem{Base: y, Disp: 32 * v})
		}
		if r+1 < rows {
			ADDQ(ldy, y)
		}
	}
	VZEROUPPER()
	RET()
}
