package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gemmMasked generates gemm{rows}x{width}AVX512: blocks of rows rows of x times panels of width rows of W, of which the first
// m count. Twelve rows of 32 fill 24 registers with accumulators, and leave some for the panel and the broadcast
// numbers. What lies beyond m is neither read nor written. However rows are cut into blocks, each number is the same chain
// of multiply-adds.
func gemmMasked(rows, width int) {
	name := fmt.Sprintf("gemm%dx%dAVX512", rows, width)
	TEXT(name, NOSPLIT, "func(blocks, k int, x *float32, ldx, dx int, w *float32, dw int, init *float32, y *float32, ldy, dy int, m int, add bool)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes y[i][j] = init[j] + Σ over p of x[i][p]·w[p][j] for i < %d and j < m ≤ %d, k ≥ 1 products each, for blocks ≥ 1 blocks; with add it adds that to y.", name, rows, width),
		fmt.Sprintf("Rows of x and y lie ldx and ldy numbers apart, blocks dx, dw and dy; w is one panel, %d numbers for each p.", width))
	vectors, size, vec := max(1, width/16), min(64, 4*width), ZMM
	switch width {
	case 8:
		vec = YMM
	case 4:
		vec = XMM
	}
	k := Load(Param("k"), GP64())
	strided := func(name, stride string) (ptr, ld GPVirtual) {
		ptr, ld = Load(Param(name), GP64()).(GPVirtual), Load(Param(stride), GP64()).(GPVirtual)
		SHLQ(Imm(2), ld)
		return ptr, ld
	}
	xBlock, ldx := strided("x", "ldx")
	yBlock, ldy := strided("y", "ldy")
	panel := Load(Param("w"), GP64())
	masks := make([]Op, vectors)
	init := make([]VecVirtual, vectors)
	left, bias := Load(Param("m"), GP64()).(GPVirtual), Load(Param("init"), GP64())
	for v := range masks {
		if v > 0 {
			SUBQ(Imm(16), left) // a panel of 32 has more than 16 rows
		}
		masks[v], init[v] = lowest(left), vec()
		VMOVUPS_Z(Mem{Base: bias, Disp: size * v}, masks[v], init[v])
	}
	// hang gives the rows of a block, three to a pointer, as x86 scales an index by 1, 2, 4 or 8.
	hang := func(first, ld GPVirtual) (mems []Mem) {
		cur := first
		for i := range rows {
			if i%3 > 0 {
				mems = append(mems, Mem{Base: cur, Index: ld, Scale: uint8(i % 3)})
				continue
			}
			if i > 0 {
				next := GP64()
				LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, next)
				ADDQ(cur, next)
				cur = next
			}
			mems = append(mems, Mem{Base: cur})
		}
		return mems
	}
	Label("block")
	acc := make([][]VecVirtual, rows)
	for i := range acc {
		for v := range vectors {
			acc[i] = append(acc[i], vec())
			VMOVAPS(init[v], acc[i][v])
		}
	}
	cur, w, count := GP64(), GP64(), GP64()
	MOVQ(xBlock, cur)
	MOVQ(panel, w)
	x := hang(cur, ldx)
	step := func(p int) {
		b := make([]VecVirtual, vectors)
		for v := range b {
			b[v] = vec()
			VMOVUPS(Mem{Base: w, Disp: 4*width*p + size*v}, b[v])
		}
		for i := range rows {
			a := vec()
			VBROADCASTSS(x[i].Offset(4*p), a)
			for v := range b {
				VFMADD231PS(a, b[v], acc[i][v])
			}
		}
	}
	advance := func(by int) {
		ADDQ(bytes(4*width*by), w)
		for i := 0; i < rows; i += 3 {
			ADDQ(bytes(4*by), x[i].Base.(GPVirtual))
		}
	}
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
	JZ(LabelRef("sum"))
	Label("one")
	step(0)
	advance(1)
	DECQ(count)
	JNZ(LabelRef("one"))
	Label("sum")
	y := hang(yBlock, ldy)
	CMPB(argument("add"), Imm(0))
	JE(LabelRef("store"))
	for i := range y {
		for v := range vectors {
			VADDPS(y[i].Offset(size*v), acc[i][v], masks[v], acc[i][v])
		}
	}
	Label("store")
	for i := range y {
		for v := range vectors {
			VMOVUPS(acc[i][v], masks[v], y[i].Offset(size*v))
		}
	}
	for _, by := range []struct {
		ptr    Register
		stride string
	}{{xBlock, "dx"}, {panel, "dw"}, {yBlock, "dy"}} {
		d := GP64()
		MOVQ(argument(by.stride), d)
		LEAQ(Mem{Base: by.ptr, Index: d, Scale: 4}, by.ptr)
	}
	DECQ(argument("blocks"))
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// argument is where the caller put an argument.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// gemvMasked generates the product of one row of x with some full panels of 32 side by side: with one panel at a time the
// chains of multiply-adds would be too few to fill the units.
func gemvMasked(panels int) {
	name := fmt.Sprintf("gemv%dAVX512", 32*panels)
	TEXT(name, NOSPLIT, "func(groups, k int, x, w, init, y *float32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes y[j] = init[j] + Σ over p of x[p]·w[j/32][p][j%%32] for j < %d·groups, groups ≥ 1, k ≥ 1 products each.", name, 32*panels))
	groups, k := Load(Param("groups"), GP64()), Load(Param("k"), GP64())
	x, w := Load(Param("x"), GP64()), Load(Param("w"), GP64())
	init, y := Load(Param("init"), GP64()), Load(Param("y"), GP64())
	panel, others := GP64(), GP64() // bytes of a panel, and of all but the first
	MOVQ(k, panel)
	SHLQ(Imm(7), panel)
	IMUL3Q(Imm(uint64(panels-1)), panel, others)
	Label("group")
	acc := fresh(2 * panels)
	for i := range acc {
		VMOVUPS(Mem{Base: init, Disp: 64 * i}, acc[i])
	}
	count, cur := GP64(), GP64()
	MOVQ(k, count)
	MOVQ(x, cur)
	Label("next")
	a := ZMM()
	VBROADCASTSS(Mem{Base: cur}, a)
	for i := range panels {
		m := Mem{Base: w}
		switch {
		case i == 3:
			m.Index, m.Scale = others, 1
		case i > 0:
			m.Index, m.Scale = panel, uint8(i)
		}
		VFMADD231PS(m, a, acc[2*i])
		VFMADD231PS(m.Offset(64), a, acc[2*i+1])
	}
	ADDQ(Imm(4), cur)
	ADDQ(U32(128), w)
	DECQ(count)
	JNZ(LabelRef("next"))
	ADDQ(others, w) // the first panel has been walked through
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: y, Disp: 64 * i})
	}
	ADDQ(U32(uint32(128*panels)), init)
	ADDQ(U32(uint32(128*panels)), y)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// gemm512 generates all of the group.
func gemm512() {
	for rows := range 12 {
		gemmMasked(rows+1, 32)
	}
	for _, width := range []int{16, 8, 4} {
		for _, rows := range []int{12, 4, 1} {
			gemmMasked(rows, width)
		}
	}
	gemvMasked(4)
	gemvMasked(2)
}
