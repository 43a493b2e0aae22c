package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// splat64 returns a vector that repeats a float64 parameter.
func splat64(name string) VecVirtual {
	v := YMM()
	VBROADCASTSD(argument(name), v)
	return v
}

// sum64AVX2 generates a sum in float64 over f of n float32 numbers.
func sum64AVX2(name, doc, params string, f func(x, acc VecVirtual)) {
	TEXT(name, NOSPLIT, "func(n int, x *float32"+params+") float64")
	Pragma("noescape")
	describe(name + " " + doc + " n is a positive multiple of 8.")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	var mean VecVirtual
	if params != "" {
		mean = splat64("mean")
	}
	acc := fresh(2)
	for _, a := range acc {
		VXORPD(a, a, a)
	}
	Label("next")
	for i, a := range acc {
		v := YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
		if params != "" {
			VSUBPD(mean, v, v)
		}
		f(v, a)
	}
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VADDPD(acc[1], acc[0], acc[0])
	high, low := XMM(), acc[0].AsX()
	VEXTRACTF128(Imm(1), acc[0], high)
	VADDPD(high, low, low)
	VHADDPD(low, low, low)
	Store(low, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// normAVX2 generates (x - mean)·inv, optionally times a scale and plus a shift per number.
func normAVX2(name, doc string, scale, shift bool) {
	list := ""
	if scale {
		list += ", scale"
	}
	if shift {
		list += ", shift"
	}
	TEXT(name, NOSPLIT, "func(n int, y, x"+list+" *float32, mean, inv float64)")
	Pragma("noescape")
	describe(name + " " + doc + ", computed in float64 and rounded once. n is a positive multiple of 8; y may be x.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	ptrs := []Register{y, x}
	var scales, shifts Register
	if scale {
		scales = Load(Param("scale"), GP64())
		ptrs = append(ptrs, scales)
	}
	if shift {
		shifts = Load(Param("shift"), GP64())
		ptrs = append(ptrs, shifts)
	}
	mean, inv := splat64("mean"), splat64("inv")
	Label("next")
	for i := range 2 {
		v := YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
		VSUBPD(mean, v, v)
		VMULPD(inv, v, v)
		if scale {
			s := YMM()
			VCVTPS2PD(Mem{Base: scales, Disp: 16 * i}, s)
			if shift {
				t := YMM()
				VCVTPS2PD(Mem{Base: shifts, Disp: 16 * i}, t)
				VFMADD213PD(t, s, v)
			} else {
				VMULPD(s, v, v)
			}
		}
		out := XMM()
		VCVTPD2PSY(v, out)
		VMOVUPS(out, Mem{Base: y, Disp: 16 * i})
	}
	for _, p := range ptrs {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// quartet is four rows of float32 numbers.
type quartet struct{ base, ld, triple Register }

// fourRows returns the rows that a parameter points to, ld bytes apart.
func fourRows(name string, ld, triple Register) quartet {
	return quartet{Load(Param(name), GP64()), ld, triple}
}

// at returns four numbers of row r.
func (f quartet) at(r, disp int) Mem {
	m := Mem{Base: f.base, Disp: disp}
	switch r {
	case 1, 2:
		m.Index, m.Scale = f.ld, uint8(r)
	case 3:
		m.Index, m.Scale = f.triple, 1
	}
	return m
}

// stride loads the parameter ld in bytes, and three times as many.
func stride() (ld, triple Register) {
	ld, triple = Load(Param("ld"), GP64()), GP64()
	SHLQ(Imm(2), ld)
	LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, triple)
	return ld, triple
}

// fourSums64AVX2 generates the sums of sum64AVX2 for four rows at once, which hides the latency. The order within a row is
// the same.
func fourSums64AVX2(name, doc, params string, f func(x, acc VecVirtual)) {
	TEXT(name, NOSPLIT, "func(n int, x *float32, ld int, sums"+params+" *float64)")
	Pragma("noescape")
	describe(name + " " + doc + " of n numbers of each of four rows, ld numbers apart, in float64. n is a positive multiple " +
		"of 8.")
	n := Load(Param("n"), GP64())
	ld, triple := stride()
	x, sums := fourRows("x", ld, triple), Load(Param("sums"), GP64())
	var means vecs
	if params != "" {
		from := Load(Param("means"), GP64())
		for r := range 4 {
			v := YMM()
			VBROADCASTSD(Mem{Base: from, Disp: 8 * r}, v)
			means = append(means, v)
		}
	}
	acc := fresh(8)
	for _, a := range acc {
		VXORPD(a, a, a)
	}
	Label("next")
	for r := range 4 {
		for i := range 2 {
			v := YMM()
			VCVTPS2PD(x.at(r, 16*i), v)
			if means != nil {
				VSUBPD(means[r], v, v)
			}
			f(v, acc[2*r+i])
		}
	}
	ADDQ(Imm(32), x.base)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	for r := range 4 {
		sum := acc[2*r]
		VADDPD(acc[2*r+1], sum, sum)
		high, low := XMM(), sum.AsX()
		VEXTRACTF128(Imm(1), sum, high)
		VADDPD(high, low, low)
		VHADDPD(low, low, low)
		VMOVSD(low, Mem{Base: sums, Disp: 8 * r})
	}
	VZEROUPPER()
	RET()
}

// fourNormAVX2 generates the norm of normAVX2 for four rows at once, which share the scale and the shift.
func fourNormAVX2(name, doc string, shift bool) {
	list := ", scale"
	if shift {
		list += ", shift"
	}
	TEXT(name, NOSPLIT, "func(n int, y, x *float32, ld int"+list+" *float32, means, invs *float64)")
	Pragma("noescape")
	describe(name + " " + doc + " for n numbers of each of four rows, ld numbers apart, computed in float64 and rounded " +
		"once. n is a positive multiple of 8; y may be x.")
	n := Load(Param("n"), GP64())
	ld, triple := stride()
	y, x := fourRows("y", ld, triple), fourRows("x", ld, triple)
	scales := Load(Param("scale"), GP64())
	ptrs := []Register{y.base, x.base, scales}
	var shifts Register
	if shift {
		shifts = Load(Param("shift"), GP64())
		ptrs = append(ptrs, shifts)
	}
	var means, invs vecs
	for _, p := range []string{"means", "invs"} {
		from := Load(Param(p), GP64())
		for r := range 4 {
			v := YMM()
			VBROADCASTSD(Mem{Base: from, Disp: 8 * r}, v)
			if p == "means" {
				means = append(means, v)
			} else {
				invs = append(invs, v)
			}
		}
	}
	Label("next")
	for i := range 2 {
		s, t := YMM(), YMM()
		VCVTPS2PD(Mem{Base: scales, Disp: 16 * i}, s)
		if shift {
			VCVTPS2PD(Mem{Base: shifts, Disp: 16 * i}, t)
		}
		for r := range 4 {
			v, out := YMM(), XMM()
			VCVTPS2PD(x.at(r, 16*i), v)
			VSUBPD(means[r], v, v)
			VMULPD(invs[r], v, v)
			if shift {
				VFMADD213PD(t, s, v)
			} else {
				VMULPD(s, v, v)
			}
			VCVTPD2PSY(v, out)
			VMOVUPS(out, y.at(r, 16*i))
		}
	}
	for _, p := range ptrs {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

func norm() {
	sum64AVX2("sum64AVX2", "returns the sum of n numbers, in float64.", "",
		func(x, acc VecVirtual) { VADDPD(x, acc, acc) })
	sum64AVX2("squares64AVX2", "returns the sum of (x - mean)², in float64.", ", mean float64",
		func(x, acc VecVirtual) { VFMADD231PD(x, x, acc) })
	fourSums64AVX2("fourSums64AVX2", "computes the sums", "", func(x, acc VecVirtual) { VADDPD(x, acc, acc) })
	fourSums64AVX2("fourSquares64AVX2", "computes the sums of (x - mean)²", ", means",
		func(x, acc VecVirtual) { VFMADD231PD(x, x, acc) })
	normAVX2("normAVX2", "computes y = (x - mean)·inv", false, false)
	normAVX2("normScaleAVX2", "computes y = (x - mean)·inv·scale", true, false)
	normAVX2("normAffineAVX2", "computes y = (x - mean)·inv·scale + shift", true, true)
	fourNormAVX2("fourNormScaleAVX2", "computes y = (x - mean)·inv·scale", false)
	fourNormAVX2("fourNormAffineAVX2", "computes y = (x - mean)·inv·scale + shift", true)
}
