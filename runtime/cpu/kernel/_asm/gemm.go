package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gemmAVX2 generates gemm{rows}x{width}AVX2: blocks of rows rows of x times one panel of width rows of W, 16, 8 or 4. For 6 by
// 16, twelve accumulators, two vectors of the panel and one broadcast number fill the sixteen registers. However rows are cut
// into blocks, each number is the same chain of multiply-adds.
func gemmAVX2(rows, width int) {
	TEXT(fmt.Sprintf("gemm%dx%dAVX2", rows, width), NOSPLIT, "func(blocks, k int, x *float32, ldx, dx int, w *float32, dw int, init *float32, y *float32, ldy, dy int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("gemm%dx%dAVX2 computes y[i][j] = init[j] + Σ over p of x[i][p]·w[p][j] for i < %d and j < %d, k ≥ 0 products each, for blocks ≥ 1 blocks.", rows, width, rows, width),
		fmt.Sprintf("Rows of x and y lie ldx and ldy numbers apart, blocks dx, dw and dy; w is one panel, %d numbers for each p.", width))
	vectors, size := max(1, width/8), 32
	vec := func() VecVirtual { return YMM() }
	if width == 4 {
		size, vec = 16, func() VecVirtual { return XMM() }
	}
	blocks, k := Load(Param("blocks"), GP64()), Load(Param("k"), GP64())
	load := func(name, stride string) (GPVirtual, GPVirtual) {
		ptr, ld := Load(Param(name), GP64()).(GPVirtual), Load(Param(stride), GP64()).(GPVirtual)
		SHLQ(Imm(2), ld)
		return ptr, ld
	}
	next := func(stride string) Mem {
		addr, err := Param(stride).Resolve()
		if err != nil {
			panic(err)
		}
		return addr.Addr
	}
	xBlock, ldx := load("x", "ldx")
	yBlock, ldy := load("y", "ldy")
	panel, init := Load(Param("w"), GP64()), Load(Param("init"), GP64())
	// hang gives the rows of a block: 0 to 2 hang on one pointer, 3 to 5 on another, as x86 scales an index by 1, 2, 4 or 8.
	hang := func(first, ld GPVirtual) (mems []Mem) {
		cur := first
		for i := range rows {
			if i == 3 {
				cur = GP64()
				LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, cur)
				ADDQ(first, cur)
			}
			if i%3 == 0 {
				mems = append(mems, Mem{Base: cur})
			} else {
				mems = append(mems, Mem{Base: cur, Index: ld, Scale: uint8(i % 3)})
			}
		}
		return mems
	}
	Label("block")
	acc := make([][]VecVirtual, rows)
	for i := range rows {
		for v := range vectors {
			acc[i] = append(acc[i], vec())
			VMOVUPS(Mem{Base: init, Disp: size * v}, acc[i][v])
		}
	}
	cur, w := GP64(), GP64()
	MOVQ(xBlock, cur)
	MOVQ(panel, w)
	x := hang(cur, ldx)
	step := func(p int) {
		var b []VecVirtual
		for v := range vectors {
			b = append(b, vec())
			VMOVUPS(Mem{Base: w, Disp: 4*width*p + size*v}, b[v])
		}
		for i := range rows {
			a := vec()
			VBROADCASTSS(x[i].Offset(4*p), a)
			for v := range vectors {
				VFMADD231PS(a, b[v], acc[i][v])
			}
		}
	}
	advance := func(by int) {
		ADDQ(U32(4*width*by), w)
		seen := map[Register]bool{}
		for i := range rows {
			if b := x[i].Base; !seen[b] {
				seen[b] = true
				ADDQ(U32(4*by), b.(GPVirtual))
			}
		}
	}
	count := GP64()
	MOVQ(k, count)
	SHRQ(Imm(2), count)
	JZ(LabelRef("rest"))
	Label("quad")
	for p := range 4 {
		step(p)
	}
	advance(4)
	DECQ(count)
	JNZ(LabelRef("quad"))
	Label("rest")
	MOVQ(k, count)
	ANDQ(Imm(3), count)
	JZ(LabelRef("done"))
	Label("one")
	step(0)
	advance(1)
	DECQ(count)
	JNZ(LabelRef("one"))
	Label("done")
	for i, y := range hang(yBlock, ldy) {
		for v := range vectors {
			VMOVUPS(acc[i][v], y.Offset(size*v))
		}
	}
	for _, b := range []struct {
		ptr    GPVirtual
		stride string
	}{{xBlock, "dx"}, {panel.(GPVirtual), "dw"}, {yBlock, "dy"}} {
		by := GP64()
		MOVQ(next(b.stride), by)
		LEAQ(Mem{Base: b.ptr, Index: by, Scale: 4}, b.ptr)
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// gemvAVX2 generates the product of one row of x with groups of four panels side by side: with one panel at a time the chains
// of multiply-adds would be too few to fill the units.
func gemvAVX2() {
	TEXT("gemv64AVX2", NOSPLIT, "func(groups, k int, x, w, init, y *float32)")
	Pragma("noescape")
	Doc("gemv64AVX2 computes y[j] = init[j] + Σ over p of x[p]·w[j/16][p][j%16] for j < 64·groups, groups ≥ 1, k ≥ 1 products each.")
	groups, k := Load(Param("groups"), GP64()), Load(Param("k"), GP64())
	x, w := Load(Param("x"), GP64()), Load(Param("w"), GP64())
	init, y := Load(Param("init"), GP64()), Load(Param("y"), GP64())
	panel, three := GP64(), GP64()
	MOVQ(k, panel)
	SHLQ(Imm(6), panel)
	LEAQ(Mem{Base: panel, Index: panel, Scale: 2}, three)
	Label("group")
	acc := fresh(8)
	for i := range acc {
		VMOVUPS(Mem{Base: init, Disp: 32 * i}, acc[i])
	}
	count, cur := GP64(), GP64()
	MOVQ(k, count)
	MOVQ(x, cur)
	Label("next")
	a := YMM()
	VBROADCASTSS(Mem{Base: cur}, a)
	for i, m := range []Mem{{Base: w}, {Base: w, Index: panel, Scale: 1}, {Base: w, Index: panel, Scale: 2}, {Base: w, Index: three, Scale: 1}} {
		VFMADD231PS(m, a, acc[2*i])
		VFMADD231PS(m.Offset(32), a, acc[2*i+1])
	}
	ADDQ(Imm(4), cur)
	ADDQ(Imm(64), w)
	DECQ(count)
	JNZ(LabelRef("next"))
	ADDQ(three, w) // one panel has been walked through
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: y, Disp: 32 * i})
	}
	ADDQ(U32(256), init)
	ADDQ(U32(256), y)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
