package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// dots512 generates products of integers by one instruction of AVX512_VNNI for each row and word: multiply adds to sums
// the products of the parts of a vector and of a word in memory.
func dots512(name, number, parts, doc string, multiply func(...Op)) {
	TEXT(name, NOSPLIT, "func(rows, k int, x *"+number+", ldx int, w *"+parts+", y *int32, ldy int)")
	Pragma("noescape")
	describe(name + " computes y[i][j] = Σ over p of x[i][p]·w[p][j] for i < rows and j < 16, rows ≥ 1, where " + doc +
		"; sums wrap. Rows of x and y lie ldx and ldy words of 32 bits apart; w is one panel, 16 words for each p.")
	k := Load(Param("k"), GP64())
	x, ldx := strided("x", "ldx")
	y, ldy := strided("y", "ldy")
	panel := given("w")
	tiles(argument("rows"), upTo(12), func(rows int) {
		t := newTile(rows, 16)
		t.each(func(_, _ int, acc VecVirtual) { VXORPS(acc, acc, acc) })
		t.products(fmt.Sprint(rows), k, x, ldx, panel, func(p int) {
			w := t.words(p)[0]
			for i, acc := range t.acc {
				multiply(t.x[i].Offset(4*p), w, acc[0])
			}
		})
		t.store(y, ldy, nil)
		skipRows(x, ldx, rows)
		skipRows(y, ldy, rows)
	})
}

// quadsTwoAVX512 generates quadsTwoAVX512, which loads fewer words for a product than quadsAVX512 does: those can be fewer
// than two for each instruction.
func quadsTwoAVX512() {
	TEXT("quadsTwoAVX512", NOSPLIT, "func(rows, k int, x *int8, ldx int, w *byte, y *int32, ldy int)")
	Pragma("noescape")
	describe("quadsTwoAVX512 computes y[i][j] as quadsAVX512 does, for j < 32: w is two panels, one after the other.")
	k := Load(Param("k"), GP64()).(GPVirtual)
	x, ldx := strided("x", "ldx")
	y, ldy := strided("y", "ldy")
	panel, second := given("w"), GP64()
	MOVQ(k, second)
	SHLQ(Imm(6), second)
	tiles(argument("rows"), upTo(12), func(rows int) {
		t := newTile(rows, 32)
		t.width = 16 // of a panel
		t.each(func(_, _ int, acc VecVirtual) { VXORPS(acc, acc, acc) })
		t.products(fmt.Sprint(rows), k, x, ldx, panel, func(p int) {
			var w [2]VecVirtual
			for v, m := range []Mem{{Base: t.w, Disp: 64 * p}, {Base: t.w, Index: second, Scale: 1, Disp: 64 * p}} {
				w[v] = ZMM()
				VMOVUPS(m, w[v])
			}
			for i, acc := range t.acc {
				a := ZMM()
				VPBROADCASTD(t.x[i].Offset(4*p), a)
				for v := range w {
					VPDPBUSD(a, w[v], acc[v])
				}
			}
		})
		t.store(y, ldy, nil)
		skipRows(x, ldx, rows)
		skipRows(y, ldy, rows)
	})
}

// quadPanelAVX512 generates quadPanelAVX512.
func quadPanelAVX512() {
	TEXT("quadPanelAVX512", NOSPLIT, "func(quads int, y, x *byte, off *int32, flip int32)")
	Pragma("noescape")
	describe("quadPanelAVX512 computes y[p][j][h] = x[off[4p+h]+j] xor flip for p < quads, j < 16 and h < 4, quads ≥ 1.")
	n, y, x, off := given("quads"), given("y"), given("x"), given("off")
	flip := XMM()
	everyByte("flip", flip)
	Label("next")
	var rows [4]VecVirtual
	for h := range rows {
		at := GP64()
		rows[h] = XMM()
		MOVLQSX(Mem{Base: off, Disp: 4 * h}, at)
		VPXOR(Mem{Base: x, Index: at, Scale: 1}, flip, rows[h])
	}
	for half, unpack := range []func(...Op){VPUNPCKLBW, VPUNPCKHBW} {
		a, b := XMM(), XMM()
		unpack(rows[1], rows[0], a)
		unpack(rows[3], rows[2], b)
		for i, unpack := range []func(...Op){VPUNPCKLWD, VPUNPCKHWD} {
			v := XMM()
			unpack(b, a, v)
			VMOVDQU(v, Mem{Base: y, Disp: 32*half + 16*i})
		}
	}
	ADDQ(Imm(16), off)
	ADDQ(Imm(64), y)
	DECQ(n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}
