package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// What a scan does with the states' real parts.
const (
	drop = iota // only the state after the last row is wanted
	set
	add
)

// scanAVX2 generates a diagonal scan over groups·4 states in float64, real inputs and outputs in float32. Forward writes
// a state after its input has joined; backward, whose strides are negative, before. The chain from a state to the next is two
// multiply-adds long, so four groups run side by side.
func scanAVX2(name string, groups int, backward bool, mode int) {
	name = fmt.Sprintf("%s%dAVX2", name, 4*groups)
	TEXT(name, NOSPLIT, "func(rows int, x *float32, v *float32, stride int, ar, ai, br, bi, zr, zi *float64)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s advances %d states z = a z + b v over rows ≥ 1 rows of v, stride numbers apart, as its portable counterpart does.", name, 4*groups))
	rows := Load(Param("rows"), GP64())
	var x Register
	if mode != drop {
		x = Load(Param("x"), GP64())
	}
	v := Load(Param("v"), GP64())
	stride := Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride.(GPVirtual))
	ptr := map[string]Register{}
	for _, p := range []string{"ar", "ai", "br", "bi", "zr", "zi"} {
		ptr[p] = Load(Param(p), GP64())
	}
	at := func(p string, g int) Mem { return Mem{Base: ptr[p], Disp: 32 * g} }
	var r, i []VecVirtual
	for g := range groups {
		a, b := YMM(), YMM()
		VMOVUPD(at("zr", g), a)
		VMOVUPD(at("zi", g), b)
		r, i = append(r, a), append(i, b)
	}
	write := func(g int) {
		if mode == drop {
			return
		}
		out := XMM()
		VCVTPD2PSY(r[g], out)
		if mode == add {
			VADDPS(Mem{Base: x, Disp: 16 * g}, out, out)
		}
		VMOVUPS(out, Mem{Base: x, Disp: 16 * g})
	}
	Label("row")
	for g := range groups {
		if backward {
			write(g)
		}
		u, nr, ni, ar, ai := YMM(), YMM(), YMM(), YMM(), YMM()
		VCVTPS2PD(Mem{Base: v, Disp: 16 * g}, u)
		VMOVUPD(at("ar", g), ar)
		VMOVUPD(at("ai", g), ai)
		VMULPD(at("br", g), u, nr)
		VMULPD(at("bi", g), u, ni)
		VFMADD231PD(ar, r[g], nr)
		VFMADD231PD(ai, r[g], ni)
		VFNMADD231PD(ai, i[g], nr)
		VFMADD231PD(ar, i[g], ni)
		VMOVAPD(nr, r[g])
		VMOVAPD(ni, i[g])
		if !backward {
			write(g)
		}
	}
	ADDQ(stride, v)
	if mode != drop {
		ADDQ(stride, x)
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	for g := range groups {
		VMOVUPD(r[g], at("zr", g))
		VMOVUPD(i[g], at("zi", g))
	}
	VZEROUPPER()
	RET()
}
