package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// bf16AVX2 generates bf16x{rows}AVX2. Weights are widened to float32 on their way into a register: a shift, and a mask, of one
// vector give two. A product of two bfloat16 numbers is exact in float32, so each number is the same sum as in portable Go.
func bf16AVX2(rows int) {
	TEXT(fmt.Sprintf("bf16x%dAVX2", rows), NOSPLIT, "func(blocks, groups int, x *float32, ldx int, w *uint16, bias *float32, y *float32, ldy int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("bf16x%dAVX2 computes y[i][j] = bias[j] + Σ over p of x[i][p]·w[p][j] for i < %d·blocks and j < 16, blocks ≥ 1, 4·groups products each, groups ≥ 1.", rows, rows),
		"Rows of x and y lie ldx and ldy numbers apart; w is one panel, numbers j and j+8 side by side for each p.")
	b := &block{rows: rows, bytesOfW: 128, bytesOfRow: 16}
	var acc [][2]VecVirtual
	b.run(func() {
		acc = accumulators(rows, func() VecVirtual { return YMM() })
		for i := range acc {
			for v := range 2 {
				VMOVUPS(Mem{Base: b.bias, Disp: 32 * v}, acc[i][v])
			}
		}
	}, func() {
		for p := range 4 {
			low, high := YMM(), YMM()
			VMOVDQU(Mem{Base: b.w, Disp: 32 * p}, high)
			VPSLLD(Imm(16), high, low)
			VPSRLD(Imm(16), high, high)
			VPSLLD(Imm(16), high, high)
			for i := range acc {
				a := YMM()
				VBROADCASTSS(b.x[i].Offset(4*p), a)
				VFMADD231PS(a, low, acc[i][0])
				VFMADD231PS(a, high, acc[i][1])
			}
		}
	}, func() {
		for i, y := range blockRows(b.yFirst, b.ldy, rows) {
			for v := range 2 {
				VMOVUPS(acc[i][v], y.Offset(32*v))
			}
		}
	})
}

// bf16VectorAVX2 generates the product of one row of x with groups of four panels side by side: with one panel at a time the
// chains of multiply-adds would be too few to fill the units.
func bf16VectorAVX2() {
	TEXT("bf16VectorAVX2", NOSPLIT, "func(groups, k int, x *float32, w *uint16, bias, y *float32)")
	Pragma("noescape")
	Doc("bf16VectorAVX2 computes y[j] = bias[j] + Σ over p of x[p]·w[j/16][p][j%16] for j < 64·groups, groups ≥ 1, k ≥ 1 products each; panels are as for bf16x1AVX2.")
	groups, k := Load(Param("groups"), GP64()), Load(Param("k"), GP64())
	x, w := Load(Param("x"), GP64()), Load(Param("w"), GP64())
	bias, y := Load(Param("bias"), GP64()), Load(Param("y"), GP64())
	panel, three := GP64(), GP64()
	MOVQ(k, panel)
	SHLQ(Imm(5), panel)
	LEAQ(Mem{Base: panel, Index: panel, Scale: 2}, three)
	Label("group")
	acc := fresh(8)
	for i := range acc {
		VMOVUPS(Mem{Base: bias, Disp: 32 * i}, acc[i])
	}
	count, cur := GP64(), GP64()
	MOVQ(k, count)
	MOVQ(x, cur)
	Label("next")
	a := YMM()
	VBROADCASTSS(Mem{Base: cur}, a)
	for i, m := range []Mem{{Base: w}, {Base: w, Index: panel, Scale: 1}, {Base: w, Index: panel, Scale: 2}, {Base: w, Index: three, Scale: 1}} {
		low, high := YMM(), YMM()
		VMOVDQU(m, high)
		VPSLLD(Imm(16), high, low)
		VPSRLD(Imm(16), high, high)
		VPSLLD(Imm(16), high, high)
		VFMADD231PS(low, a, acc[2*i])
		VFMADD231PS(high, a, acc[2*i+1])
	}
	ADDQ(Imm(4), cur)
	ADDQ(Imm(32), w)
	DECQ(count)
	JNZ(LabelRef("next"))
	ADDQ(three, w) // one panel has been walked through
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: y, Disp: 32 * i})
	}
	ADDQ(U32(256), bias)
	ADDQ(U32(256), y)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// roundBF16AVX2 generates roundBF16AVX2.
func roundBF16AVX2() {
	TEXT("roundBF16AVX2", NOSPLIT, "func(n int, y, x *float32)")
	Pragma("noescape")
	Doc("roundBF16AVX2 rounds x[i] to the nearest bfloat16, ties to even, for i < n, a positive multiple of 8; NaN stays NaN.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	one, bias, mask, quiet := YMM(), YMM(), YMM(), YMM()
	for _, c := range []struct {
		to   VecVirtual
		bits uint32
	}{{one, 1}, {bias, 0x7fff}, {mask, 0xffff0000}, {quiet, 0x7fc00000}} {
		VPBROADCASTD(ConstData(fmt.Sprintf("i%08x", c.bits), U32(c.bits)), c.to)
	}
	Label("next")
	v, odd, nan := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: x}, v)
	VCMPPS(Imm(3), v, v, nan) // unordered
	VPSRLD(Imm(16), v, odd)
	VPAND(one, odd, odd)
	VPADDD(bias, v, v)
	VPADDD(odd, v, v)
	VPAND(mask, v, v)
	VBLENDVPS(nan, quiet, v, v)
	VMOVUPS(v, Mem{Base: y})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}
