package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scanBlock generates a diagonal scan without outputs, in blocks of eight steps. The contribution of a block's inputs
// to the state behind it is a sum of products in float32; the state crosses the block in float64. Two vectors of states
// run together, to use whole cache lines. Even and odd steps have separate sums, to hide the latency of multiply-adds.
func scanBlock() {
	const steps, vectors = 8, 2
	states := vectors * target.size / 4
	name := fmt.Sprintf("scanBlock%d%s", states, target.name)
	TEXT(name, NOSPLIT, "func(blocks int, v *float32, stride int, table *float32, ar, ai, zr, zi *float64)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s advances %d states over blocks ≥ 1 blocks of %d rows of v, stride numbers apart. "+
		"table has, for each vector of states and each row, what an input gives to the state behind the block, "+
		"real and imaginary parts; a is the system's power that crosses a block.",
		name, states, steps))
	blocks := Load(Param("blocks"), GP64())
	v, table := Load(Param("v"), GP64()), Load(Param("table"), GP64())
	stride, three, middle := Load(Param("stride"), GP64()), GP64(), GP64()
	SHLQ(Imm(2), stride)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	LEAQ(Mem{Base: v, Index: stride, Scale: 4}, middle)
	ptr := map[string]Register{}
	for _, p := range []string{"ar", "ai", "zr", "zi"} {
		ptr[p] = Load(Param(p), GP64())
	}
	row := func(r, g int) Mem {
		m := Mem{Base: v, Disp: target.size * g}
		if r >= 4 {
			m.Base = middle
		}
		switch r % 4 {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(r%4)
		case 3:
			m.Index, m.Scale = three, 1
		}
		return m
	}
	Label("block")
	var sums [vectors][4]VecVirtual // over even and odd steps, real and imaginary parts
	for r := range steps {
		for g := range sums {
			in := target.vector()
			VMOVUPS(row(r, g), in)
			for part := range 2 {
				coef, sum := Mem{Base: table, Disp: target.size * (2*steps*g + 2*r + part)}, &sums[g][r%2*2+part]
				if *sum == nil {
					*sum = target.vector()
					VMULPS(coef, in, *sum)
				} else {
					VFMADD231PS(coef, in, *sum)
				}
			}
		}
	}
	for g, s := range sums {
		VADDPS(s[0], s[2], s[0])
		VADDPS(s[1], s[3], s[1])
		for half := range 2 {
			at := func(p string) Mem { return Mem{Base: ptr[p], Disp: target.size * (2*g + half)} }
			read := func(p string) VecVirtual {
				a := target.vector()
				VMOVUPD(at(p), a)
				return a
			}
			nr, ni := target.vector(), target.vector()
			widen(s[0], half, nr)
			widen(s[1], half, ni)
			ar, ai, zr, zi := read("ar"), read("ai"), read("zr"), read("zi")
			VFMADD231PD(ar, zr, nr)
			VFMADD231PD(ar, zi, ni)
			VFNMADD231PD(ai, zi, nr)
			VFMADD231PD(ai, zr, ni)
			VMOVUPD(nr, at("zr"))
			VMOVUPD(ni, at("zi"))
		}
	}
	LEAQ(Mem{Base: middle, Index: stride, Scale: 4}, v)
	LEAQ(Mem{Base: v, Index: stride, Scale: 4}, middle)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// widen converts half of a vector of float32 to float64; the upper half overwrites the lower one.
func widen(v VecVirtual, half int, out Op) {
	low := v.AsX()
	if target.masks() {
		low = v.AsY()
	}
	switch {
	case half == 1 && target.masks():
		VEXTRACTF64X4(Imm(1), v, low)
	case half == 1:
		VEXTRACTF128(Imm(1), v, low)
	}
	VCVTPS2PD(low, out)
}
