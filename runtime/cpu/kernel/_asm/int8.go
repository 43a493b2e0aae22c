package main

import (
	"fmt"

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

// largestAVX2 generates largestAVX2.
func largestAVX2() {
	TEXT("largestAVX2", NOSPLIT, "func(n int, x *float32) uint32")
	Pragma("noescape")
	Doc("largestAVX2 gives the largest of the bit patterns of |x[i]|, i < n, a positive multiple of 16: infinity and NaN are beyond all others.")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	mask := YMM()
	VPCMPEQD(mask, mask, mask)
	VPSRLD(Imm(1), mask, mask)
	most := fresh(2)
	for i := range most {
		VPXOR(most[i], most[i], most[i])
	}
	Label("next")
	for i := range most {
		t := YMM()
		VPAND(Mem{Base: x, Disp: 32 * i}, mask, t)
		VPMAXSD(t, most[i], most[i])
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VPMAXSD(most[0], most[1], most[0])
	half := XMM()
	VEXTRACTI128(Imm(1), most[0], half)
	low := most[0].AsX()
	VPMAXSD(half, low, low)
	VPSHUFD(Imm(0x4e), low, half)
	VPMAXSD(half, low, low)
	VPSHUFD(Imm(0xb1), low, half)
	VPMAXSD(half, low, low)
	r := GP32()
	VMOVD(low, r)
	Store(r, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// roundAVX2 generates roundInt16AVX2.
func roundAVX2() {
	TEXT("roundInt16AVX2", NOSPLIT, "func(n int, y *int16, x *float32, f float32)")
	Pragma("noescape")
	Doc("roundInt16AVX2 computes y[i] = x[i]·f, rounded to the nearest integer, ties to even, for i < n, a positive multiple of 16. Products lie within ±127.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	f := YMM()
	m, err := Param("f").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, f)
	Label("next")
	v := fresh(2)
	for i := range v {
		VMULPS(Mem{Base: x, Disp: 32 * i}, f, v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	VPACKSSDW(v[1], v[0], v[0]) // within halves
	VPERMQ(Imm(0xd8), v[0], v[0])
	VMOVDQU(v[0], Mem{Base: y})
	ADDQ(Imm(64), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}
