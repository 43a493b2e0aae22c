package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tail returns the mask of the parameter last, and how to read and write vectors of float32 by it; AVX2 has whole vectors.
func tail() (read func(m Mem) VecVirtual, write func(v VecVirtual, m Mem)) {
	var mask Op
	if target.masks() {
		mask = lowest(Load(Param("last"), GP64()).(GPVirtual))
	}
	return func(m Mem) VecVirtual { return fetch(m, mask) }, func(v VecVirtual, m Mem) { put(v, mask, m) }
}

// tailParam is the declaration of the parameter last, and what to say of it.
func tailParam(lanes int) (param, text string) {
	if target.masks() {
		return ", last int", fmt.Sprintf("last (1 to %d)", lanes)
	}
	return "", fmt.Sprint(lanes)
}

// halves converts a vector to two of float64. It overwrites v.
func halves(v VecVirtual) [2]VecVirtual {
	low, high := target.vector(), target.vector()
	widen(v, 0, low)
	widen(v, 1, high)
	return [2]VecVirtual{low, high}
}

// narrow converts two vectors of float64 to one.
func narrow(v [2]VecVirtual) VecVirtual {
	out := target.vector()
	if target.masks() {
		low, high := YMM(), YMM()
		VCVTPD2PS(v[0], low)
		VCVTPD2PS(v[1], high)
		VINSERTF64X4(Imm(1), high, low.AsZ(), out)
		return out
	}
	low, high := XMM(), XMM()
	VCVTPD2PSY(v[0], low)
	VCVTPD2PSY(v[1], high)
	VINSERTF128(Imm(1), high, low.AsY(), out)
	return out
}

// selective generates a selective scan of a vector of features. A state changes by (e^(Δa) - 1)·s, since e^(Δa) in float32
// loses the rates of slow states; it is float64. With one, all states of a feature have one factor.
func selective(one bool) {
	lanes := target.size / 4
	name := fmt.Sprintf("selective%d%s", lanes, target.name)
	rates := "n vectors"
	if one {
		name, rates = fmt.Sprintf("selectiveOne%d%s", lanes, target.name), "one vector"
	}
	param, features := tailParam(lanes)
	TEXT(name, NOSPLIT, "func(rows, n int, y, x *float32, stride int, delta *float32, ldd int, a *float32, b, c *float64, "+
		"ldb int, d *float32, z *float64"+param+")")
	Pragma("noescape")
	describe(fmt.Sprintf("%s advances the n ≥ 1 states of %s features over rows ≥ 1 rows, as its portable counterpart does. "+
		"Rows of x and y are stride numbers apart, of delta ldd, of b and c ldb. a has %s of %d numbers, z n vectors.", name,
		features, rates, lanes))
	read, write := tail()
	defer hold(-40, expMost+0.01, float32(3<<22+126), 1.44269504088896340736, -0.693147182464599609375, 1.904654323148236e-09,
		0.0013888872927054763, 0.008369104005396366, 0.041667137295007706, 0.16666506230831146, 0.4999999701976776, 1, 0.5)()
	rows, n := Load(Param("rows"), GP64()), Load(Param("n"), GP64())
	y, x, delta := Load(Param("y"), GP64()), Load(Param("x"), GP64()), Load(Param("delta"), GP64())
	b, c := Load(Param("b"), GP64()), Load(Param("c"), GP64())
	Label("row")
	a, z := Load(Param("a"), GP64()), Load(Param("z"), GP64())
	step := read(Mem{Base: delta})
	in := target.vector()
	VMULPS(step, read(Mem{Base: x}), in)
	v := halves(in)
	sums := [2]VecVirtual{zeroVector(), zeroVector()}
	change := func() [2]VecVirtual {
		rate := target.vector()
		VMULPS(Mem{Base: a}, step, rate)
		return halves(expMinus1(vecs{rate}.clamp(-40, expMost+0.01), true, false)[0])
	}
	var e [2]VecVirtual
	if one {
		e = change()
	}
	j := GP64()
	XORQ(j, j)
	Label("state")
	if !one {
		e = change()
		ADDQ(U32(uint32(target.size)), a)
	}
	give, take := target.vector(), target.vector()
	VBROADCASTSD(Mem{Base: b, Index: j, Scale: 8}, give)
	VBROADCASTSD(Mem{Base: c, Index: j, Scale: 8}, take)
	for half := range 2 {
		s, next := target.vector(), target.vector()
		place := Mem{Base: z, Disp: target.size * half}
		VMOVUPD(place, s)
		VMOVAPD(s, next)
		VFMADD231PD(e[half], s, next)
		VFMADD231PD(give, v[half], next)
		VMOVUPD(next, place)
		VFMADD231PD(take, next, sums[half])
	}
	ADDQ(U32(uint32(2*target.size)), z)
	INCQ(j)
	CMPQ(j, n)
	JNE(LabelRef("state"))
	out := narrow(sums)
	direct := GP64()
	MOVQ(Load(Param("d"), GP64()), direct)
	VFMADD231PS(read(Mem{Base: x}), read(Mem{Base: direct}), out)
	write(out, Mem{Base: y})
	advance := func(param string, shift uint64, ptrs ...Register) {
		by := Load(Param(param), GP64())
		SHLQ(Imm(shift), by)
		for _, p := range ptrs {
			ADDQ(by, p)
		}
	}
	advance("stride", 2, x, y)
	advance("ldd", 2, delta)
	advance("ldb", 3, b, c)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// gated generates a recurrence of the first order of a vector of features, whose factors are inputs.
func gated() {
	lanes := target.size / 4
	name := fmt.Sprintf("gated%d%s", lanes, target.name)
	param, features := tailParam(lanes)
	TEXT(name, NOSPLIT, "func(rows int, h, f, v *float32, stride int, z *float64"+param+")")
	Pragma("noescape")
	describe(fmt.Sprintf("%s advances the states of %s features over rows ≥ 1 rows, stride numbers apart, as its portable "+
		"counterpart does. z has a vector of %d.", name, features, lanes))
	read, write := tail()
	rows := Load(Param("rows"), GP64())
	h, f, v := Load(Param("h"), GP64()), Load(Param("f"), GP64()), Load(Param("v"), GP64())
	stride, z := Load(Param("stride"), GP64()), Load(Param("z"), GP64())
	SHLQ(Imm(2), stride)
	var s [2]VecVirtual
	for half := range s {
		s[half] = target.vector()
		VMOVUPD(Mem{Base: z, Disp: target.size * half}, s[half])
	}
	Label("row")
	factor, in := halves(read(Mem{Base: f})), halves(read(Mem{Base: v}))
	for half := range s {
		VFMADD213PD(in[half], factor[half], s[half])
	}
	write(narrow(s), Mem{Base: h})
	for _, p := range []Register{h, f, v} {
		ADDQ(stride, p)
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	for half := range s {
		VMOVUPD(s[half], Mem{Base: z, Disp: target.size * half})
	}
	VZEROUPPER()
	RET()
}

// decays generates the products of numbers with the decay between steps.
func decays() {
	lanes := target.size / 4
	name := "decays" + target.name
	TEXT(name, NOSPLIT, "func(n int, y, x, m *float32, a *float64, at float64)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y = x m e^(at - a) for n numbers, a positive multiple of %d.", name, lanes))
	n := Load(Param("n"), GP64()).(GPVirtual)
	var ptr []Register
	for _, p := range []string{"y", "x", "m", "a"} {
		ptr = append(ptr, Load(Param(p), GP64()))
	}
	now := target.vector()
	VBROADCASTSD(Load(Param("at"), XMM()), now)
	Label("next")
	var gap [2]VecVirtual
	for half := range gap {
		gap[half] = target.vector()
		VSUBPD(Mem{Base: ptr[3], Disp: target.size * half}, now, gap[half])
	}
	e := exp(vecs{narrow(gap)}, 1)[0]
	VMULPS(Mem{Base: ptr[1]}, e, e)
	VMULPS(Mem{Base: ptr[2]}, e, e)
	VMOVUPS(e, Mem{Base: ptr[0]})
	for _, p := range ptr[:3] {
		ADDQ(bytes(target.size), p)
	}
	ADDQ(bytes(2*target.size), ptr[3])
	SUBQ(Imm(uint64(lanes)), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// blockStates generates the passages between the states of a block in float64 and matrices in float32.
func blockStates() {
	lanes := target.size / 4
	name := fmt.Sprintf("narrowStates%d%s", lanes, target.name)
	TEXT(name, NOSPLIT, "func(rows int, y *float32, ldy int, z *float64)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s rounds rows ≥ 1 rows of %d numbers to rows of y, ldy numbers apart.", name, lanes))
	rows, y, z := Load(Param("rows"), GP64()), Load(Param("y"), GP64()), Load(Param("z"), GP64())
	ld := Load(Param("ldy"), GP64())
	SHLQ(Imm(2), ld)
	load := func() (v [2]VecVirtual) {
		for half := range v {
			v[half] = target.vector()
			VMOVUPD(Mem{Base: z, Disp: target.size * half}, v[half])
		}
		return v
	}
	Label("row")
	VMOVUPS(narrow(load()), Mem{Base: y})
	ADDQ(ld, y)
	ADDQ(U32(uint32(2*target.size)), z)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()

	name = fmt.Sprintf("advanceStates%d%s", lanes, target.name)
	TEXT(name, NOSPLIT, "func(rows int, z *float64, e float64, x *float32, ldx int)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes z = e z + x for rows ≥ 1 rows of %d numbers; those of x are ldx numbers apart.", name,
		lanes))
	rows, z = Load(Param("rows"), GP64()), Load(Param("z"), GP64())
	x := Load(Param("x"), GP64())
	ld = Load(Param("ldx"), GP64())
	SHLQ(Imm(2), ld)
	decay := target.vector()
	VBROADCASTSD(Load(Param("e"), XMM()), decay)
	Label("row")
	v := load()
	for half := range v {
		u := target.vector()
		VCVTPS2PD(Mem{Base: x, Disp: target.size / 2 * half}, u)
		VFMADD231PD(decay, v[half], u)
		VMOVUPD(u, Mem{Base: z, Disp: target.size * half})
	}
	ADDQ(ld, x)
	ADDQ(U32(uint32(2*target.size)), z)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// selectives generates the group.
func selectives() {
	selective(false)
	selective(true)
	gated()
	decays()
	blockStates()
}
