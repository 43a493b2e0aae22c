package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gemmAVX2 generates gemm{rows}x16AVX2: rows rows of x times one panel of 16 rows of W. Twelve accumulators, two vectors of
// the panel and one broadcast number fill the sixteen registers when rows is 6.
func gemmAVX2(rows int) {
	TEXT(fmt.Sprintf("gemm%dx16AVX2", rows), NOSPLIT, "func(k int, x *float32, ldx int, w *float32, init *float32, y *float32, ldy int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("gemm%dx16AVX2 computes y[i][j] = init[j] + Σ over p of x[i][p]·w[p][j] for i < %d and j < 16, k ≥ 0 products each.", rows, rows),
		"Rows of x and y lie ldx and ldy numbers apart; w is one panel, 16 numbers for each p.")
	k := Load(Param("k"), GP64())
	base := func(name, stride string) []Mem {
		ptr := Load(Param(name), GP64())
		ld := Load(Param(stride), GP64())
		SHLQ(Imm(2), ld.(GPVirtual))
		// Rows 0 to 2 hang on one pointer, 3 to 5 on another: x86 scales an index by 1, 2, 4 or 8.
		var out []Mem
		cur := ptr.(GPVirtual)
		for i := range rows {
			if i == 3 {
				next := GP64()
				LEAQ(Mem{Base: ld.(GPVirtual), Index: ld.(GPVirtual), Scale: 2}, next)
				ADDQ(cur, next)
				cur = next
			}
			switch i % 3 {
			case 0:
				out = append(out, Mem{Base: cur})
			default:
				out = append(out, Mem{Base: cur, Index: ld.(GPVirtual), Scale: uint8(i % 3)})
			}
		}
		return out
	}
	acc := make([][2]VecVirtual, rows)
	init := Load(Param("init"), GP64())
	for i := range rows {
		acc[i] = [2]VecVirtual{YMM(), YMM()}
		VMOVUPS(Mem{Base: init}, acc[i][0])
		VMOVUPS(Mem{Base: init, Disp: 32}, acc[i][1])
	}
	x := base("x", "ldx")
	w := Load(Param("w"), GP64())
	step := func(p int) {
		b0, b1 := YMM(), YMM()
		VMOVUPS(Mem{Base: w, Disp: 64 * p}, b0)
		VMOVUPS(Mem{Base: w, Disp: 64*p + 32}, b1)
		for i := range rows {
			a := YMM()
			VBROADCASTSS(x[i].Offset(4*p), a)
			VFMADD231PS(a, b0, acc[i][0])
			VFMADD231PS(a, b1, acc[i][1])
		}
	}
	advance := func(by int) {
		ADDQ(U32(64*by), w)
		seen := map[Register]bool{}
		for i := range rows {
			if b := x[i].Base; !seen[b] {
				seen[b] = true
				ADDQ(U32(4*by), b.(GPVirtual))
			}
		}
	}
	quads := GP64()
	MOVQ(k, quads)
	SHRQ(Imm(2), quads)
	JZ(LabelRef("rest"))
	Label("quad")
	for p := range 4 {
		step(p)
	}
	advance(4)
	DECQ(quads)
	JNZ(LabelRef("quad"))
	Label("rest")
	ANDQ(Imm(3), k)
	JZ(LabelRef("done"))
	Label("one")
	step(0)
	advance(1)
	DECQ(k)
	JNZ(LabelRef("one"))
	Label("done")
	y := base("y", "ldy")
	for i := range rows {
		VMOVUPS(acc[i][0], y[i])
		VMOVUPS(acc[i][1], y[i].Offset(32))
	}
	VZEROUPPER()
	RET()
}
