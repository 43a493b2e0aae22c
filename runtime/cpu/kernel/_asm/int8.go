package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// block is what kernels of products in low precision have in common: rows of x in blocks, one panel of weights, and a loop over
// groups of four products, for which both are padded.
type block struct {
	rows                 int
	x, y                 []Mem // where the rows of the block begin
	w                    GPVirtual
	scale, bias          GPVirtual // absent for bf16, which has no scale
	blocks, groups       GPVirtual
	xFirst, yFirst       GPVirtual
	ldx, ldy             GPVirtual
	panel                GPVirtual
	bytesOfW, bytesOfRow int // that one group takes
}

// blockRows gives the rows of a block: 0 to 2 hang on one pointer, 3 to 5 on another, as x86 scales an index by 1, 2, 4 or 8.
func blockRows(first, ld GPVirtual, rows int) (mems []Mem) {
	cur := first
	for i := range rows {
		if i == 3 {
			cur = GP64()
			LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, cur)
			ADDQ(first, cur)
		}
		if i%3 == 0 {
			mems = append(mems, Mem{Base: cur})
		} else {
			mems = append(mems, Mem{Base: cur, Index: ld, Scale: uint8(i % 3)})
		}
	}
	return mems
}

// run generates the function around start (of accumulators), group (the i-th of four products is at its offsets) and finish.
func (b *block) run(start, group, finish func()) {
	load := func(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }
	b.blocks, b.groups = load("blocks"), load("groups")
	b.xFirst, b.ldx, b.yFirst, b.ldy = load("x"), load("ldx"), load("y"), load("ldy")
	SHLQ(Imm(2), b.ldx)
	SHLQ(Imm(2), b.ldy)
	b.panel, b.bias = load("w"), load("bias")
	Label("block")
	start()
	cur := GP64()
	b.w = GP64()
	MOVQ(b.xFirst, cur)
	MOVQ(b.panel, b.w)
	b.x = blockRows(cur, b.ldx, b.rows)
	count := GP64()
	MOVQ(b.groups, count)
	Label("group")
	group()
	ADDQ(U32(uint32(b.bytesOfW)), b.w)
	seen := map[Register]bool{}
	for _, m := range b.x {
		if !seen[m.Base] {
			seen[m.Base] = true
			ADDQ(U32(uint32(b.bytesOfRow)), m.Base.(GPVirtual))
		}
	}
	DECQ(count)
	JNZ(LabelRef("group"))
	finish()
	for _, m := range [][2]GPVirtual{{b.xFirst, b.ldx}, {b.yFirst, b.ldy}} {
		for _, by := range []uint8{1, 2, 4} {
			if b.rows&int(by) != 0 {
				LEAQ(Mem{Base: m[0], Index: m[1], Scale: by}, m[0])
			}
		}
	}
	DECQ(b.blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// accumulators makes rows of two vectors each.
func accumulators(rows int, vec func() VecVirtual) [][2]VecVirtual {
	acc := make([][2]VecVirtual, rows)
	for i := range acc {
		acc[i] = [2]VecVirtual{vec(), vec()}
	}
	return acc
}

// int8AVX2 generates int8{rows}x16AVX2. Weights are widened to 16 bits on their way into a register, activations come so:
// VPMADDWD then adds two exact products per number, where VPMADDUBSW would need one side to keep to 7 bits.
func int8AVX2(rows int) {
	TEXT(fmt.Sprintf("int8x%dAVX2", rows), NOSPLIT, "func(blocks, groups int, x *float32, ldx int, w *int8, scale, bias *float32, y *float32, ldy int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("int8x%dAVX2 computes y[i][j] = (Σ over p of x[i][p]·w[p][j])·(s[i]·scale[j]) + bias[j] for i < %d·blocks and j < 16, blocks ≥ 1, 4·groups products each, groups ≥ 1.", rows, rows),
		"A row of x is s and, from the next number on, integers of 16 bits; rows of x and y lie ldx and ldy numbers of 32 bits apart; w is one panel, pairs of p side by side.")
	b := &block{rows: rows, bytesOfW: 64, bytesOfRow: 8}
	b.scale = Load(Param("scale"), GP64()).(GPVirtual)
	var acc [][2]VecVirtual
	b.run(func() {
		acc = accumulators(rows, func() VecVirtual { return YMM() })
		for i := range acc {
			for v := range 2 {
				VPXOR(acc[i][v], acc[i][v], acc[i][v])
			}
		}
	}, func() {
		for pair := range 2 {
			w := fresh(2)
			for v := range w {
				VPMOVSXBW(Mem{Base: b.w, Disp: 32*pair + 16*v}, w[v])
			}
			for i := range acc {
				a, t := YMM(), YMM()
				VPBROADCASTD(b.x[i].Offset(4+4*pair), a)
				VPMADDWD(w[0], a, t)
				VPADDD(t, acc[i][0], acc[i][0])
				VPMADDWD(w[1], a, a)
				VPADDD(a, acc[i][1], acc[i][1])
			}
		}
	}, func() {
		x, y := blockRows(b.xFirst, b.ldx, rows), blockRows(b.yFirst, b.ldy, rows)
		for i := range acc {
			s := YMM()
			VBROADCASTSS(x[i], s)
			for v := range 2 {
				t := YMM()
				VCVTDQ2PS(acc[i][v], acc[i][v])
				VMULPS(Mem{Base: b.scale, Disp: 32 * v}, s, t)
				VMULPS(t, acc[i][v], acc[i][v])
				VADDPS(Mem{Base: b.bias, Disp: 32 * v}, acc[i][v], acc[i][v])
				VMOVUPS(acc[i][v], y[i].Offset(32*v))
			}
		}
	})
}

// int8VNNI generates int8x{rows}VNNI, for panels of 32. VPDPBUSD multiplies bytes without a sign with bytes that have one, so
// x comes with 128 added, and init takes that back.
func int8VNNI(rows int) {
	TEXT(fmt.Sprintf("int8x%dVNNI", rows), NOSPLIT, "func(blocks, groups int, x *float32, ldx int, w *int8, init *int32, scale, bias *float32, y *float32, ldy int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("int8x%dVNNI computes y[i][j] = (init[j] + Σ over p of x[i][p]·w[p][j])·(s[i]·scale[j]) + bias[j] for i < %d·blocks and j < 32, blocks ≥ 1, 4·groups products each, groups ≥ 1.", rows, rows),
		"A row of x is s and, from the next number on, bytes without sign; rows of x and y lie ldx and ldy numbers of 32 bits apart; w is one panel, four of p side by side.")
	b := &block{rows: rows, bytesOfW: 128, bytesOfRow: 4}
	init := Load(Param("init"), GP64()).(GPVirtual)
	b.scale = Load(Param("scale"), GP64()).(GPVirtual)
	var acc [][2]VecVirtual
	b.run(func() {
		acc = accumulators(rows, func() VecVirtual { return ZMM() })
		for i := range acc {
			for v := range 2 {
				VMOVDQU32(Mem{Base: init, Disp: 64 * v}, acc[i][v])
			}
		}
	}, func() {
		w := []VecVirtual{ZMM(), ZMM()}
		for v := range w {
			VMOVDQU32(Mem{Base: b.w, Disp: 64 * v}, w[v])
		}
		for i := range acc {
			a := ZMM()
			VPBROADCASTD(b.x[i].Offset(4), a)
			for v := range w {
				VPDPBUSD(w[v], a, acc[i][v])
			}
		}
	}, func() {
		x, y := blockRows(b.xFirst, b.ldx, rows), blockRows(b.yFirst, b.ldy, rows)
		for i := range acc {
			s := ZMM()
			VBROADCASTSS(x[i], s)
			for v := range 2 {
				t := ZMM()
				VCVTDQ2PS(acc[i][v], acc[i][v])
				VMULPS(Mem{Base: b.scale, Disp: 64 * v}, s, t)
				VMULPS(t, acc[i][v], acc[i][v])
				VADDPS(Mem{Base: b.bias, Disp: 64 * v}, acc[i][v], acc[i][v])
				VMOVUPS(acc[i][v], y[i].Offset(64*v))
			}
		}
	})
}

// largest finds the largest of n magnitudes at x, n a positive multiple of 16, as bits; both registers end up elsewhere.
func largest(label string, n, x Register) Register {
	mask := YMM()
	VPCMPEQD(mask, mask, mask)
	VPSRLD(Imm(1), mask, mask)
	most := fresh(2)
	for i := range most {
		VPXOR(most[i], most[i], most[i])
	}
	Label(label)
	for i := range most {
		t := YMM()
		VPAND(Mem{Base: x, Disp: 32 * i}, mask, t)
		VPMAXSD(t, most[i], most[i])
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(16), n)
	JNZ(LabelRef(label))
	VPMAXSD(most[0], most[1], most[0])
	half, low := XMM(), most[0].AsX()
	VEXTRACTI128(Imm(1), most[0], half)
	VPMAXSD(half, low, low)
	VPSHUFD(Imm(0x4e), low, half)
	VPMAXSD(half, low, low)
	VPSHUFD(Imm(0xb1), low, half)
	VPMAXSD(half, low, low)
	return low
}

// rounded writes n numbers at x, times f, to y, n a positive multiple of 16: as integers of 16 bits, or of 8 bits with 128
// added. The registers end up elsewhere.
func rounded(label string, n, x, y Register, f VecVirtual, bits int) {
	var high VecVirtual
	if bits == 8 {
		high = XMM()
		VPCMPEQD(high, high, high)
		VPSLLW(Imm(15), high, high)
		VPACKSSWB(high, high, high) // 0x80 in each
	}
	Label(label)
	v := fresh(2)
	for i := range v {
		VMULPS(Mem{Base: x, Disp: 32 * i}, f, v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	VPACKSSDW(v[1], v[0], v[0]) // within halves
	VPERMQ(Imm(0xd8), v[0], v[0])
	if bits == 8 {
		upper, bytes := XMM(), v[0].AsX()
		VEXTRACTI128(Imm(1), v[0], upper)
		VPACKSSWB(upper, bytes, bytes)
		VPXOR(high, bytes, bytes)
		VMOVDQU(bytes, Mem{Base: y})
	} else {
		VMOVDQU(v[0], Mem{Base: y})
	}
	ADDQ(Imm(64), x)
	ADDQ(U32(uint32(2*bits)), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef(label))
}

// largestAVX2 generates largestAVX2.
func largestAVX2() {
	TEXT("largestAVX2", NOSPLIT, "func(n int, x *float32) uint32")
	Pragma("noescape")
	Doc("largestAVX2 gives the largest of the bit patterns of |x[i]|, i < n, a positive multiple of 16: infinity and NaN are beyond all others.")
	low, r := largest("next", Load(Param("n"), GP64()), Load(Param("x"), GP64())), GP32()
	VMOVD(low, r)
	Store(r, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// formats are those of rounded activations: what names them, their type, and what is added to them.
var formats = map[int][3]string{16: {"Int16", "int16", ""}, 8: {"Uint8", "uint8", " + 128"}}

// roundAVX2 generates roundInt16AVX2 or roundUint8AVX2.
func roundAVX2(bits int) {
	name := fmt.Sprintf("round%sAVX2", formats[bits][0])
	TEXT(name, NOSPLIT, fmt.Sprintf("func(n int, y *%s, x *float32, f float32)", formats[bits][1]))
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes y[i] = x[i]·f%s, rounded to the nearest integer, ties to even, for i < n, a positive multiple of 16. Products lie within ±127.", name, formats[bits][2]))
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	f := YMM()
	m, err := Param("f").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, f)
	rounded("next", n, x, y, f, bits)
	VZEROUPPER()
	RET()
}

// quantizeAVX2 generates quantizeInt16AVX2 or quantizeUint8AVX2.
func quantizeAVX2(bits int) {
	name := fmt.Sprintf("quantize%sAVX2", formats[bits][0])
	TEXT(name, NOSPLIT, "func(n, k int, y, x *float32) int")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s rounds vectors of k numbers, a positive multiple of 16, as QuantizeInt8 does, to numbers of %d bits%s: at most n of them, up to the first one whose", name, bits, formats[bits][2]),
		"largest magnitude is not finite or below int8Least, and gives their number.")
	left, k := Load(Param("n"), GP64()), Load(Param("k"), GP64())
	y, x := Load(Param("y"), GP64()), Load(Param("x"), GP64())
	range127 := XMM()
	VMOVSS(splatMem(127), range127)
	Label("vector")
	count, cur := GP64(), GP64()
	MOVQ(k, count)
	MOVQ(x, cur)
	most := largest("magnitude", count, cur)
	pattern := GP32()
	VMOVD(most, pattern)
	CMPL(pattern, U32(0x7f800000))
	JAE(LabelRef("done"))
	CMPL(pattern, U32(math.Float32bits(0x1p-119)))
	JB(LabelRef("done"))
	scale, f, factor := XMM(), XMM(), YMM()
	VDIVSS(range127, most, scale)
	VMOVSS(scale, Mem{Base: y})
	VDIVSS(most, range127, f)
	VBROADCASTSS(f, factor)
	ADDQ(Imm(4), y)
	MOVQ(k, count)
	rounded("round", count, x, y, factor, bits)
	DECQ(left)
	JNZ(LabelRef("vector"))
	Label("done")
	n := Load(Param("n"), GP64())
	SUBQ(left, n)
	Store(n, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
