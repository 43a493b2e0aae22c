package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// headsAVX2 generates a block-diagonal product of small blocks, 2 by 2, 4 by 4 or 4 by 8: eight outputs hold whole blocks, and an
// input reaches all outputs of its block by a permutation inside a half of a vector. Two rows at a time share the weights.
func headsAVX2(m, k int, add bool) {
	name := fmt.Sprintf("heads%dx%d", m, k)
	if add {
		name += "Add"
	}
	name += "AVX2"
	TEXT(name, NOSPLIT, "func(rows int, y *float32, ldy int, x *float32, ldx int, w *float32, groups int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes rows ≥ 1 rows of a product with blocks of %d by %d, %d blocks to each of groups ≥ 1 groups; w holds, for each group, %d times eight numbers.", name, m, k, 8/m, k))
	rows, y, ldy := Load(Param("rows"), GP64()), Load(Param("y"), GP64()), Load(Param("ldy"), GP64())
	x, ldx := Load(Param("x"), GP64()), Load(Param("ldx"), GP64())
	w, groups := Load(Param("w"), GP64()), Load(Param("groups"), GP64())
	SHLQ(Imm(2), ldy)
	SHLQ(Imm(2), ldx)
	walk := func(label string, n int) {
		src, dst, wp, g := GP64(), GP64(), GP64(), GP64()
		MOVQ(x, src)
		MOVQ(y, dst)
		MOVQ(w, wp)
		MOVQ(groups, g)
		at := func(base, ld Register, row int) Mem {
			if row == 0 {
				return Mem{Base: base}
			}
			return Mem{Base: base, Index: ld, Scale: 1}
		}
		Label(label)
		acc := fresh(n)
		for quad := 0; quad < k; quad += 4 {
			in := fresh(n)
			for r := range n {
				if k > m { // the halves come from two blocks
					VMOVUPS(at(src, ldx, r).Offset(4*quad), in[r].AsX())
					VINSERTF128(Imm(1), at(src, ldx, r).Offset(4*(k+quad)), in[r], in[r])
				} else {
					VMOVUPS(at(src, ldx, r), in[r])
				}
				if add && quad == 0 {
					VMOVUPS(at(dst, ldy, r), acc[r])
				}
			}
			for p := quad; p < min(k, quad+4); p++ {
				pick := uint64(0x55 * (p - quad))
				if m == 2 {
					pick = []uint64{0xa0, 0xf5}[p]
				}
				weights := YMM()
				VMOVUPS(Mem{Base: wp, Disp: 32 * p}, weights)
				for r := range n {
					t := YMM()
					VPERMILPS(U8(pick), in[r], t)
					if p == 0 && !add {
						VMULPS(weights, t, acc[r])
					} else {
						VFMADD231PS(weights, t, acc[r])
					}
				}
			}
		}
		for r := range n {
			VMOVUPS(acc[r], at(dst, ldy, r))
		}
		ADDQ(Imm(uint64(32/m*k)), src)
		ADDQ(Imm(32), dst)
		ADDQ(U32(uint32(32*k)), wp)
		DECQ(g)
		JNZ(LabelRef(label))
	}
	SUBQ(Imm(2), rows)
	JL(LabelRef("last"))
	Label("two")
	walk("pair", 2)
	LEAQ(Mem{Base: x, Index: ldx, Scale: 2}, x)
	LEAQ(Mem{Base: y, Index: ldy, Scale: 2}, y)
	SUBQ(Imm(2), rows)
	JGE(LabelRef("two"))
	Label("last")
	ADDQ(Imm(2), rows)
	JZ(LabelRef("done"))
	walk("single", 1)
	Label("done")
	VZEROUPPER()
	RET()
}

// headsDotAVX2 generates a block-diagonal product of blocks with one output each, heads = 4 or 1 at a time. A block's inputs
// and its weights lie at the same places, so one walk serves both; what does not fill a vector is read through a mask.
func headsDotAVX2(heads int) {
	name := fmt.Sprintf("headsDot%dAVX2", heads)
	TEXT(name, NOSPLIT, "func(rows int, y *float32, ldy int, x *float32, ldx int, w *float32, k int, groups int, mask *int32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes rows ≥ 1 rows of a product with blocks of one output and k ≥ 1 inputs, %d to each of groups ≥ 1 groups; mask has ones for k modulo 8 numbers, then zeros.", name, heads))
	rows, y, ldy := Load(Param("rows"), GP64()), Load(Param("y"), GP64()), Load(Param("ldy"), GP64())
	x, ldx := Load(Param("x"), GP64()), Load(Param("ldx"), GP64())
	k := Load(Param("k"), GP64())
	mask, tail := YMM(), GP64()
	VMOVDQU(Mem{Base: Load(Param("mask"), GP64())}, mask)
	MOVQ(k, tail)
	ANDQ(Imm(7), tail)
	SHLQ(Imm(2), k)
	// From the end of a row to the start of the next.
	width := Load(Param("groups"), GP64())
	if heads > 1 {
		IMUL3Q(Imm(uint64(heads)), width, width)
	}
	SUBQ(width, ldy)
	SHLQ(Imm(2), ldy)
	SHLQ(Imm(2), ldx)
	IMULQ(k, width)
	SUBQ(width, ldx)
	others := GP64() // from the end of the first block of a group to the end of the last
	if heads > 1 {
		IMUL3Q(Imm(uint64(heads-1)), k, others)
	}
	Label("row")
	w, groups := Load(Param("w"), GP64()), Load(Param("groups"), GP64())
	Label("group")
	at := func(base Register, h int) Mem {
		switch h {
		case 1:
			return Mem{Base: base, Index: k, Scale: 1}
		case 2:
			return Mem{Base: base, Index: k, Scale: 2}
		case 3:
			return Mem{Base: base, Index: others, Scale: 1}
		}
		return Mem{Base: base}
	}
	acc := make([]VecVirtual, heads)
	for h := range acc {
		acc[h] = YMM()
		VXORPS(acc[h], acc[h], acc[h])
	}
	full := Load(Param("k"), GP64())
	SHRQ(Imm(3), full)
	JZ(LabelRef("tail"))
	Label("full")
	for h, a := range acc {
		t := YMM()
		VMOVUPS(at(x, h), t)
		VFMADD231PS(at(w, h), t, a)
	}
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), w)
	DECQ(full)
	JNZ(LabelRef("full"))
	Label("tail")
	TESTQ(tail, tail)
	JZ(LabelRef("sum"))
	for h, a := range acc {
		t, u := YMM(), YMM()
		VMASKMOVPS(at(x, h), mask, t)
		VMASKMOVPS(at(w, h), mask, u)
		VFMADD231PS(t, u, a)
	}
	LEAQ(Mem{Base: x, Index: tail, Scale: 4}, x)
	LEAQ(Mem{Base: w, Index: tail, Scale: 4}, w)
	Label("sum")
	high := XMM()
	if heads > 1 {
		VHADDPS(acc[1], acc[0], acc[0])
		VHADDPS(acc[3], acc[2], acc[2])
		VHADDPS(acc[2], acc[0], acc[0])
		VEXTRACTF128(Imm(1), acc[0], high)
		VADDPS(acc[0].AsX(), high, high)
		VMOVUPS(high, Mem{Base: y})
		ADDQ(others, x)
		ADDQ(others, w)
	} else {
		VEXTRACTF128(Imm(1), acc[0], high)
		VADDPS(acc[0].AsX(), high, high)
		VHADDPS(high, high, high)
		VHADDPS(high, high, high)
		VMOVSS(high, Mem{Base: y})
	}
	ADDQ(Imm(uint64(4*heads)), y)
	DECQ(groups)
	JNZ(LabelRef("group"))
	ADDQ(ldx, x)
	ADDQ(ldy, y)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// headsSpreadAVX2 generates a block-diagonal product of blocks with one input each. The last vector of a block ends where the
// block does, over the one before it, so that nothing else is written.
func headsSpreadAVX2() {
	TEXT("headsSpreadAVX2", NOSPLIT, "func(rows int, y *float32, ldy int, x *float32, ldx int, w *float32, m int, heads int)")
	Pragma("noescape")
	Doc("headsSpreadAVX2 computes rows ≥ 1 rows of a product with heads ≥ 1 blocks of m ≥ 8 outputs and one input.")
	rows, y, ldy := Load(Param("rows"), GP64()), Load(Param("y"), GP64()), Load(Param("ldy"), GP64())
	x, ldx, m := Load(Param("x"), GP64()), Load(Param("ldx"), GP64()), Load(Param("m"), GP64())
	width := Load(Param("heads"), GP64())
	SUBQ(width, ldx)
	SHLQ(Imm(2), ldx)
	IMULQ(m, width)
	SUBQ(width, ldy)
	SHLQ(Imm(2), ldy)
	tail := GP64() // bytes of a block behind its whole vectors
	MOVQ(m, tail)
	ANDQ(Imm(7), tail)
	SHLQ(Imm(2), tail)
	Label("row")
	w, heads := Load(Param("w"), GP64()), Load(Param("heads"), GP64())
	Label("head")
	in, t := YMM(), YMM()
	VBROADCASTSS(Mem{Base: x}, in)
	full := GP64()
	MOVQ(m, full)
	SHRQ(Imm(3), full)
	Label("full")
	VMULPS(Mem{Base: w}, in, t)
	VMOVUPS(t, Mem{Base: y})
	ADDQ(Imm(32), w)
	ADDQ(Imm(32), y)
	DECQ(full)
	JNZ(LabelRef("full"))
	TESTQ(tail, tail)
	JZ(LabelRef("next"))
	ADDQ(tail, w)
	ADDQ(tail, y)
	VMULPS(Mem{Base: w, Disp: -32}, in, t)
	VMOVUPS(t, Mem{Base: y, Disp: -32})
	Label("next")
	ADDQ(Imm(4), x)
	DECQ(heads)
	JNZ(LabelRef("head"))
	ADDQ(ldx, x)
	ADDQ(ldy, y)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
