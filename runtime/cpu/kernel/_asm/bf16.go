package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// bf16Products generates the products of bfloat16 numbers, for AVX512_BF16. Tiles have 12 by 32 numbers, as those of
// float32, with words of two numbers.
func bf16Products() {
	const most, width = 12, 32
	TEXT("bf16AVX512", NOSPLIT, "func(rows, k int, x *float32, ldx int, w *uint32, init *float32, y *float32, "+
		"ldy, m int)")
	Pragma("noescape")
	describe("bf16AVX512 computes y[i][j] = init[j] + Σ over p of x[i][p]·w[p][j] for i < rows and j < m ≤ 32, " +
		"rows ≥ 1, where x[i][p] and w[p][j] are two bfloat16 numbers " +
		"each, multiplied one by one. Rows of x and y lie ldx and ldy words apart; w is one panel, 32 words for " +
		"each of k ≥ 0 p.")
	k := Load(Param("k"), GP64())
	x, ldx := strided("x", "ldx")
	y, ldy := strided("y", "ldy")
	panel, init := given("w"), given("init")
	masks := columns(given("m"), 2)
	kept := fresh(2) // init
	for v := range kept {
		VMOVUPS_Z(Mem{Base: init, Disp: 64 * v}, masks[v], kept[v])
	}
	tiles(argument("rows"), upTo(most), func(rows int) {
		t := newTile(rows, width)
		t.each(func(_, v int, acc VecVirtual) { VMOVAPS(kept[v], acc) })
		t.products(fmt.Sprint(rows), k, x, ldx, panel, func(p int) {
			t.step(p, 0, func(a, w, acc VecVirtual) { vdpbf16ps(a, w, acc) })
		})
		t.store(y, ldy, masks)
		skipRows(x, ldx, rows)
		skipRows(y, ldy, rows)
	})
	for _, panels := range []int{4, 2} {
		gemv("bf16Vector", "uint32", panels, func(w Mem, a, acc VecVirtual) {
			v := ZMM()
			VMOVUPS(w, v)
			vdpbf16ps(a, v, acc)
		})
	}
}

// roundBF16AVX2 generates roundBF16AVX2.
func roundBF16AVX2() {
	TEXT("roundBF16AVX2", NOSPLIT, "func(n int, y, x *float32)")
	Pragma("noescape")
	describe("roundBF16AVX2 rounds x[i] to the nearest bfloat16, ties to even, for i < n, a positive multiple of " +
		"8; NaN stays NaN.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	one, bias, mask, quiet := bits(1), bits(0x7fff), bits(0xffff0000), bits(0x7fc00000)
	Label("next")
	v, odd, nan := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: x}, v)
	VCMPPS(Imm(unordered), v, v, nan)
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

// roundBF16AVX512 generates roundBF16AVX512. VCVTNEPS2BF16 is not used, since it rounds denormals to zero.
func roundBF16AVX512() {
	TEXT("roundBF16AVX512", NOSPLIT, "func(n int, y *uint16, x *float32)")
	Pragma("noescape")
	describe("roundBF16AVX512 rounds x[i] to the nearest bfloat16, ties to even, for i < n, n > 0; NaN stays NaN.")
	n, y, x := Load(Param("n"), GP64()).(GPVirtual), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	one, bias, quiet := bits(1), bits(0x7fff), bits(0x7fc0)
	sweep(n, true, []Register{x}, func(vectors int, mask Op) {
		for i := range vectors {
			v, odd := fetch(Mem{Base: x, Disp: 64 * i}, mask), ZMM()
			nan := compare(unordered, v, v)
			VPSRLD(Imm(16), v, odd)
			VPANDD(one, odd, odd)
			VPADDD(bias, v, v)
			VPADDD(odd, v, v)
			VPSRLD(Imm(16), v, v)
			VMOVDQA32(quiet, nan, v)
			if mask == nil {
				VPMOVDW(v, Mem{Base: y, Disp: 32 * i})
			} else {
				VPMOVDW(v, mask, Mem{Base: y})
			}
		}
		ADDQ(Imm(uint64(32*vectors)), y)
	})
	VZEROUPPER()
	RET()
}

// bits returns a vector that repeats a pattern of 32 bits.
func bits(pattern uint32) VecVirtual {
	v := target.vector()
	VPBROADCASTD(ConstData(fmt.Sprintf("i%08x", pattern), U32(pattern)), v)
	return v
}
