package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// sisoAVX2 generates a diagonal system with one input and one output, in blocks of eight steps. Tables hold the
// contributions of states and inputs to outputs, and of inputs to states. States are in vectors of eight. They cross
// blocks in float64; a copy in float32 serves the outputs.
func sisoAVX2(add bool) {
	const steps = 8
	name := "siso"
	if add {
		name += "Add"
	}
	name += "AVX2"
	TEXT(name, NOSPLIT, "func(blocks, vectors int, y *float32, u *float32, stride int, direct, out, give *float32, "+
		"ar, ai, zr, zi *float64, z *float32)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s runs 8·vectors states, vectors ≥ 1, over blocks ≥ 1 blocks of 8 steps, inputs and "+
		"outputs stride numbers apart. direct has, for each input, what it gives to 8 outputs, and ones for those "+
		"that see it, which keep others from what is no number; out, for each vector of states, what real parts "+
		"give to 8 outputs and imaginary parts take from them, by turns; give, likewise, what 8 inputs give to "+
		"real and imaginary parts. a is the system's eighth power, z holds the states in float32, by vectors, real "+
		"parts and imaginary parts by turns.", name))
	y, u, stride := Load(Param("y"), GP64()), Load(Param("u"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)
	three, blocks := GP64(), Load(Param("blocks"), GP64())
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	// row is the number of a step; cur follows four steps behind base.
	row := func(base, cur Register, r int) Mem {
		m := Mem{Base: base}
		if r >= 4 {
			m.Base = cur
		}
		switch r % 4 {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(r%4)
		case 3:
			m.Index, m.Scale = three, 1
		}
		return m
	}
	behind := func(base Register) Register {
		cur := GP64()
		LEAQ(Mem{Base: base, Index: stride, Scale: 4}, cur)
		return cur
	}
	Label("block")
	later := behind(u)
	// Outputs: sums over states, one for each of eight steps.
	table, z, left := Load(Param("out"), GP64()), Load(Param("z"), GP64()), Load(Param("vectors"), GP64())
	sums := fresh(steps)
	for _, s := range sums {
		VXORPS(s, s, s)
	}
	Label("outputs")
	for part := range 2 {
		in := YMM()
		VMOVUPS(Mem{Base: z, Disp: 32 * part}, in)
		for t, s := range sums {
			VFMADD231PS(Mem{Base: table, Disp: 32 * (steps*part + t)}, in, s)
		}
	}
	ADDQ(U32(2*steps*32), table)
	ADDQ(Imm(64), z)
	DECQ(left)
	JNZ(LabelRef("outputs"))
	for i := 0; i < steps; i += 2 {
		VHADDPS(sums[i+1], sums[i], sums[i])
	}
	for i := 0; i < steps; i += 4 {
		VHADDPS(sums[i+2], sums[i], sums[i])
	}
	crossed := YMM()
	VPERM2F128(Imm(0x21), sums[4], sums[0], crossed)
	VBLENDPS(Imm(0xf0), sums[4], sums[0], sums[0])
	VADDPS(crossed, sums[0], sums[0])
	// Contributions of the block's own inputs.
	direct := Load(Param("direct"), GP64())
	inputs := fresh(steps)
	second := YMM()
	for j, in := range inputs {
		VBROADCASTSS(row(u, later, j), in)
		seen := YMM()
		VANDPS(Mem{Base: direct, Disp: 64*j + 32}, in, seen)
		coef := Mem{Base: direct, Disp: 64 * j}
		switch {
		case j == 1:
			VMULPS(coef, seen, second)
		case j%2 == 1:
			VFMADD231PS(coef, seen, second)
		default:
			VFMADD231PS(coef, seen, sums[0])
		}
	}
	VADDPS(second, sums[0], sums[0])
	to := behind(y)
	low, high := sums[0].AsX(), XMM()
	VEXTRACTF128(Imm(1), sums[0], high)
	for t := range steps {
		part := low
		if t >= 4 {
			part = high
		}
		place, lane := row(y, to, t), XMM()
		if t%4 == 0 {
			lane = part.(VecVirtual)
		} else {
			VPERMILPS(U8(t%4), part, lane)
		}
		if add {
			sum := XMM()
			VADDSS(place, lane, sum)
			lane = sum
		}
		VMOVSS(lane, place)
	}
	// States.
	give := Load(Param("give"), GP64())
	ar, ai := Load(Param("ar"), GP64()), Load(Param("ai"), GP64())
	zr, zi := Load(Param("zr"), GP64()), Load(Param("zi"), GP64())
	MOVQ(Load(Param("z"), GP64()), z)
	MOVQ(Load(Param("vectors"), GP64()), left)
	Label("states")
	var s [4]VecVirtual // over even and odd steps, real and imaginary parts
	for j, in := range inputs {
		for part := range 2 {
			coef, sum := Mem{Base: give, Disp: 32 * (2*j + part)}, &s[j%2*2+part]
			if *sum == nil {
				*sum = YMM()
				VMULPS(coef, in, *sum)
			} else {
				VFMADD231PS(coef, in, *sum)
			}
		}
	}
	VADDPS(s[0], s[2], s[0])
	VADDPS(s[1], s[3], s[1])
	for half := range 2 {
		read := func(p Register) VecVirtual {
			a := YMM()
			VMOVUPD(Mem{Base: p, Disp: 32 * half}, a)
			return a
		}
		nr, ni := YMM(), YMM()
		widen(s[0], half, nr)
		widen(s[1], half, ni)
		r, i, a := read(zr), read(zi), read(ar)
		VFMADD231PD(a, r, nr)
		VFMADD231PD(a, i, ni)
		a = read(ai)
		VFNMADD231PD(a, i, nr)
		VFMADD231PD(a, r, ni)
		VMOVUPD(nr, Mem{Base: zr, Disp: 32 * half})
		VMOVUPD(ni, Mem{Base: zi, Disp: 32 * half})
		for part, n := range []VecVirtual{nr, ni} {
			VCVTPD2PSY(n, n.AsX())
			VMOVUPS(n.AsX(), Mem{Base: z, Disp: 32*part + 16*half})
		}
	}
	for _, p := range []Register{ar, ai, zr, zi, z} {
		ADDQ(Imm(64), p)
	}
	ADDQ(U32(2*steps*32), give)
	DECQ(left)
	JNZ(LabelRef("states"))
	LEAQ(Mem{Base: later, Index: stride, Scale: 4}, u)
	LEAQ(Mem{Base: to, Index: stride, Scale: 4}, y)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// scaleAddAVX2 generates y += d∘x for rows.
func scaleAddAVX2() {
	TEXT("scaleAddAVX2", NOSPLIT, "func(n int, y, x, d *float32)")
	Pragma("noescape")
	describe("scaleAddAVX2 adds d[i]·x[i] to y[i] for n numbers; n is a positive multiple of 8.")
	n := Load(Param("n"), GP64())
	y, x, d := Load(Param("y"), GP64()), Load(Param("x"), GP64()), Load(Param("d"), GP64())
	Label("next")
	sum, in := YMM(), YMM()
	VMOVUPS(Mem{Base: y}, sum)
	VMOVUPS(Mem{Base: x}, in)
	VFMADD231PS(Mem{Base: d}, in, sum)
	VMOVUPS(sum, Mem{Base: y})
	for _, p := range []Register{y, x, d} {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}
