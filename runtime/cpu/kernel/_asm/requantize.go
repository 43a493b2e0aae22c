package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// requantizations generates the functions that turn sums into bytes.
func requantizations() {
	for _, f := range []scaleRows{
		{name: "scaleFloatRowsAVX512", of: "x *float32", sum: "(x[i][j] + bias[i])·scale[i] in float32", floats: true},
		{name: "scaleRowsAVX512", of: "x *int32", sum: "(x[i][j] + bias[i])·scale[i] in float64, rounded to float32"},
	} {
		f.generate()
	}

	const bytes = "(min(max(round(z), least), most) + zero) xor flip, rounding ties to even, for i < n, a positive multiple of " +
		"16. z is no NaN. Before flip changes them, numbers lie in 0 to 255."

	TEXT("requantizeAVX512", NOSPLIT,
		"func(n int, y *byte, x, add *int32, more int32, factor *float32, unit, least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe("requantizeAVX512 computes y[i] of z = (x[i] + add[i] + more)·factor[i]/unit, where the sum wraps around and each " +
		"operation rounds to float32: " + bytes)
	n, y, x := given("n"), given("y"), given("x")
	add, factor := given("add"), given("factor")
	more, unit := ZMM(), ZMM()
	VPBROADCASTD(Load(Param("more"), GP32()), more)
	VBROADCASTSS(Load(Param("unit"), XMM()), unit)
	over := newDivisor(unit)
	b := newByteRange()
	Label("next")
	v := ZMM()
	VPADDD(Mem{Base: x}, more, v)
	VPADDD(Mem{Base: add}, v, v)
	VCVTDQ2PS(v, v)
	VMULPS(Mem{Base: factor}, v, v)
	v = over.divide(v)
	b.store(v, y)
	for _, p := range []Register{x, add, factor} {
		ADDQ(Imm(64), p)
	}
	ADDQ(Imm(16), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
	over.rest()
}

// scaleRows generates a function that turns rows of sums into bytes.
type scaleRows struct {
	name, of, sum string
	floats        bool
}

func (s scaleRows) generate() {
	TEXT(s.name, NOSPLIT, "func(rows, n int, y *byte, ldy int, "+s.of+", ldx int, bias, scale *float64, step int, "+
		"least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe(s.name + " computes y[i][j] of z = " + s.sum + ": (min(max(round(z), least), most) + zero) xor flip, rounding ties " +
		"to even, for i < rows and j < n, both positive. z is no NaN. Before flip changes them, numbers lie in 0 to 255. Rows of x " +
		"and y lie ldx and ldy elements apart, biases and scales step bytes.")
	rows, n, y, ldy := given("rows"), given("n"), given("y"), given("ldy")
	x, ldx := strided("x", "ldx")
	bias, scale, step := given("bias"), given("scale"), given("step")
	r := newByteRange()
	Label("row")
	to, from, left := GP64(), GP64(), GP64()
	MOVQ(y, to)
	MOVQ(x, from)
	MOVQ(n, left)
	add, factor := ZMM(), ZMM()
	if s.floats {
		repeatNarrow(bias, add)
		repeatNarrow(scale, factor)
	} else {
		VBROADCASTSD(Mem{Base: bias}, add)
		VBROADCASTSD(Mem{Base: scale}, factor)
	}
	block := func(mask Op) VecVirtual {
		v := fetch(Mem{Base: from}, mask)
		if s.floats {
			VADDPS(add, v, v)
			VMULPS(factor, v, v)
			return v
		}
		upper, halves := YMM(), []VecVirtual{YMM(), YMM()}
		VEXTRACTI32X8(Imm(1), v, upper)
		for i, sums := range []Op{v.AsY(), upper} {
			z := ZMM()
			VCVTDQ2PD(sums, z)
			VADDPD(add, z, z)
			VMULPD(factor, z, z)
			VCVTPD2PS(z, halves[i])
		}
		VINSERTF32X8(Imm(1), halves[1], halves[0].AsZ(), v)
		return v
	}
	SUBQ(Imm(16), left)
	JL(LabelRef("rest"))
	Label("whole")
	r.store(block(nil), to)
	ADDQ(Imm(64), from)
	ADDQ(Imm(16), to)
	SUBQ(Imm(16), left)
	JGE(LabelRef("whole"))
	Label("rest")
	ADDQ(Imm(16), left)
	JZ(LabelRef("end"))
	mask := lowest(left)
	VMOVDQU8(r.bytes(block(mask)), mask, Mem{Base: to})
	Label("end")
	ADDQ(ldx, x)
	ADDQ(ldy, y)
	ADDQ(step, bias)
	ADDQ(step, scale)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// repeatNarrow repeats a number of 64 bits that float32 holds.
func repeatNarrow(at Register, v VecVirtual) {
	x := XMM()
	VXORPS(x, x, x)
	VCVTSD2SS(Mem{Base: at}, x, x)
	VBROADCASTSS(x, v)
}

// copyRows generates copyRowsAVX512 and copyEvenRowsAVX512.
func copyRows(name, doc string, even bool) {
	TEXT(name, NOSPLIT, "func(rows int, y *byte, ldy int, x *byte, at, ldx int, in, out uint64, fill byte)")
	Pragma("noescape")
	describe(name + doc + " Rows of x and y lie ldx and ldy bytes apart. Nothing else is read or written.")
	rows, y, ldy, x, at, ldx := given("rows"), given("y"), given("ldy"), given("x"), given("at"), given("ldx")
	ADDQ(at, x)
	in, out, fill := K(), K(), ZMM()
	KMOVQ(given("in"), in)
	KMOVQ(given("out"), out)
	VPBROADCASTB(Load(Param("fill"), GP32()), fill)
	Label("next")
	v := ZMM()
	VMOVDQA64(fill, v)
	VMOVDQU8(Mem{Base: x}, in, v)
	if even {
		half := YMM()
		VPMOVWB(v, half)
		VMOVDQU8(half, out, Mem{Base: y})
	} else {
		VMOVDQU8(v, out, Mem{Base: y})
	}
	ADDQ(ldx, x)
	ADDQ(ldy, y)
	DECQ(rows)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// byteTableAVX512 generates byteTableAVX512.
func byteTableAVX512() {
	TEXT("byteTableAVX512", NOSPLIT, "func(n int, y, x, table *byte)")
	Pragma("noescape")
	describe("byteTableAVX512 computes y[i] = table[x[i]] for i < n, a positive multiple of 64. It uses AVX512_VBMI.")
	n, y, x, table := given("n"), given("y"), given("x"), given("table")
	var t [4]VecVirtual
	for i := range t {
		t[i] = ZMM()
		VMOVDQU64(Mem{Base: table, Disp: 64 * i}, t[i])
	}
	Label("next")
	v, low, high, upper := ZMM(), ZMM(), ZMM(), K()
	VMOVDQU64(Mem{Base: x}, v)
	VPMOVB2M(v, upper) // from 128 on
	VMOVDQA64(v, low)
	VMOVDQA64(v, high)
	VPERMI2B(t[1], t[0], low)
	VPERMI2B(t[3], t[2], high)
	VMOVDQU8(high, upper, low)
	VMOVDQU64(low, Mem{Base: y})
	ADDQ(Imm(64), x)
	ADDQ(Imm(64), y)
	SUBQ(Imm(64), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// pairBytesAVX512 generates addBytesAVX512 and mulBytesAVX512.
func pairBytesAVX512(name, sign string, join func(...Op)) {
	TEXT(name, NOSPLIT, "func(n int, y, a, b *byte, scale *float32, zeros *int32, least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe(name + " computes y[i] of z = ((a[i] xor flip - zeros[0])·scale[0] " + sign + " (b[i] xor flip - zeros[1])·scale[1])/scale[2], " +
		"where each operation rounds to float32: (min(max(round(z), least), most) + zero) xor flip, rounding ties to even, for " +
		"i < n, a positive multiple of 16. z is no NaN. Before flip changes them, numbers lie in 0 to 255.")
	n, y, x := given("n"), given("y"), []Register{given("a"), given("b")}
	scales, zeros := given("scale"), given("zeros")
	var scale, from [2]VecVirtual
	for i := range scale {
		scale[i], from[i] = ZMM(), ZMM()
		VBROADCASTSS(Mem{Base: scales, Disp: 4 * i}, scale[i])
		VPBROADCASTD(Mem{Base: zeros, Disp: 4 * i}, from[i])
	}
	unit := ZMM()
	VBROADCASTSS(Mem{Base: scales, Disp: 8}, unit)
	r := newByteRange()
	Label("next")
	var v [2]VecVirtual
	for i := range v {
		v[i] = ZMM()
		narrow := XMM()
		VPXOR(Mem{Base: x[i]}, r.flip, narrow)
		VPMOVZXBD(narrow, v[i])
		VPSUBD(from[i], v[i], v[i])
		VCVTDQ2PS(v[i], v[i])
		VMULPS(scale[i], v[i], v[i])
	}
	join(v[1], v[0], v[0])
	VDIVPS(unit, v[0], v[0])
	r.store(v[0], y)
	for _, p := range append(x, y) {
		ADDQ(Imm(16), p)
	}
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// divisor divides numbers that become bytes, by a product with the reciprocal. Its integer is that of the quotient, unless this
// lies so near the middle between two that the rounding of the product matters, which is at most 3·2^-24 of it: then they are
// divided. Quotients above 2^10, where that is more than the distance from the middle that is looked for, lie outside of the range
// of bytes anyway.
type divisor struct{ unit, inverse, middle, magnitude, quotient, number VecVirtual }

// newDivisor returns the divisor for a unit within 2^-60 and 2^60.
func newDivisor(unit VecVirtual) *divisor {
	d := &divisor{unit: unit, inverse: ZMM(), middle: ZMM(), magnitude: ZMM()}
	one := XMM()
	for _, c := range []struct {
		bits uint32
		v    VecVirtual
	}{{math.Float32bits(0.4998), d.middle}, {1<<31 - 1, d.magnitude}} {
		r := GP32()
		MOVL(U32(c.bits), r)
		VPBROADCASTD(r, c.v)
	}
	r := GP32()
	MOVL(U32(math.Float32bits(1)), r)
	VMOVD(r, one)
	VDIVSS(unit.AsX(), one, one)
	VBROADCASTSS(one, d.inverse)
	return d
}

// divide returns numbers whose nearest integers are those of v over the unit.
func (d *divisor) divide(v VecVirtual) VecVirtual {
	d.number, d.quotient = v, ZMM()
	far, near := ZMM(), K()
	VMULPS(d.inverse, v, d.quotient)
	VRNDSCALEPS(Imm(0), d.quotient, far)
	VSUBPS(far, d.quotient, far)
	VPANDD(d.magnitude, far, far)
	VCMPPS(Imm(greater), d.middle, far, near)
	KORTESTW(near, near)
	JNZ(LabelRef("divide"))
	Label("divided")
	return d.quotient
}

// rest writes the division, behind the function.
func (d *divisor) rest() {
	Label("divide")
	VDIVPS(d.unit, d.number, d.quotient)
	JMP(LabelRef("divided"))
}

// quantizeBytesAVX512 generates quantizeBytesAVX512.
func quantizeBytesAVX512() {
	TEXT("quantizeBytesAVX512", NOSPLIT, "func(n int, y *byte, x *float32, scale, least, most float32, zero, flip int32)")
	Pragma("noescape")
	describe("quantizeBytesAVX512 computes y[i] = (min(max(round(x[i]/scale), least), most) + zero) xor flip, rounding ties to even, " +
		"for i < n, a positive multiple of 16; 0 where that is NaN. Before flip changes them, numbers lie in 0 to 255. scale lies within " +
		"2^-60 and 2^60.")
	n, y, x := given("n"), given("y"), given("x")
	unit := ZMM()
	VBROADCASTSS(Load(Param("scale"), XMM()), unit)
	over, r := newDivisor(unit), newByteRange()
	Label("next")
	v, nan := ZMM(), K()
	VMOVUPS(Mem{Base: x}, v)
	VCMPPS(Imm(7), v, v, nan) // not NaN
	bytes := r.bytes(over.divide(v))
	VMOVDQU8_Z(bytes, nan, bytes)
	VMOVDQU(bytes, Mem{Base: y})
	ADDQ(Imm(64), x)
	ADDQ(Imm(16), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
	over.rest()
}

// dequantizeBytesAVX512 generates dequantizeBytesAVX512.
func dequantizeBytesAVX512() {
	TEXT("dequantizeBytesAVX512", NOSPLIT, "func(n int, y *float32, x *byte, flip, zero int32, scale float32)")
	Pragma("noescape")
	describe("dequantizeBytesAVX512 computes y[i] = ((x[i] xor flip) - zero)·scale for i < n, a positive multiple of 16.")
	n, y, x := given("n"), given("y"), given("x")
	flip, zero, scale := XMM(), ZMM(), ZMM()
	everyByte("flip", flip)
	VPBROADCASTD(Load(Param("zero"), GP32()), zero)
	VBROADCASTSS(Load(Param("scale"), XMM()), scale)
	Label("next")
	b, v := XMM(), ZMM()
	VPXORD(Mem{Base: x}, flip, b)
	VPMOVZXBD(b, v)
	VPSUBD(zero, v, v)
	VCVTDQ2PS(v, v)
	VMULPS(scale, v, v)
	VMOVUPS(v, Mem{Base: y})
	ADDQ(Imm(16), x)
	ADDQ(Imm(64), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// byteRange turns numbers into bytes of a range.
type byteRange struct{ least, most, zero, flip VecVirtual }

func newByteRange() (b byteRange) {
	b = byteRange{ZMM(), ZMM(), ZMM(), XMM()}
	VBROADCASTSS(Load(Param("least"), XMM()), b.least)
	VBROADCASTSS(Load(Param("most"), XMM()), b.most)
	VPBROADCASTD(Load(Param("zero"), GP32()), b.zero)
	everyByte("flip", b.flip)
	return b
}

// store writes 16 numbers as bytes.
func (b byteRange) store(v VecVirtual, to Register) { VMOVDQU(b.bytes(v), Mem{Base: to}) }

// bytes turns 16 numbers into bytes.
func (b byteRange) bytes(v VecVirtual) VecVirtual {
	VMAXPS(b.least, v, v)
	VMINPS(b.most, v, v)
	VCVTPS2DQ(v, v)
	VPADDD(b.zero, v, v)
	w := XMM()
	VPMOVDB(v, w)
	VPXOR(b.flip, w, w)
	return w
}
