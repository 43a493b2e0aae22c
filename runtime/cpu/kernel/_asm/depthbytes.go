package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// depthBytesAVX512 generates depthBytesAVX512: convolutions of bytes, a channel at a time. It uses AVX512_VBMI and AVX512_VNNI.
func depthBytesAVX512() {
	TEXT("depthBytesAVX512", NOSPLIT, "func(p *int, y, x *byte, w *int32, add *int32, scale *float32, channels int)")
	Pragma("noescape")
	describe("depthBytesAVX512 computes y[c][i][j] for c < channels, i < p.rows and j < p.n, all positive, from the sums s = add[c] + Σ " +
		"over t < p.taps and h < 4 of w[c][t][h]·x[c][i][p.off[t] + p.step·j/16 + p.index[4·(j%16)+h]], where p is a depthShape, w are signed, and x, xor " +
		"p.flipIn, unsigned bytes: the number in 0 to 255 next to round(s·scale[c]) + p.zero, xor p.flipOut. s becomes float32, and so " +
		"does its product, which rounds to an integer, ties to even, of 32 bits. 64 bytes are read for 16 positions.")
	p := given("p")
	field := func(i int) Mem { return Mem{Base: p, Disp: 8 * i} } // of a depthShape
	w := given("w")
	flipIn, flipOut, index, zero, least := ZMM(), XMM(), ZMM(), ZMM(), ZMM()
	VPBROADCASTB(field(depthFlipIn), flipIn)
	VPBROADCASTB(field(depthFlipOut), flipOut)
	VPBROADCASTD(field(depthZero), zero)
	VMOVDQU64(field(depthIndex), index)
	VXORPS(least, least, least)
	channels := argument("channels")
	Label("channel")
	bias, factor := ZMM(), ZMM()
	VPBROADCASTD(Mem{Base: given("add")}, bias)
	VBROADCASTSS(Mem{Base: given("scale")}, factor)
	rows, toRow, fromRow := GP64(), given("y"), given("x")
	MOVQ(field(depthRows), rows)
	Label("row")
	left, to, from := GP64(), GP64(), GP64()
	MOVQ(field(depthN), left)
	MOVQ(toRow, to)
	MOVQ(fromRow, from)
	Label("block")
	sum := ZMM()
	VMOVDQA64(bias, sum)
	tap := func(at GPVirtual, words Mem) {
		v := ZMM()
		VPXORD(Mem{Base: from, Index: at, Scale: 1}, flipIn, v)
		VPERMB(v, index, v)
		VPDPBUSD_BCST(words, v, sum)
	}
	off, taps := GP64(), GP64()
	MOVQ(field(depthOff), off)
	MOVQ(field(depthTaps), taps)
	CMPQ(taps, Imm(3))
	JNE(LabelRef("many"))
	for t := range 3 {
		at := GP64()
		MOVLQSX(Mem{Base: off, Disp: 4 * t}, at)
		tap(at, Mem{Base: w, Disp: 4 * t})
	}
	JMP(LabelRef("sum"))
	Label("many")
	word := GP64()
	MOVQ(w, word)
	Label("tap")
	at := GP64()
	MOVLQSX(Mem{Base: off}, at)
	tap(at, Mem{Base: word})
	ADDQ(Imm(4), off)
	ADDQ(Imm(4), word)
	DECQ(taps)
	JNZ(LabelRef("tap"))
	Label("sum")
	VCVTDQ2PS(sum, sum)
	VMULPS(factor, sum, sum)
	VCVTPS2DQ(sum, sum)
	VPADDD(zero, sum, sum)
	VPMAXSD(least, sum, sum)
	b := XMM()
	VPMOVUSDB(sum, b)
	VPXORD(flipOut, b, b)
	CMPQ(left, Imm(16))
	JL(LabelRef("last"))
	VMOVDQU8(b, Mem{Base: to})
	ADDQ(Imm(16), to)
	ADDQ(field(depthStep), from)
	SUBQ(Imm(16), left)
	JNZ(LabelRef("block"))
	JMP(LabelRef("next"))
	Label("last")
	mask := lowest(left)
	VMOVDQU8(b, mask, Mem{Base: to})
	Label("next")
	ADDQ(field(depthLdy), toRow)
	ADDQ(field(depthLdx), fromRow)
	DECQ(rows)
	JNZ(LabelRef("row"))
	next := GP64()
	for i, plane := range []int{depthPlaneY, depthPlaneX} {
		MOVQ(field(plane), next)
		ADDQ(next, argument([]string{"y", "x"}[i]))
	}
	ADDQ(Imm(4), argument("add"))
	ADDQ(Imm(4), argument("scale"))
	MOVQ(field(depthTaps), next)
	LEAQ(Mem{Base: w, Index: next, Scale: 4}, w)
	DECQ(channels)
	JNZ(LabelRef("channel"))
	VZEROUPPER()
	RET()
}

// The fields of depthShape, by words of 64 bits.
const (
	depthRows = iota
	depthN
	depthTaps
	depthStep
	depthLdy
	depthLdx
	depthPlaneY
	depthPlaneX
	depthOff
	depthZero
	depthFlipIn
	depthFlipOut
	depthIndex
)

// copyPlanes generates copyPlanesAVX512.
func copyPlanesAVX512() {
	TEXT("copyPlanesAVX512", NOSPLIT, "func(planes, rows, n int, y *byte, planeY, ldy int, x *byte, planeX, ldx int)")
	Pragma("noescape")
	describe("copyPlanesAVX512 sets n bytes of each of rows of each of planes of y to those of x, all positive. Rows and planes lie ldy " +
		"and planeY, and ldx and planeX bytes apart.")
	planes, y, x, ldy, ldx := given("planes"), given("y"), given("x"), given("ldy"), given("ldx")
	Label("plane")
	rows, toRow, fromRow := GP64(), GP64(), GP64()
	MOVQ(argument("rows"), rows)
	MOVQ(y, toRow)
	MOVQ(x, fromRow)
	Label("row")
	left, to, from := GP64(), GP64(), GP64()
	MOVQ(argument("n"), left)
	MOVQ(toRow, to)
	MOVQ(fromRow, from)
	SUBQ(Imm(64), left)
	JL(LabelRef("rest"))
	Label("whole")
	v := ZMM()
	VMOVDQU64(Mem{Base: from}, v)
	VMOVDQU64(v, Mem{Base: to})
	ADDQ(Imm(64), from)
	ADDQ(Imm(64), to)
	SUBQ(Imm(64), left)
	JGE(LabelRef("whole"))
	Label("rest")
	ADDQ(Imm(64), left)
	JZ(LabelRef("next"))
	ones, mask, last := GP64(), K(), ZMM()
	MOVQ(I32(-1), ones)
	BZHIQ(left, ones, ones)
	KMOVQ(ones, mask)
	VMOVDQU8_Z(Mem{Base: from}, mask, last)
	VMOVDQU8(last, mask, Mem{Base: to})
	Label("next")
	ADDQ(ldx, fromRow)
	ADDQ(ldy, toRow)
	DECQ(rows)
	JNZ(LabelRef("row"))
	ADDQ(argument("planeY"), y)
	ADDQ(argument("planeX"), x)
	DECQ(planes)
	JNZ(LabelRef("plane"))
	VZEROUPPER()
	RET()
}

// largestTaps generates a function of largest bytes.
func largestTaps(name, number string, max func(...Op)) {
	TEXT(name, NOSPLIT, "func(n int, y, x *byte, off *int32, taps int)")
	Pragma("noescape")
	describe(name + " computes y[i] = max over t < taps of x[off[t]+i], which are " + number + " bytes, for i < n, n and taps ≥ 1.")
	n, y, x, off, taps := given("n"), given("y"), given("x"), given("off"), given("taps")
	block := func(label string, mask Op) {
		load := func(at GPVirtual) VecVirtual {
			v, m := ZMM(), Mem{Base: x, Index: at, Scale: 1}
			if mask == nil {
				VMOVDQU64(m, v)
			} else {
				VMOVDQU8_Z(m, mask, v)
			}
			return v
		}
		at, next, left := GP64(), GP64(), GP64()
		MOVLQSX(Mem{Base: off}, at)
		v := load(at)
		MOVQ(off, next)
		MOVQ(taps, left)
		JMP(LabelRef(label + "next"))
		Label(label + "tap")
		MOVLQSX(Mem{Base: next}, at)
		max(load(at), v, v)
		Label(label + "next")
		ADDQ(Imm(4), next)
		DECQ(left)
		JNZ(LabelRef(label + "tap"))
		if mask == nil {
			VMOVDQU64(v, Mem{Base: y})
		} else {
			VMOVDQU8(v, mask, Mem{Base: y})
		}
	}
	SUBQ(Imm(64), n)
	JL(LabelRef("rest"))
	Label("whole")
	block("whole", nil)
	ADDQ(Imm(64), x)
	ADDQ(Imm(64), y)
	SUBQ(Imm(64), n)
	JGE(LabelRef("whole"))
	Label("rest")
	ADDQ(Imm(64), n)
	JZ(LabelRef("done"))
	ones, mask := GP64(), K()
	MOVQ(I32(-1), ones)
	BZHIQ(n, ones, ones)
	KMOVQ(ones, mask)
	block("rest", mask)
	Label("done")
	VZEROUPPER()
	RET()
}
