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

// quadFiltersAVX512 generates the products of packed filters with panels: name, as sums, or as bytes.
func quadFiltersAVX512(name string, quantized bool) {
	to, more := "y *int32, ldy int", ""
	doc := name + " computes y[i][j] = Σ over p of x[p][i]·w[j/16][p][j%16] for i < rows and j < n, 1 ≤ rows ≤ 12 and n ≥ 1, where " +
		"x[p][i] is four signed bytes and w four unsigned ones, multiplied one by one; sums wrap. "
	if quantized {
		to, more = "y *byte, ldy int", ", add *int32, scale *float32, zero, flip int32"
		doc = name + " computes y[i][j] of s = add[i] + Σ over p of x[p][i]·w[j/16][p][j%16] for i < rows and j < n, 1 ≤ rows ≤ 12 and " +
			"n ≥ 1, where x[p][i] is four signed bytes and w four unsigned ones, multiplied one by one; sums wrap. y is the number in " +
			"0 to 255 next to round(s·scale[i]) + zero, xor flip: s becomes float32, and so does its product, which rounds to an " +
			"integer, ties to even, of 32 bits. "
	}
	TEXT(name, NOSPLIT, "func(rows, k, n int, x *int8, w *byte, "+to+more+")")
	Pragma("noescape")
	describe(doc + "Rows of y lie ldy elements apart. A panel w[v] has k times 16 words.")
	k, x, w, y, ldy, n := given("k"), given("x"), given("w"), given("y"), given("ldy"), given("n")
	size := GP64()
	MOVQ(k, size)
	SHLQ(Imm(6), size)
	if !quantized {
		SHLQ(Imm(2), ldy)
	}
	rowsArg := argument("rows")
	for rows := 12; rows > 0; rows-- {
		if rows > 1 {
			CMPQ(rowsArg, Imm(uint64(rows)))
			JNE(LabelRef(fmt.Sprint("not", rows)))
		}
		two, one := fmt.Sprint("two", rows), fmt.Sprint("one", rows)
		CMPQ(n, Imm(16))
		JLE(LabelRef(one))
		Label(two)
		quadTile(two, rows, 2, k, x, w, size, y, ldy, n, quantized)
		LEAQ(Mem{Base: w, Index: size, Scale: 2}, w)
		width := 32
		if !quantized {
			width *= 4
		}
		ADDQ(bytes(width), y)
		SUBQ(Imm(32), n)
		CMPQ(n, Imm(16))
		JG(LabelRef(two))
		TESTQ(n, n)
		JLE(LabelRef("done"))
		Label(one)
		quadTile(one, rows, 1, k, x, w, size, y, ldy, n, quantized)
		JMP(LabelRef("done"))
		if rows > 1 {
			Label(fmt.Sprint("not", rows))
		}
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// filtersAhead is the distance in bytes at which filters are fetched that lie in no near cache: some 400 cycles' worth.
const filtersAhead = 1536

// quadTile writes a block of rows and of one or two panels, of which at least one column of the last counts.
func quadTile(label string, rows, panels int, k, x, w, size, y, ldy, n GPVirtual, quantized bool) {
	acc := make([][]VecVirtual, rows)
	add, scale := GP64(), GP64()
	if quantized {
		MOVQ(argument("add"), add)
	}
	for i := range acc {
		for v := range panels {
			acc[i] = append(acc[i], ZMM())
			switch {
			case !quantized:
				VXORPS(acc[i][v], acc[i][v], acc[i][v])
			case v == 0:
				VPBROADCASTD(Mem{Base: add, Disp: 4 * i}, acc[i][v])
			default:
				VMOVDQA64(acc[i][0], acc[i][v])
			}
		}
	}
	cur, from, count := GP64(), GP64(), GP64()
	MOVQ(x, cur)
	MOVQ(w, from)
	run := func(steps int) {
		for p := range steps {
			var words []VecVirtual
			for v := range panels {
				m := Mem{Base: from, Disp: 64 * p}
				if v > 0 {
					m.Index, m.Scale = size, 1
				}
				word := ZMM()
				VMOVUPS(m, word)
				words = append(words, word)
			}
			PREFETCHT0(Mem{Base: cur, Disp: 4*p*rows + filtersAhead})
			for i := range acc {
				at := Mem{Base: cur, Disp: 4 * (p*rows + i)}
				a := ZMM()
				VPBROADCASTD(at, a)
				for v := range words {
					VPDPBUSD(a, words[v], acc[i][v])
				}
			}
		}
		ADDQ(bytes(64*steps), from)
		ADDQ(bytes(4*rows*steps), cur)
		DECQ(count)
	}
	MOVQ(k, count)
	SHRQ(Imm(1), count)
	JZ(LabelRef("rest" + label))
	Label("pair" + label)
	run(2)
	JNZ(LabelRef("pair" + label))
	Label("rest" + label)
	TESTQ(U32(1), k)
	JZ(LabelRef("sum" + label))
	run(1)
	Label("sum" + label)
	left, to := GP64(), GP64()
	MOVQ(n, left)
	if panels > 1 {
		least := GP64()
		MOVQ(U32(32), least)
		CMPQ(left, least)
		CMOVQGT(least, left)
	}
	masks := columns(left, panels)
	MOVQ(y, to)
	if !quantized {
		for _, row := range acc {
			for v, sum := range row {
				VMOVDQU32(sum, masks[v], Mem{Base: to, Disp: 64 * v})
			}
			ADDQ(ldy, to)
		}
		return
	}
	zero, least, flip := ZMM(), ZMM(), XMM()
	VPBROADCASTD(Load(Param("zero"), GP32()), zero)
	everyByte("flip", flip)
	VXORPS(least, least, least)
	MOVQ(argument("scale"), scale)
	for i, row := range acc {
		factor := ZMM()
		VBROADCASTSS(Mem{Base: scale, Disp: 4 * i}, factor)
		for v, sum := range row {
			VCVTDQ2PS(sum, sum)
			VMULPS(factor, sum, sum)
			VCVTPS2DQ(sum, sum)
			VPADDD(zero, sum, sum)
			VPMAXSD(least, sum, sum)
			b := XMM()
			VPMOVUSDB(sum, b)
			VPXORD(flip, b, b)
			VMOVDQU8(b, masks[v], Mem{Base: to, Disp: 16 * v})
		}
		ADDQ(ldy, to)
	}
}

// quadPanelsAVX512 generates quadPanelsAVX512.
func quadPanelsAVX512() {
	TEXT("quadPanelsAVX512", NOSPLIT, "func(quads int, y *byte, size int, x *byte, off *int32, flip int32)")
	Pragma("noescape")
	describe("quadPanelsAVX512 computes y[v][p][j][h] = x[off[4p+h]+16v+j] xor flip for v < 4, p < quads, j < 16 and h < 4, quads " +
		"≥ 1. Panels y[v] lie size bytes apart.")
	n, y, size, x, off := given("quads"), given("y"), given("size"), given("x"), given("off")
	far, flip := GP64(), ZMM()
	LEAQ(Mem{Base: size, Index: size, Scale: 2}, far)
	everyByte("flip", flip)
	Label("next")
	var rows [4]VecVirtual
	for h := range rows {
		at := GP64()
		rows[h] = ZMM()
		MOVLQSX(Mem{Base: off, Disp: 4 * h}, at)
		VPXORD(Mem{Base: x, Index: at, Scale: 1}, flip, rows[h])
	}
	var parts []VecVirtual // four positions of each panel
	for _, unpack := range []func(...Op){VPUNPCKLBW, VPUNPCKHBW} {
		a, b := ZMM(), ZMM()
		unpack(rows[1], rows[0], a)
		unpack(rows[3], rows[2], b)
		for _, unpack := range []func(...Op){VPUNPCKLWD, VPUNPCKHWD} {
			v := ZMM()
			unpack(b, a, v)
			parts = append(parts, v)
		}
	}
	var pairs [4]VecVirtual // panels 0 and 1, or 2 and 3, of two parts
	for i := range pairs {
		pairs[i] = ZMM()
		VSHUFI32X4(Imm([]uint64{0x44, 0xee}[i%2]), parts[i/2*2+1], parts[i/2*2], pairs[i])
	}
	for v, m := range []Mem{{Base: y}, {Base: y, Index: size, Scale: 1}, {Base: y, Index: size, Scale: 2}, {Base: y, Index: far, Scale: 1}} {
		panel := ZMM()
		VSHUFI32X4(Imm([]uint64{0x88, 0xdd}[v%2]), pairs[2+v/2], pairs[v/2], panel)
		VMOVDQU64(panel, m)
	}
	ADDQ(Imm(16), off)
	ADDQ(Imm(64), y)
	DECQ(n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
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
