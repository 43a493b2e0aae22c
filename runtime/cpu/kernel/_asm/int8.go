package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// int8AVX2 generates the products for AVX2. Weights are widened to 16 bits when they are loaded; activations have 16
// bits in memory. VPMADDWD adds two exact products per number, whereas VPMADDUBSW would limit one side to 7 bits.
func int8AVX2() {
	TEXT("int8AVX2", NOSPLIT, "func(rows, k int, x *float32, ldx int, w *int8, scale, bias *float32, y *float32, "+
		"ldy int)")
	Pragma("noescape")
	describe("int8AVX2 computes y[i][j] = (Σ over p of x[i][p]·w[p][j])·(s[i]·scale[j]) + bias[j] for i < rows and " +
		"j < 16, rows ≥ 1, where x[i][p] and w[p][j] are two integers " +
		"each, multiplied one by one. A row of x is s and then k words of two integers of 16 bits; rows of x and y " +
		"lie ldx and ldy words apart; w is one panel, 16 pairs of bytes for each p.")
	k := Load(Param("k"), GP64())
	x, ldx := strided("x", "ldx")
	y, ldy := strided("y", "ldy")
	panel, scale, bias := given("w"), given("scale"), given("bias")
	tiles(argument("rows"), upTo(6), func(rows int) {
		t := newTile(rows, 16)
		t.narrow = true
		t.each(func(_, _ int, acc VecVirtual) { VPXOR(acc, acc, acc) })
		t.products(fmt.Sprint(rows), k, x, ldx, panel, func(p int) { t.step(p, 4, addPairs) })
		t.rescale(x, ldx, func(v int) (Op, Op) { return Mem{Base: scale, Disp: 32 * v}, Mem{Base: bias, Disp: 32 * v} })
		t.store(y, ldy, nil)
		skipRows(x, ldx, rows)
		skipRows(y, ldy, rows)
	})
}

// int8Dot generates the products for VPDPBUSD, of AVX512_VNNI, and of AVX_VNNI for the registers of AVX2. It multiplies
// unsigned with signed bytes, so x has 128 added, which init subtracts again.
func int8Dot() {
	name, most, width, parameters, limit := "int8Dot"+target.name, 6, 16, "", "16"
	if target.masks() {
		most, width, parameters, limit = 10, 32, ", m", "m ≤ 32"
	}
	TEXT(name, NOSPLIT, "func(rows, k int, x *float32, ldx int, w *int8, init *int32, scale, bias *float32, y "+
		"*float32, ldy"+parameters+" int)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y[i][j] = (init[j] + Σ over p of x[i][p]·w[p][j])·(s[i]·scale[j]) + bias[j] "+
		"for i < rows and j < %s, rows ≥ 1, where x[i][p] and w[p][j] are four", name, limit) + " " +
		fmt.Sprintf("integers each, multiplied one by one. A row of x is s and then k words of four bytes without "+
			"sign; rows of x and y lie ldx and ldy words apart; w is one panel, %d times four bytes for "+
			"each p.", width))
	k := Load(Param("k"), GP64())
	x, ldx := strided("x", "ldx")
	y, ldy := strided("y", "ldy")
	panel := given("w")
	var masks []Op
	if target.masks() {
		masks = columns(given("m"), 2)
	}
	column := map[string][]Op{} // init, scale and bias, by vector: in registers if there are enough
	for _, name := range []string{"init", "scale", "bias"} {
		from := given(name)
		for v := range 2 {
			m := Mem{Base: from, Disp: target.size * v}
			if masks != nil {
				column[name] = append(column[name], fetch(m, masks[v]))
			} else {
				column[name] = append(column[name], m)
			}
		}
	}
	tiles(argument("rows"), upTo(most), func(rows int) {
		t := newTile(rows, width)
		t.each(func(_, v int, acc VecVirtual) { VMOVUPS(column["init"][v], acc) })
		t.products(fmt.Sprint(rows), k, x, ldx, panel, func(p int) {
			t.step(p, 4, func(a, w, acc VecVirtual) {
				if target.masks() {
					VPDPBUSD(w, a, acc)
				} else {
					vpdpbusd(w, a, acc)
				}
			})
		})
		t.rescale(x, ldx, func(v int) (scale, bias Op) { return column["scale"][v], column["bias"][v] })
		t.store(y, ldy, masks)
		skipRows(x, ldx, rows)
		skipRows(y, ldy, rows)
	})
}

// rescale turns the sums into numbers: it multiplies them by the scales of the row, its first word, and of the column,
// and adds bias.
func (t *tile) rescale(x, ldx GPVirtual, column func(v int) (scale, bias Op)) {
	var s VecVirtual
	from := hang(x, ldx, t.rows)
	t.each(func(i, v int, acc VecVirtual) {
		if v == 0 {
			s = t.vector()
			VBROADCASTSS(from[i], s)
		}
		scale, bias := column(v)
		both := t.vector()
		VCVTDQ2PS(acc, acc)
		VMULPS(scale, s, both)
		VMULPS(both, acc, acc)
		VADDPS(bias, acc, acc)
	})
}

// largest returns the bits of the largest of n magnitudes at x, n a positive multiple of 16. It changes both registers.
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

// rounded writes n numbers at x, times f, to y, n a positive multiple of 16: as integers of 16 bits, or of 8 bits with
// 128 added. It changes the registers.
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
	describe("largestAVX2 returns the largest of the bit patterns of |x[i]|, i < n, a positive multiple of 16. " +
		"Those of infinity and NaN are above all others.")
	low, r := largest("next", Load(Param("n"), GP64()), Load(Param("x"), GP64())), GP32()
	VMOVD(low, r)
	Store(r, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// formats are the formats of rounded activations: name, type, and the number that is added.
var formats = map[int][3]string{16: {"Int16", "int16", ""}, 8: {"Uint8", "uint8", " + 128"}}

// roundAVX2 generates roundInt16AVX2 or roundUint8AVX2.
func roundAVX2(bits int) {
	name := fmt.Sprintf("round%sAVX2", formats[bits][0])
	TEXT(name, NOSPLIT, fmt.Sprintf("func(n int, y *%s, x *float32, f float32)", formats[bits][1]))
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y[i] = x[i]·f%s, rounded to the nearest integer, ties to even, for i < n, a "+
		"positive multiple of 16. Products lie within ±127.", name, formats[bits][2]))
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	f := YMM()
	VBROADCASTSS(argument("f"), f)
	rounded("next", n, x, y, f, bits)
	VZEROUPPER()
	RET()
}

// quantizeAVX2 generates quantizeInt16AVX2 or quantizeUint8AVX2.
func quantizeAVX2(bits int) {
	name := fmt.Sprintf("quantize%sAVX2", formats[bits][0])
	TEXT(name, NOSPLIT, "func(n, k int, y, x *float32) int")
	Pragma("noescape")
	describe(fmt.Sprintf("%s rounds vectors of k numbers, a positive multiple of 16, as QuantizeInt8 does, to "+
		"numbers of %d bits%s: at most n of them, up to the first one whose", name, bits, formats[bits][2]) + " " +
		"largest magnitude is not finite or below int8Least. It returns their number.")
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
