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
				largestFinite(size, stride)
			}
		}
	}
	depthPairs(3)
	depthPairs(5)
}

// depthPairs generates depthPairs{size}. Four vectors have the outputs, and inputs that several pairs of rows need are loaded
// once.
func depthPairs(size int) {
	name := fmt.Sprintf("depthPairs%dAVX512", size)
	TEXT(name, NOSPLIT, "func(y, x *float32, h, w, top, left int, masks *uint16, weights *float32, bias float32)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y[r][c] = bias + Σ over i and j < %d of weights[i][j]·x[r+i-top][c+j-left], where x has h "+
		"rows of w ≤ 8 numbers, and zeros around them, for at most 8 rows of w numbers: two rows at a time. masks has a mask of "+
		"each pair, and then, for i < %d and each j, one of the inputs from row i-top on.", name, size, size+6))
	weights, acc := fresh(size*size), fresh(4)
	from := given("weights")
	for i, w := range weights {
		VBROADCASTSS(Mem{Base: from, Disp: 4 * i}, w)
	}
	for _, a := range acc {
		VBROADCASTSS(argument("bias"), a)
	}
	y, x, masks, h, ld := given("y"), given("x"), given("masks"), given("h"), given("w")
	left, at := given("left"), GP64() // at: one more than the first row of the inputs
	SHLQ(Imm(2), ld)
	SHLQ(Imm(2), left)
	SUBQ(left, x)
	MOVQ(argument("top"), at)
	NEGQ(at)
	skipped := GP64()
	MOVQ(at, skipped)
	IMULQ(ld, skipped)
	ADDQ(skipped, x)
	INCQ(at)
	INCQ(h)
	for t := range 2*len(acc) - 2 + size {
		skip := fmt.Sprint("skip", t)
		CMPQ(at, h)
		JCC(LabelRef(skip)) // unsigned: both rows are behind the last row, or before the first
		for j := range size {
			v := ZMM()
			KMOVW(Mem{Base: masks, Disp: 2 * (len(acc) + size*t + j)}, K1)
			VMOVUPS_Z(Mem{Base: x, Disp: 4 * j}, K1, v)
			for o, a := range acc {
				if i := t - 2*o; i >= 0 && i < size {
					VFMADD231PS(weights[size*i+j], v, a)
				}
			}
		}
		Label(skip)
		INCQ(at)
		ADDQ(ld, x)
	}
	for o, a := range acc {
		KMOVW(Mem{Base: masks, Disp: 2 * o}, K1)
		VMOVUPS(a, K1, Mem{Base: y})
		if o < len(acc)-1 {
			LEAQ(Mem{Base: y, Index: ld, Scale: 2}, y)
		}
	}
	VZEROUPPER()
	RET()
}

// depth generates depth{size}x{stride}, or largest{size}x{stride}: 16 columns of four rows, then the next columns, so that
// inputs are loaded once for several rows of the filter, and read in order. The last four rows may be computed already.
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
		if size <= 3 || size == 5 && stride == 1 {
			weights = fresh(size * size)
			for i, w := range weights {
				VBROADCASTSS(Mem{Base: from, Disp: 4 * i}, w)
			}
		}
	}
	var even, odd VecVirtual
	if stride == 2 {
		even, odd = ZMM(), ZMM()
		VMOVDQU32(permutation(name+"Even", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), even)
		VMOVDQU32(permutation(name+"Odd", 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), odd)
	}
	kept := size*stride < 7 && !largest || size*stride < 6 // masks stay in registers, and the last one is that of outputs
	ldy, ldx, masks := given("ow"), given("w"), GP64()
	SHLQ(Imm(2), ldy)
	SHLQ(Imm(2), ldx)
	mask := func(i int, k Register) { KMOVW(Mem{Base: masks, Disp: 2 * i}, k) }
	ks := []Register{K1, K2, K3, K4, K5, K6, K7}
	tile := func(rows int, again func(row, oh GPVirtual)) {
		label := fmt.Sprint("rows", rows)
		row := GP64()
		XORQ(row, row)
		Label(label)
		top, x, y, blocks := GP64(), GP64(), GP64(), given("blocks") // top: the first input row; x and y: of the block
		if stride == 2 {
			LEAQ(Mem{Base: row, Index: row, Scale: 1}, top)
		} else {
			MOVQ(row, top)
		}
		SUBQ(argument("top"), top)
		MOVQ(top, x)
		IMULQ(ldx, x)
		ADDQ(argument("x"), x)
		left := given("left")
		SHLQ(Imm(2), left)
		SUBQ(left, x)
		MOVQ(row, y)
		IMULQ(ldy, y)
		ADDQ(argument("y"), y)
		MOVQ(argument("masks"), masks)
		Label("block" + label)
		if kept {
			mask(0, K7)
			for i := range size * stride {
				mask(1+i, ks[i])
			}
		}
		at, src := GP64(), GP64()
		MOVQ(top, at)
		MOVQ(x, src)
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
			masked := func(at, i int) VecVirtual {
				k := ks[i%len(ks)]
				if !kept {
					k = ks[i%2]
					mask(1+i, k)
				}
				v := ZMM()
				if largest {
					VMOVAPS(fill, v)
					VMOVUPS(Mem{Base: src, Disp: at}, k, v)
				} else {
					VMOVUPS_Z(Mem{Base: src, Disp: at}, k, v)
				}
				return v
			}
			for j := 0; j < size; j += stride { // with stride 2, every other number is an input of the next weight
				v, taps := masked(4*j, stride*j), []VecVirtual(nil)
				if stride == 1 {
					taps = []VecVirtual{v}
				} else {
					second := masked(4*j+64, stride*j+1)
					if j+1 < size {
						next := ZMM()
						VMOVAPS(v, next)
						VPERMT2PS(second, odd, next)
						taps = []VecVirtual{next}
					}
					VPERMT2PS(second, even, v)
					taps = append([]VecVirtual{v}, taps...)
				}
				for q, v := range taps {
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
							VFMADD231PS(weights[size*i+j+q], v, a)
						default:
							VFMADD231PS_BCST(Mem{Base: from, Disp: 4 * (size*i + j + q)}, v, a)
						}
					}
				}
			}
			Label(skip)
			INCQ(at)
			ADDQ(ldx, src)
		}
		if !kept {
			mask(0, K7)
		}
		for i, m := range hang(y, ldy, rows) {
			VMOVUPS(acc[i], K7, m)
		}
		ADDQ(Imm(64), y)
		ADDQ(bytes(64*stride), x)
		ADDQ(Imm(uint64(2*(1+size*stride))), masks)
		DECQ(blocks)
		JNZ(LabelRef("block" + label))
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
	VZEROUPPER()
	RET()
}

// largestFinite generates largestFinite{size}x{stride}: rows are compared first, as they lie in memory, and then columns, for
// 16 columns of four rows. NaN is not looked for in each comparison: products with zero show it, and infinities, at the end.
func largestFinite(size, stride int) {
	name := fmt.Sprintf("largestFinite%dx%dAVX512", size, stride)
	TEXT(name, NOSPLIT, "func(y *float32, oh, ow int, x *float32, h, w, top, left, blocks int, masks *uint16) (finite bool)")
	Pragma("noescape")
	vectors := stride
	if size > stride {
		vectors++
	}
	describe(fmt.Sprintf("%s sets y[r][c] to the largest, over i and j < %d, of x[%d·r+i-top][%d·c+j-left] for r < oh and c < ow, "+
		"where x has h rows of w numbers, and some in each window. For each of blocks = ⌈ow/16⌉, masks has a mask of the 16 outputs, "+
		"and one for each 16 of %d inputs. If it returns false, x has NaN or infinite numbers, and y is not to be used.", name, size,
		stride, stride, 16*vectors))
	fill, zero, nan := splat(-math.MaxFloat32), ZMM(), fresh(6) // sums that do not wait for each other
	VPXORD(zero, zero, zero)
	for _, n := range nan {
		VMOVAPS(zero, n)
	}
	looked := 0
	var even, odd VecVirtual
	if stride == 2 {
		even, odd = ZMM(), ZMM()
		VMOVDQU32(permutation(name+"Even", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), even)
		VMOVDQU32(permutation(name+"Odd", 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), odd)
	}
	ldy, ldx, masks := given("ow"), given("w"), GP64()
	SHLQ(Imm(2), ldy)
	SHLQ(Imm(2), ldx)
	ks := []Register{K1, K2, K3}
	// Rows are not read in order: those of the tile after the next one come to the cache meanwhile.
	far := GP64()
	MOVQ(ldx, far)
	SHLQ(Imm(uint64(2+stride)), far)
	tile := func(rows int, again func(row, oh GPVirtual)) {
		label := fmt.Sprint("rows", rows)
		row := GP64()
		XORQ(row, row)
		Label(label)
		top, x, y, blocks := GP64(), GP64(), GP64(), given("blocks") // top: the first input row; x and y: of the block
		MOVQ(row, top)
		if stride == 2 {
			ADDQ(row, top)
		}
		SUBQ(argument("top"), top)
		MOVQ(top, x)
		IMULQ(ldx, x)
		ADDQ(argument("x"), x)
		left := given("left")
		SHLQ(Imm(2), left)
		SUBQ(left, x)
		MOVQ(row, y)
		IMULQ(ldy, y)
		ADDQ(argument("y"), y)
		MOVQ(argument("masks"), masks)
		Label("block" + label)
		KMOVW(Mem{Base: masks}, K7)
		for v := range vectors {
			KMOVW(Mem{Base: masks, Disp: 2 + 2*v}, ks[v])
		}
		at, src := GP64(), GP64()
		MOVQ(top, at)
		MOVQ(x, src)
		acc := make([]vecs, rows)
		for o := range acc {
			acc[o] = fresh(vectors)
			for _, a := range acc[o] {
				VMOVAPS(fill, a)
			}
		}
		for t := range (rows-1)*stride + size {
			skip := fmt.Sprintf("skip%d_%d", rows, t)
			CMPQ(at, argument("h"))
			JCC(LabelRef(skip)) // unsigned: at or behind the last row, or before the first
			for v := range vectors {
				in := ZMM()
				VMOVUPS_Z(Mem{Base: src, Disp: 64 * v}, ks[v], in)
				if rows > 1 && t < rows*stride && v < stride {
					PREFETCHT0(Mem{Base: src, Index: far, Scale: 1, Disp: 64 * v})
				}
				VFMADD231PS(in, zero, nan[looked%len(nan)])
				looked++
				for o := range acc {
					if i := t - stride*o; i >= 0 && i < size {
						VMAXPS(in, acc[o][v], ks[v], acc[o][v])
					}
				}
			}
			Label(skip)
			INCQ(at)
			ADDQ(ldx, src)
		}
		for o, m := range hang(y, ldy, rows) {
			a := acc[o]
			low := vecs{a[0]} // per phase: the first 16 columns of the stride, and those behind
			var high vecs
			if vectors > stride {
				high = vecs{a[stride]}
			}
			if stride == 2 {
				second := ZMM()
				VMOVAPS(a[0], second)
				VPERMT2PS(a[1], odd, second)
				VPERMT2PS(a[1], even, a[0])
				low = append(low, second)
				if size > 3 {
					behind := ZMM()
					VPERMPS(a[2], odd, behind)
					VPERMPS(a[2], even, a[2])
					high = append(high, behind)
				}
			}
			most := fresh(1)[0]
			VMOVAPS(low[0], most)
			for j := 1; j < size; j++ {
				next := low[j%stride]
				if j >= stride {
					next = ZMM()
					VALIGND(Imm(uint64(j/stride)), low[j%stride], high[j%stride], next)
				}
				VMAXPS(next, most, most)
			}
			VMOVUPS(most, K7, m)
		}
		ADDQ(Imm(64), y)
		ADDQ(bytes(64*stride), x)
		ADDQ(Imm(uint64(2*(1+vectors))), masks)
		DECQ(blocks)
		JNZ(LabelRef("block" + label))
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
	for _, n := range nan[1:] {
		VADDPS(n, nan[0], nan[0])
	}
	VCMPPS(Imm(unordered), nan[0], nan[0], K1)
	KORTESTW(K1, K1)
	finite := GP8()
	SETEQ(finite)
	Store(finite, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
