package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// headsAVX2 generates a block-diagonal product of small blocks. Eight outputs belong to whole blocks of 2 by 2, 4 by 4
// or 4 by 8, or to one block of up to eight outputs (m = 8). headTerms distributes the inputs to the outputs of their
// block; the weights are packed in the same order. Inputs come partly by shuffles, which compete with multiply-adds,
// and partly by loads, of which there are two per cycle. Four rows at a time share the weights.
func headsAVX2(m, k int, add bool) {
	name, params := fmt.Sprintf("heads%dx%d", m, k), ""
	doc := fmt.Sprintf("computes rows ≥ 1 rows of a product with blocks of %d by %d, %d blocks to each of groups ≥ "+
		"1 groups; w holds, for each group, %d times eight numbers.", m, k, 8/m, k)
	if m == 8 {
		params = ", m int, turn, keep *int32"
		doc = fmt.Sprintf("computes rows ≥ 1 rows of a product with groups ≥ 1 blocks of m outputs, 1 to 8, and %d "+
			"inputs, 8 outputs or more in all; w holds, for each block, %d times eight numbers, zeros beyond m. "+
			"turn moves the first m of eight numbers to the end, keep has ones for the places before.", k, k)
	}
	if add {
		name += "Add"
	}
	name += "AVX2"
	TEXT(name, NOSPLIT, "func(rows int, y *float32, ldy int, x *float32, ldx int, w *float32, groups int"+params+")")
	Pragma("noescape")
	describe(name + " " + doc)
	rows, y, ldy := Load(Param("rows"), GP64()), Load(Param("y"), GP64()), Load(Param("ldy"), GP64())
	x, ldx := Load(Param("x"), GP64()), Load(Param("ldx"), GP64())
	SHLQ(Imm(2), ldy)
	SHLQ(Imm(2), ldx)
	ldx3, ldy3 := GP64(), GP64()
	LEAQ(Mem{Base: ldx, Index: ldx, Scale: 2}, ldx3)
	LEAQ(Mem{Base: ldy, Index: ldy, Scale: 2}, ldy3)
	var step Register // from block to block of y; nil for 8 numbers
	if m == 8 {
		step = Load(Param("m"), GP64())
		SHLQ(Imm(2), step)
	}
	at := func(base, ld, ld3 Register, row int) Mem {
		switch row {
		case 0:
			return Mem{Base: base}
		case 3:
			return Mem{Base: base, Index: ld3, Scale: 1}
		}
		return Mem{Base: base, Index: ld, Scale: uint8(row)}
	}
	walk := func(label string, n int) {
		src, dst, wp, g := GP64(), GP64(), GP64(), GP64()
		MOVQ(x, src)
		MOVQ(y, dst)
		MOVQ(Load(Param("w"), GP64()), wp)
		MOVQ(Load(Param("groups"), GP64()), g)
		var acc []VecVirtual
		product := func() {
			from := func(r int) Mem { return at(src, ldx, ldx3, r) }
			acc = headTerms(m, k, n, from, Mem{Base: wp})
			if m == 4 && k == 8 { // the halves are sums over halves of one block's inputs
				next := headTerms(m, k, n, func(r int) Mem { return from(r).Offset(32) }, Mem{Base: wp, Disp: 128})
				for r := range n {
					crossed := YMM()
					VPERM2F128(Imm(0x21), next[r], acc[r], crossed)
					VBLENDPS(Imm(0xf0), next[r], acc[r], acc[r])
					VADDPS(crossed, acc[r], acc[r])
				}
			}
			if add {
				for r := range n {
					VADDPS(at(dst, ldy, ldy3, r), acc[r], acc[r])
				}
			}
		}
		if m == 8 {
			DECQ(g)
			JZ(LabelRef(label + "End"))
		}
		Label(label)
		product()
		for r := range n {
			VMOVUPS(acc[r], at(dst, ldy, ldy3, r))
		}
		if m == 8 {
			ADDQ(Imm(uint64(4*k)), src)
			ADDQ(step, dst)
		} else {
			ADDQ(Imm(uint64(32/m*k)), src)
			ADDQ(Imm(32), dst)
		}
		ADDQ(bytes(32*k), wp)
		DECQ(g)
		JNZ(LabelRef(label))
		if m < 8 {
			return
		}
		// The vectors of the last block end with it, over numbers that are written already.
		Label(label + "End")
		product()
		LEAQ(Mem{Base: dst, Index: step, Scale: 1, Disp: -32}, dst)
		turn, keep := YMM(), YMM()
		VMOVDQU(Mem{Base: Load(Param("turn"), GP64())}, turn)
		VMOVDQU(Mem{Base: Load(Param("keep"), GP64())}, keep)
		for r := range n {
			VPERMPS(acc[r], turn, acc[r])
			VBLENDVPS(keep, at(dst, ldy, ldy3, r), acc[r], acc[r])
			VMOVUPS(acc[r], at(dst, ldy, ldy3, r))
		}
	}
	SUBQ(Imm(4), rows)
	JL(LabelRef("last"))
	Label("four")
	walk("quad", 4)
	LEAQ(Mem{Base: x, Index: ldx, Scale: 4}, x)
	LEAQ(Mem{Base: y, Index: ldy, Scale: 4}, y)
	SUBQ(Imm(4), rows)
	JGE(LabelRef("four"))
	Label("last")
	ADDQ(Imm(4), rows)
	JZ(LabelRef("done"))
	Label("one")
	walk("single", 1)
	ADDQ(ldx, x)
	ADDQ(ldy, y)
	DECQ(rows)
	JNZ(LabelRef("one"))
	Label("done")
	VZEROUPPER()
	RET()
}

// headTerms computes the products of n rows of inputs, at src, with the weights of eight outputs. For blocks of 2 by 2
// and of 4 inputs, lanes first multiply the even inputs, each repeated for two lanes, then the odd ones; for 4 inputs
// then the same with the pairs of each half exchanged. Eight outputs of one block multiply inputs one by one. The last
// inputs, two for each four, come in pairs: each lane multiplies the input of its own parity, then the other.
func headTerms(m, k, n int, src func(r int) Mem, w Mem) []VecVirtual {
	acc := make([]VecVirtual, n)
	weights := func(term int) VecVirtual {
		v := YMM()
		VMOVUPS(w.Offset(32*term), v)
		return v
	}
	join := func(r int, in, weights Op) {
		if acc[r] == nil {
			acc[r] = YMM()
			VMULPS(weights, in, acc[r])
		} else {
			VFMADD231PS(weights, in, acc[r])
		}
	}
	// both multiplies inputs, and then the same inputs after a shuffle.
	both := func(load func(r int, in Op), shuffle uint64, first, second int) {
		a, b := weights(first), weights(second)
		for r := range n {
			in, turned := YMM(), YMM()
			load(r, in)
			join(r, in, a)
			VPERMILPS(U8(shuffle), in, turned)
			join(r, turned, b)
		}
	}
	const exchangePairs, exchangeInPairs = 0x4e, 0xb1
	if m == 8 {
		singles := k - 2*((k+3)/4)
		for p := range singles {
			a := weights(p)
			for r := range n {
				in := YMM()
				VBROADCASTSS(src(r).Offset(4*p), in)
				join(r, in, a)
			}
		}
		for p := singles; p < k; p += 2 {
			both(func(r int, in Op) { VBROADCASTSD(src(r).Offset(4*p), in) }, exchangeInPairs, p, p+1)
		}
		return acc
	}
	for odd := range 2 {
		load := func(r int, in Op) {
			if odd == 0 {
				VMOVSLDUP(src(r), in)
			} else {
				VMOVSHDUP(src(r), in)
			}
		}
		if m == 4 {
			both(load, exchangePairs, odd, odd+2)
			continue
		}
		a := weights(odd)
		for r := range n {
			in := YMM()
			load(r, in)
			join(r, in, a)
		}
	}
	return acc
}

// headsDotAVX2 generates a block-diagonal product of blocks with one output each, heads = 4 or 1 at a time. Inputs and
// weights of a block have the same offsets, so one counter serves both. The last, incomplete vector is read through a
// mask.
func headsDotAVX2(heads int) {
	name := fmt.Sprintf("headsDot%dAVX2", heads)
	TEXT(name, NOSPLIT, "func(rows int, y *float32, ldy int, x *float32, ldx int, w *float32, k int, groups int, "+
		"mask *int32)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes rows ≥ 1 rows of a product with blocks of one output and k ≥ 1 inputs, %d to "+
		"each of groups ≥ 1 groups; mask has ones for k modulo 8 numbers, then zeros.", name, heads))
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
	others := GP64() // bytes from the end of the first block of a group to the end of the last
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

// headsSpreadAVX2 generates a block-diagonal product of blocks with one input each. The last vector of a block ends
// with the block and overlaps the one before it, so that nothing else is written.
func headsSpreadAVX2() {
	TEXT("headsSpreadAVX2", NOSPLIT, "func(rows int, y *float32, ldy int, x *float32, ldx int, w *float32, m int, "+
		"heads int)")
	Pragma("noescape")
	describe("headsSpreadAVX2 computes rows ≥ 1 rows of a product with heads ≥ 1 blocks of m ≥ 8 outputs and " +
		"one input.")
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
