package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// depths generates convolutions of one channel with one filter, and maxima of windows, for AVX-512.
func depths() {
	for _, size := range []int{2, 3, 5, 7} {
		for stride := 1; stride <= 2; stride++ {
			if size < 7 || stride == 1 {
				depth(size, stride, false)
				depth(size, stride, true)
			}
		}
	}
}

// depth generates depth{size}x{stride}, or largest{size}x{stride}: 16 columns of all rows, then the next. Four rows are
// computed at a time, so that inputs are loaded once for several rows of the filter; the last four may be rows that are
// computed already.
func depth(size, stride int, largest bool) {
	name := fmt.Sprintf("depth%dx%dAVX512", size, stride)
	const signature = "func(y *float32, oh, ow int, x *float32, h, w, top, left, blocks int, masks *uint16"
	of := fmt.Sprintf("x[%d·r+i-top][%d·c+j-left] for r < oh and c < ow, where x has h rows of w numbers, and", stride, stride)
	masking := "around them. For each of blocks = ⌈ow/16⌉, masks has a mask of the 16 outputs, and then, for each j, one for " +
		"each 16 inputs."
	var weights []VecVirtual
	var from Register
	var fill Op
	if largest {
		name = fmt.Sprintf("largest%dx%dAVX512", size, stride)
		TEXT(name, NOSPLIT, signature+")")
		Pragma("noescape")
		describe(fmt.Sprintf("%s sets y[r][c] to the largest, over i and j < %d, of %s -∞ %s The largest is NaN if one of the "+
			"numbers is.", name, size, of, masking))
		fill = splat(float32(math.Inf(-1)))
	} else {
		TEXT(name, NOSPLIT, signature+", weights *float32, bias float32)")
		Pragma("noescape")
		describe(fmt.Sprintf("%s computes y[r][c] = bias + Σ over i and j < %d of weights[i][j]·%s zeros %s", name, size, of,
			masking))
		from = given("weights")
		if size <= 3 {
			weights = fresh(size * size)
			for i, w := range weights {
				VBROADCASTSS(Mem{Base: from, Disp: 4 * i}, w)
			}
		}
	}
	var even VecVirtual
	if stride == 2 {
		even = ZMM()
		VMOVDQU32(permutation(name+"Even", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), even)
	}
	kept := size*stride < 7 && !largest || size*stride < 6 // masks stay in registers, and the last one is that of outputs
	y, x, masks := given("y"), given("x"), given("masks")
	ldy, ldx, left := given("ow"), given("w"), given("left")
	SHLQ(Imm(2), ldy)
	SHLQ(Imm(2), ldx)
	SHLQ(Imm(2), left)
	SUBQ(left, x)
	mask := func(i int, k Register) { KMOVW(Mem{Base: masks, Disp: 2 * i}, k) }
	ks := []Register{K1, K2, K3, K4, K5, K6, K7}
	Label("block")
	if kept {
		mask(0, K7)
		for i := range size * stride {
			mask(1+i, ks[i])
		}
	}
	tile := func(rows int, again func(row, oh GPVirtual)) {
		label := fmt.Sprint("rows", rows)
		row := GP64()
		XORQ(row, row)
		Label(label)
		at, src := GP64(), GP64() // the first input row
		if stride == 2 {
			LEAQ(Mem{Base: row, Index: row, Scale: 1}, at)
		} else {
			MOVQ(row, at)
		}
		SUBQ(argument("top"), at)
		MOVQ(at, src)
		IMULQ(ldx, src)
		ADDQ(x, src)
		acc := fresh(rows)
		for _, a := range acc {
			if largest {
				VMOVAPS(fill, a)
			} else {
				VBROADCASTSS(argument("bias"), a)
			}
		}
		for t := range (rows-1)*stride + size {
			skip := fmt.Sprintf("skip%d_%d", rows, t)
			CMPQ(at, argument("h"))
			JCC(LabelRef(skip)) // unsigned: at or behind the last row, or before the first
			for j := range size {
				v := ZMM()
				k := func(i int) Register {
					if kept {
						return ks[stride*j+i]
					}
					mask(1+stride*j+i, ks[i])
					return ks[i]
				}
				load := func(at, part int, to VecVirtual) {
					if largest {
						VMOVAPS(fill, to)
						VMOVUPS(Mem{Base: src, Disp: at}, k(part), to)
					} else {
						VMOVUPS_Z(Mem{Base: src, Disp: at}, k(part), to)
					}
				}
				load(4*j, 0, v)
				if stride == 2 {
					odd := ZMM()
					load(4*j+64, 1, odd)
					VPERMT2PS(odd, even, v)
				}
				if largest {
					VCMPPS(Imm(unordered), v, v, K6)
				}
				for o, a := range acc {
					i := t - stride*o
					if i < 0 || i >= size {
						continue
					}
					switch {
					case largest:
						VMAXPS(a, v, a) // NaN if a is
						VMOVAPS(v, K6, a)
					case weights != nil:
						VFMADD231PS(weights[size*i+j], v, a)
					default:
						VFMADD231PS_BCST(Mem{Base: from, Disp: 4 * (size*i + j)}, v, a)
					}
				}
			}
			Label(skip)
			INCQ(at)
			ADDQ(ldx, src)
		}
		dst := GP64()
		MOVQ(row, dst)
		IMULQ(ldy, dst)
		ADDQ(y, dst)
		if !kept {
			mask(0, K7)
		}
		for i, m := range hang(dst, ldy, rows) {
			VMOVUPS(acc[i], K7, m)
		}
		ADDQ(Imm(uint64(rows)), row)
		oh := given("oh")
		again(row, oh)
	}
	CMPQ(argument("oh"), Imm(4))
	JLT(LabelRef("few"))
	tile(4, func(row, oh GPVirtual) {
		CMPQ(row, oh)
		JEQ(LabelRef("next"))
		SUBQ(Imm(4), oh)
		CMPQ(row, oh)
		CMOVQGT(oh, row)
		JMP(LabelRef("rows4"))
	})
	Label("few")
	tile(1, func(row, oh GPVirtual) {
		CMPQ(row, oh)
		JLT(LabelRef("rows1"))
	})
	Label("next")
	ADDQ(Imm(64), y)
	ADDQ(bytes(64*stride), x)
	ADDQ(Imm(uint64(2*(1+size*stride))), masks)
	DECQ(argument("blocks"))
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
