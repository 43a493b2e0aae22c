package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The transforms of a convolution with filters of 3 by 3 by Winograd's method, for the points 0, ±√½, ±√2 and ∞: six
// inputs become six factors, and six products four outputs. In one direction all numbers of a row have the same place
// in their tile; in the other, tiles are beside each other, and four consecutive numbers belong to each.

func winograd() {
	winogradInAVX2()
	winogradInTilesAVX2()
	winogradOutAVX2()
	winogradOutTilesAVX2()
	finiteAVX2()
}

// winogradFactors transforms six vectors of inputs. It calls put with each result, and overwrites d.
func winogradFactors(d []VecVirtual, put func(i int, v VecVirtual)) {
	far := splat(2.5)
	VADDPS(d[4], d[0], d[0])
	VFNMADD231PS(far, d[2], d[0]) // d0 - 2.5 d2 + d4
	put(0, d[0])
	VADDPS(d[1], d[5], d[5])
	VFNMADD231PS(far, d[3], d[5]) // d1 - 2.5 d3 + d5
	put(5, d[5])
	for i, point := range []float64{math.Sqrt2 / 2, math.Sqrt2} {
		other := splat(float32(1 / (point * point))) // the square of the other point
		even, odd, plus := YMM(), YMM(), YMM()
		VMOVAPS(d[4], even)
		VFNMADD231PS(other, d[2], even) // d4 - other d2
		VMOVAPS(d[3], odd)
		VFNMADD231PS(other, d[1], odd) // d3 - other d1
		VMOVAPS(even, plus)
		p := splat(float32(point))
		VFMADD231PS(p, odd, plus)
		put(1+2*i, plus)
		VFNMADD231PS(p, odd, even)
		put(2+2*i, even)
	}
}

// winogradSums transforms six vectors of products to four of outputs, and overwrites m.
func winogradSums(m []VecVirtual, put func(i int, v VecVirtual)) {
	const near, far = math.Sqrt2 / 2, math.Sqrt2
	s1, d1, s2, d2 := YMM(), YMM(), YMM(), YMM()
	VADDPS(m[2], m[1], s1)
	VSUBPS(m[2], m[1], d1)
	VADDPS(m[4], m[3], s2)
	VSUBPS(m[4], m[3], d2)
	VADDPS(s1, m[0], m[0])
	VADDPS(s2, m[0], m[0])
	put(0, m[0])
	VMULPS(splat(near), d1, m[1])
	VFMADD231PS(splat(far), d2, m[1])
	put(1, m[1])
	VMULPS(splat(near*near), s1, m[2])
	VFMADD231PS(splat(far*far), s2, m[2])
	put(2, m[2])
	VFMADD231PS(splat(near*near*near), d1, m[5])
	VFMADD231PS(splat(far*far*far), d2, m[5])
	put(3, m[5])
}

// winogradInAVX2 generates the transform of columns.
func winogradInAVX2() {
	TEXT("winogradInAVX2", NOSPLIT, "func(n int, dst *float32, ldd int, src *float32, lds int)")
	Pragma("noescape")
	describe("winogradInAVX2 transforms the columns of six rows of n numbers, n a positive multiple of 8. Rows of dst " +
		"and src lie ldd and lds numbers apart.")
	n := given("n")
	dst, ldd := strided("dst", "ldd")
	src, lds := strided("src", "lds")
	from, to := hang(src, lds, 6), hang(dst, ldd, 6)
	Label("next")
	d := make([]VecVirtual, 6)
	for i := range d {
		d[i] = YMM()
		VMOVUPS(from[i], d[i])
	}
	winogradFactors(d, func(i int, v VecVirtual) { VMOVUPS(v, to[i]) })
	for _, m := range []Mem{from[0], from[3], to[0], to[3]} {
		ADDQ(Imm(32), m.Base.(Register))
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// winogradInTilesAVX2 generates the transform of rows of tiles.
func winogradInTilesAVX2() {
	TEXT("winogradInTilesAVX2", NOSPLIT, "func(n, rows int, dst *float32, ldd int, src *float32, lds int)")
	Pragma("noescape")
	describe("winogradInTilesAVX2 transforms rows ≥ 1 rows of n tiles, n a positive multiple of 8: the six numbers from " +
		"src+r·lds+4·j on become those at dst+(6·r+s)·ldd+j, s < 6. It reads 4·n+2 numbers of a row.")
	rows, ldd := given("rows"), given("ldd")
	dst, src := given("dst"), given("src")
	SHLQ(Imm(2), ldd)
	order, ahead := YMM(), YMM()
	VMOVDQU(permutation("winogradOrder", 0, 4, 1, 5, 2, 6, 3, 7), order)
	VMOVDQU(permutation("winogradAhead", 4, 1, 5, 2, 6, 3, 7, 7), ahead)
	Label("row")
	n, cur, first := given("n"), GP64(), GP64()
	MOVQ(src, cur)
	MOVQ(dst, first)
	to := hang(first, ldd, 6)
	Label("next")
	in, d := fresh(4), make([]VecVirtual, 6)
	for i := range in {
		VMOVUPS(Mem{Base: cur, Disp: 32 * i}, in[i])
	}
	for i, pick := range []uint64{0x88, 0xdd} { // numbers 0 and 2, and 1 and 3, of each tile
		ab, cd := YMM(), YMM()
		VSHUFPS(Imm(pick), in[1], in[0], ab)
		VSHUFPS(Imm(pick), in[3], in[2], cd)
		d[i], d[i+2], d[i+4] = YMM(), YMM(), YMM()
		VSHUFPS(Imm(0x88), cd, ab, d[i]) // tiles 0 2 4 6 1 3 5 7
		VSHUFPS(Imm(0xdd), cd, ab, d[i+2])
		VPERMPS(d[i], ahead, d[i+4])
		VBROADCASTSS(Mem{Base: cur, Disp: 128 + 4*i}, ab)
		VBLENDPS(Imm(0x80), ab, d[i+4], d[i+4])
		VPERMPS(d[i], order, d[i])
		VPERMPS(d[i+2], order, d[i+2])
	}
	winogradFactors(d, func(i int, v VecVirtual) { VMOVUPS(v, to[i]) })
	ADDQ(U32(128), cur)
	for _, m := range []Mem{to[0], to[3]} {
		ADDQ(Imm(32), m.Base.(Register))
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	lds := given("lds")
	LEAQ(Mem{Base: src, Index: lds, Scale: 4}, src)
	skipRows(dst, ldd, 6)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// winogradOutAVX2 generates the transform of columns of products.
func winogradOutAVX2() {
	TEXT("winogradOutAVX2", NOSPLIT, "func(n int, dst *float32, ldd int, src *float32, lds int)")
	Pragma("noescape")
	describe("winogradOutAVX2 transforms the columns of six rows of n products, n a positive multiple of 8, to four " +
		"rows. Rows of dst and src lie ldd and lds numbers apart.")
	n := given("n")
	dst, ldd := strided("dst", "ldd")
	src, lds := strided("src", "lds")
	from, to := hang(src, lds, 6), hang(dst, ldd, 4)
	Label("next")
	m := make([]VecVirtual, 6)
	for i := range m {
		m[i] = YMM()
		VMOVUPS(from[i], m[i])
	}
	winogradSums(m, func(i int, v VecVirtual) { VMOVUPS(v, to[i]) })
	for _, m := range []Mem{from[0], from[3], to[0], to[3]} {
		ADDQ(Imm(32), m.Base.(Register))
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// winogradOutTilesAVX2 generates the transform of rows of tiles of products.
func winogradOutTilesAVX2() {
	TEXT("winogradOutTilesAVX2", NOSPLIT, "func(n, rows int, dst *float32, ldd int, src *float32, lds int, bias float32)")
	Pragma("noescape")
	describe("winogradOutTilesAVX2 transforms rows ≥ 1 rows of n tiles, n a positive multiple of 8: the six products at " +
		"src+(6·r+s)·lds+j become the four numbers from dst+r·ldd+4·j on, to which it adds bias.")
	rows, lds := given("rows"), given("lds")
	dst, src := given("dst"), given("src")
	SHLQ(Imm(2), lds)
	add := broadcast("bias")
	Label("row")
	n, cur, first := given("n"), GP64(), GP64()
	MOVQ(dst, cur)
	MOVQ(src, first)
	from := hang(first, lds, 6)
	Label("next")
	m, y := make([]VecVirtual, 6), make([]VecVirtual, 4)
	for i := range m {
		m[i] = YMM()
		VMOVUPS(from[i], m[i])
	}
	winogradSums(m, func(i int, v VecVirtual) {
		VADDPS(add, v, v)
		y[i] = v
	})
	out := fresh(4)
	for i, unpack := range []func(...Op){func(o ...Op) { VUNPCKLPS(o[0], o[1], o[2]) },
		func(o ...Op) { VUNPCKHPS(o[0], o[1], o[2]) }} {
		lo, hi := YMM(), YMM()
		unpack(y[1], y[0], lo)
		unpack(y[3], y[2], hi)
		VUNPCKLPD(hi, lo, out[2*i]) // tiles 2i and 2i+4
		VUNPCKHPD(hi, lo, out[2*i+1])
	}
	for i, half := range []uint64{0x20, 0x31} {
		for k := range 2 {
			v := YMM()
			VPERM2F128(Imm(half), out[2*k+1], out[2*k], v)
			VMOVUPS(v, Mem{Base: cur, Disp: 64*i + 32*k})
		}
	}
	ADDQ(U32(128), cur)
	for _, m := range []Mem{from[0], from[3]} {
		ADDQ(Imm(32), m.Base.(Register))
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	ldd := given("ldd")
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 4}, dst)
	skipRows(src, lds, 6)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// permutation returns a vector of lanes for VPERMPS.
func permutation(name string, lanes ...uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, k := range lanes {
		DATA(4*i, U32(k))
	}
	return m
}

// finiteAVX2 generates a search for infinities and NaNs.
func finiteAVX2() {
	TEXT("finiteAVX2", NOSPLIT, "func(n int, x *float32) bool")
	Pragma("noescape")
	describe("finiteAVX2 reports whether n numbers from x on are finite, n a positive multiple of 8.")
	n, x := given("n"), given("x")
	exponent, found, v := YMM(), YMM(), YMM()
	VPBROADCASTD(ConstData("exponent", U32(0x7f800000)), exponent)
	VPXOR(found, found, found)
	Label("next")
	VPAND(Mem{Base: x}, exponent, v)
	VPCMPEQD(exponent, v, v)
	VPOR(v, found, found)
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VPTEST(found, found)
	finite := GP8()
	SETEQ(finite)
	Store(finite, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
