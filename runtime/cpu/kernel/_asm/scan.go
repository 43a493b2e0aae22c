package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Whether a scan drops the real parts of states, writes them or adds them.
const (
	drop = iota // the state after the last row is the only result
	set
	add
)

// scan generates a diagonal scan over groups vectors of states in float64, with inputs and outputs in float32: real ones,
// or with parts both real and imaginary parts. A forward scan writes a state after its input is added; a backward scan,
// whose strides are negative, before. From a state to the next there are two dependent multiply-adds, so four groups run
// at once to hide the latency. With AVX-512, the system stays in registers, and the last group may be a part of a vector.
func scan(name string, groups int, parts, backward bool, mode int) {
	lanes := target.size / 8
	name = fmt.Sprintf("%s%d%s", name, lanes*groups, target.name)
	params, states := "", fmt.Sprint(lanes*groups)
	if target.masks() {
		params, states = ", last int", "last"
		if groups > 1 {
			states = fmt.Sprintf("%d + last", lanes*(groups-1))
		}
		states += fmt.Sprintf(" (1 to %d)", lanes)
	}
	pointers := []string{"x", "v"}
	if parts {
		pointers = []string{"x", "xi", "v", "vi"}
	}
	TEXT(name, NOSPLIT, fmt.Sprintf("func(rows int, %s *float32, stride int, ar, ai, br, bi, zr, zi *float64%s)",
		strings.Join(pointers, ", "), params))
	Pragma("noescape")
	of := "v"
	if parts {
		of = "v + i·vi"
	}
	describe(fmt.Sprintf("%s advances %s states z = a z + b v over rows ≥ 1 rows of %s, stride numbers apart, as "+
		"its portable counterpart does.", name, states, of))
	rows := Load(Param("rows"), GP64())
	ptr := map[string]Register{}
	for _, p := range append(pointers, "ar", "ai", "br", "bi", "zr", "zi") {
		if mode != drop || p != "x" && p != "xi" {
			ptr[p] = Load(Param(p), GP64())
		}
	}
	stride := Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride.(GPVirtual))
	at := func(p string, g int) Mem { return Mem{Base: ptr[p], Disp: target.size * g} }
	var last Op
	if target.masks() {
		last = lowest(Load(Param("last"), GP64()).(GPVirtual))
	}
	masked := func(g int) bool { return last != nil && g == groups-1 }
	read := func(m Mem, g int) VecVirtual {
		a := target.vector()
		if masked(g) {
			VMOVUPD_Z(m, last, a)
		} else {
			VMOVUPD(m, a)
		}
		return a
	}
	write := func(a VecVirtual, m Mem, g int) {
		if masked(g) {
			VMOVUPD(a, last, m)
		} else {
			VMOVUPD(a, m)
		}
	}
	var r, i []VecVirtual
	system := map[string][]Op{}
	for g := range groups {
		r, i = append(r, read(at("zr", g), g)), append(i, read(at("zi", g), g))
		for _, p := range []string{"ar", "ai", "br", "bi"} {
			var m Op = at(p, g)
			if target.masks() {
				m = read(at(p, g), g)
			}
			system[p] = append(system[p], m)
		}
	}
	store := func(z VecVirtual, to string, g int) {
		place := Mem{Base: ptr[to], Disp: target.size / 2 * g}
		if !target.masks() {
			out := XMM()
			VCVTPD2PSY(z, out)
			if mode == add {
				VADDPS(place, out, out)
			}
			VMOVUPS(out, place)
			return
		}
		out := YMM()
		VCVTPD2PS(z, out)
		switch {
		case mode == add && masked(g):
			VADDPS_Z(place, out, last, out)
		case mode == add:
			VADDPS(place, out, out)
		}
		if masked(g) {
			VMOVUPS(out, last, place)
		} else {
			VMOVUPS(out, place)
		}
	}
	output := func(g int) {
		if mode == drop {
			return
		}
		store(r[g], "x", g)
		if parts {
			store(i[g], "xi", g)
		}
	}
	input := func(from string, g int) VecVirtual {
		u := target.vector()
		if in := (Mem{Base: ptr[from], Disp: target.size / 2 * g}); masked(g) {
			VCVTPS2PD_Z(in, last, u)
		} else {
			VCVTPS2PD(in, u)
		}
		return u
	}
	Label("row")
	for g := range groups {
		if backward {
			output(g)
		}
		nr, ni := target.vector(), target.vector()
		u := input("v", g)
		VMULPD(system["br"][g], u, nr)
		VMULPD(system["bi"][g], u, ni)
		if parts {
			u = input("vi", g)
			VFNMADD231PD(system["bi"][g], u, nr)
			VFMADD231PD(system["br"][g], u, ni)
		}
		ar, ai := system["ar"][g], system["ai"][g]
		if !target.masks() { // inputs are read twice
			ar, ai = read(at("ar", g), g), read(at("ai", g), g)
		}
		VFMADD231PD(ar, r[g], nr)
		VFMADD231PD(ai, r[g], ni)
		VFNMADD231PD(ai, i[g], nr)
		VFMADD231PD(ar, i[g], ni)
		VMOVAPD(nr, r[g])
		VMOVAPD(ni, i[g])
		if !backward {
			output(g)
		}
	}
	for _, p := range pointers {
		if ptr[p] != nil {
			ADDQ(stride, ptr[p])
		}
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	for g := range groups {
		write(r[g], at("zr", g), g)
		write(i[g], at("zi", g), g)
	}
	VZEROUPPER()
	RET()
}

// scans generates the group.
func scans(groups ...int) {
	for _, n := range groups {
		scan("scanForward", n, false, false, set)
		scan("scanBackwardDrop", n, false, true, drop)
		scan("scanBackwardSet", n, false, true, set)
		scan("scanBackwardAdd", n, false, true, add)
		scan("scanPartsDrop", n, true, true, drop) // forward too: the stride alone differs
		scan("scanPartsForward", n, true, false, set)
		scan("scanPartsBackwardSet", n, true, true, set)
		scan("scanPartsBackwardAdd", n, true, true, add)
	}
	scanBlock()
}
