package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gemms generates all products of float32 numbers. Tiles of 6 by 16 take fifteen of sixteen registers: twelve
// accumulators, two vectors of the panel and a broadcast number. With AVX-512, tiles of 12 by 32 have 24 accumulators
// in 32 registers.
func gemms() {
	most, few, width, groups := upTo(6), []int{6, 1}, 16, []int{4}
	if target.masks() {
		most, few, width, groups = upTo(12), []int{12, 4, 1}, 32, []int{4, 2}
	}
	gemm(width, most)
	for w := width; w >= 16; w /= 2 {
		gemmTiles(w, len(most))
		gemmShifted(w, len(most))
	}
	for width /= 2; width >= 4; width /= 2 {
		gemm(width, few)
	}
	for _, panels := range groups {
		gemv("gemv", "float32", panels, func(w Mem, a, acc VecVirtual) { VFMADD231PS(w, a, acc) })
	}
}

// gemm generates gemm{width}: rows of x, in tiles of the given sizes, times panels of width rows of W. With masks,
// columns behind the first m are neither read nor written, and the result may be added to y.
func gemm(width int, sizes []int) {
	name, masked := fmt.Sprintf("gemm%d%s", width, target.name), target.masks()
	parameters, limit, rest := "", fmt.Sprint(width), "."
	if masked {
		parameters, limit, rest = ", m int, add bool", fmt.Sprintf("m ≤ %d", width), "; with add it adds that to y."
	}
	TEXT(name, NOSPLIT, "func(rows, blocks, k int, x *float32, ldx, dx int, w *float32, dw int, init *float32, y "+
		"*float32, ldy, dy int"+parameters+")")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y[i][j] = init[j] + Σ over p of x[i][p]·w[p][j] for i < rows and j < %s, k ≥ "+
		"0 products each, for blocks ≥ 1 blocks%s", name, limit, rest) + " " +
		fmt.Sprintf("Rows of x and y lie ldx and ldy numbers apart, blocks dx, dw and dy; w is one panel, %d "+
			"numbers for each p. All blocks of some rows come before the next rows.", width))
	k, ldx, ldy := given("k"), given("ldx"), given("ldy")
	SHLQ(Imm(2), ldx)
	SHLQ(Imm(2), ldy)
	init := given("init")
	start := func(_, v int, acc VecVirtual) { VMOVUPS(Mem{Base: init, Disp: min(target.size, 4*width) * v}, acc) }
	var masks []Op
	if masked {
		masks = columns(given("m"), max(1, width/16))
		var kept []VecVirtual // init
		for v, mask := range masks {
			kept = append(kept, newTile(1, width).vector())
			VMOVUPS_Z(Mem{Base: init, Disp: 64 * v}, mask, kept[v])
		}
		start = func(_, v int, acc VecVirtual) { VMOVAPS(kept[v], acc) }
	}
	// While some rows are multiplied by the panel, the next panel comes to the second-level cache.
	var ahead Register
	if width == 2*target.size/4 {
		next := GP64()
		MOVQ(k, next)
		IMUL3Q(bytes(4*width), next, next)
		ADDQ(argument("w"), next)
		ahead = next
	}
	tiles(argument("rows"), sizes, func(rows int) {
		block, store := fmt.Sprint("block", rows), fmt.Sprint("store", rows)
		left, x, panel, y := given("blocks"), given("x"), given("w"), given("y")
		Label(block)
		t := newTile(rows, width)
		if rows == sizes[0] {
			t.ahead = ahead
		}
		t.each(start)
		t.products(fmt.Sprint(rows), k, x, ldx, panel, func(p int) {
			t.step(p, 0, func(a, w, acc VecVirtual) { VFMADD231PS(a, w, acc) })
		})
		if masked {
			CMPB(argument("add"), Imm(0))
			JE(LabelRef(store))
			before := hang(y, ldy, rows)
			t.each(func(i, v int, acc VecVirtual) { VADDPS(before[i].Offset(t.size*v), acc, masks[v], acc) })
			Label(store)
		}
		t.store(y, ldy, masks)
		for _, next := range []struct {
			ptr    Register
			stride string
		}{{x, "dx"}, {panel, "dw"}, {y, "dy"}} {
			by := given(next.stride)
			LEAQ(Mem{Base: next.ptr, Index: by, Scale: 4}, next.ptr)
		}
		DECQ(left)
		JNZ(LabelRef(block))
		for _, next := range []struct {
			name string
			ld   GPVirtual
		}{{"x", ldx}, {"y", ldy}} {
			first := given(next.name)
			skipRows(first, next.ld, rows)
			MOVQ(first, argument(next.name))
		}
	})
}

// prefetch loads the next two lines from ahead on into the second-level cache, and advances it.
func prefetch(ahead Register) {
	PREFETCHT1(Mem{Base: ahead})
	PREFETCHT1(Mem{Base: ahead, Disp: 64})
	ADDQ(bytes(128), ahead)
}

// gemmTiles generates tiles{width}: products as gemm's, of rows that are packed tile by tile.
func gemmTiles(width, most int) {
	name, masked := fmt.Sprintf("tiles%d%s", width, target.name), target.masks()
	parameters, limit := "", fmt.Sprint(width)
	if masked {
		parameters, limit = ", m int", fmt.Sprintf("m ≤ %d", width)
	}
	TEXT(name, NOSPLIT, "func(rows, blocks, k int, x, w *float32, dw int, y *float32, ldy, dy int"+parameters+")")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y[i][j] = Σ over p of x[i][p]·w[p][j] for i < rows and j < %s, k ≥ 1 products each, "+
		"for blocks ≥ 1 blocks. x has tiles of %d rows, the last of fewer, each with the numbers of its rows for each p. "+
		"Rows of y lie ldy numbers apart, blocks dw and dy; w is one panel, %d numbers for each p. All blocks of some rows "+
		"come before the next rows.", name, limit, most, width))
	ldy := given("ldy")
	SHLQ(Imm(2), ldy)
	var masks []Op
	if masked {
		masks = columns(given("m"), width/16)
	}
	tiles(argument("rows"), upTo(most), func(rows int) {
		label := fmt.Sprint(rows)
		left, panel, y, x := given("blocks"), given("w"), given("y"), GP64()
		// While blocks are multiplied by the tile, the next tile comes to the second-level cache.
		ahead := GP64()
		if rows == most {
			MOVQ(argument("k"), ahead)
			IMUL3Q(bytes(4*rows), ahead, ahead)
			ADDQ(argument("x"), ahead)
		}
		Label("block" + label)
		MOVQ(argument("x"), x)
		t := newTile(rows, width)
		t.each(func(_, _ int, acc VecVirtual) { VXORPS(acc, acc, acc) })
		count := GP64()
		t.w = GP64()
		MOVQ(panel, t.w)
		for i := range rows {
			t.x = append(t.x, Mem{Base: x, Disp: 4 * i})
		}
		run := func(steps int) {
			for p := range steps {
				w := t.words(p)
				for i, acc := range t.acc {
					a := t.vector()
					VBROADCASTSS(t.x[i].Offset(4*rows*p), a)
					for v := range acc {
						VFMADD231PS(a, w[v], acc[v])
					}
				}
			}
			ADDQ(bytes(4*width*steps), t.w)
			ADDQ(bytes(4*rows*steps), x)
			DECQ(count)
		}
		MOVQ(argument("k"), count)
		SHRQ(Imm(2), count)
		JZ(LabelRef("rest" + label))
		Label("quad" + label)
		if rows == most {
			prefetch(ahead)
		}
		run(4)
		JNZ(LabelRef("quad" + label))
		Label("rest" + label)
		MOVQ(argument("k"), count)
		ANDQ(Imm(3), count)
		JZ(LabelRef("sum" + label))
		Label("one" + label)
		run(1)
		JNZ(LabelRef("one" + label))
		Label("sum" + label)
		t.store(y, ldy, masks)
		dw, dy := given("dw"), given("dy")
		LEAQ(Mem{Base: panel, Index: dw, Scale: 4}, panel)
		LEAQ(Mem{Base: y, Index: dy, Scale: 4}, y)
		DECQ(left)
		JNZ(LabelRef("block" + label))
		MOVQ(x, argument("x"))
		first := given("y")
		skipRows(first, ldy, rows)
		MOVQ(first, argument("y"))
	})
}

// gemmShifted generates shifted{width}: products of rows that are packed tile by tile with parts of one row, which is not
// packed.
func gemmShifted(width, most int) {
	name, masked := fmt.Sprintf("shifted%d%s", width, target.name), target.masks()
	parameters, limit := "", fmt.Sprint(width)
	if masked {
		parameters, limit = ", m int", fmt.Sprintf("m ≤ %d", width)
	}
	TEXT(name, NOSPLIT, "func(rows, blocks, k int, bias bool, x, src *float32, off *int32, y *float32, ldy int"+parameters+")")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y[i][j] = b[i] + Σ over p of x[i][p]·src[off[p]+j] for i < rows and j < %s, k ≥ 1 products "+
		"each, for blocks ≥ 1 blocks, which lie %d numbers apart in src and y. x has tiles of %d rows, the last of fewer, each "+
		"with the numbers of its rows for each p, and then, with bias, b; without, b is 0. Rows of y lie ldy numbers apart. All "+
		"blocks of some rows come before the next rows.", name, limit, width, most))
	ldy := given("ldy")
	SHLQ(Imm(2), ldy)
	var masks []Op
	if masked {
		masks = columns(given("m"), width/16)
	}
	tiles(argument("rows"), upTo(most), func(rows int) {
		label := fmt.Sprint(rows)
		left, src, y, x := given("blocks"), given("src"), given("y"), GP64()
		Label("block" + label)
		MOVQ(argument("x"), x)
		t := newTile(rows, width)
		t.each(func(_, _ int, acc VecVirtual) { VXORPS(acc, acc, acc) })
		count, off := given("k"), given("off")
		Label("step" + label)
		at := GP64()
		MOVLQSX(Mem{Base: off}, at)
		LEAQ(Mem{Base: src, Index: at, Scale: 4}, at)
		w := make([]VecVirtual, t.vectors)
		for v := range w {
			w[v] = t.vector()
			VMOVUPS(Mem{Base: at, Disp: t.size * v}, w[v])
		}
		for i, acc := range t.acc {
			a := t.vector()
			VBROADCASTSS(Mem{Base: x, Disp: 4 * i}, a)
			for v := range acc {
				VFMADD231PS(a, w[v], acc[v])
			}
		}
		ADDQ(Imm(4), off)
		ADDQ(bytes(4*rows), x)
		DECQ(count)
		JNZ(LabelRef("step" + label))
		CMPB(argument("bias"), Imm(0))
		JE(LabelRef("sum" + label))
		for i, acc := range t.acc {
			a := t.vector()
			VBROADCASTSS(Mem{Base: x, Disp: 4 * i}, a)
			for v := range acc {
				VADDPS(a, acc[v], acc[v])
			}
		}
		ADDQ(bytes(4*rows), x)
		Label("sum" + label)
		t.store(y, ldy, masks)
		ADDQ(bytes(4*width), src)
		ADDQ(bytes(4*width), y)
		DECQ(left)
		JNZ(LabelRef("block" + label))
		MOVQ(x, argument("x"))
		first := given("y")
		skipRows(first, ldy, rows)
		MOVQ(first, argument("y"))
	})
}

// gemv generates the product of one row of x with groups of 2 or 4 full panels, of 16 or, with AVX-512, 32 columns. One
// panel at a time would have too few independent sums to hide the latency of additions. words is the type of the
// elements of w. multiply adds the products of a vector of them with a broadcast word to a sum.
func gemv(name, words string, panels int, multiply func(w Mem, a, acc VecVirtual)) {
	width := target.size / 2
	name = fmt.Sprintf("%s%d%s", name, width*panels, target.name)
	TEXT(name, NOSPLIT, "func(groups, k int, x *float32, w *"+words+", init, y *float32)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes y[j] = init[j] + Σ over p of x[p]·w[j/%d][p][j%%%d] for j < %d·groups, "+
		"groups ≥ 1, k ≥ 1 products each.", name, width, width, width*panels))
	groups, k := Load(Param("groups"), GP64()), Load(Param("k"), GP64())
	x, w := Load(Param("x"), GP64()), Load(Param("w"), GP64())
	init, y := Load(Param("init"), GP64()), Load(Param("y"), GP64())
	panel, others := GP64(), GP64() // bytes of a panel, and of all but the first
	MOVQ(k, panel)
	IMUL3Q(bytes(4*width), panel, panel)
	IMUL3Q(Imm(uint64(panels-1)), panel, others)
	Label("group")
	acc := fresh(2 * panels)
	for i := range acc {
		VMOVUPS(Mem{Base: init, Disp: target.size * i}, acc[i])
	}
	count, cur := GP64(), GP64()
	MOVQ(k, count)
	MOVQ(x, cur)
	Label("next")
	a := target.vector()
	VBROADCASTSS(Mem{Base: cur}, a)
	for i := range panels {
		m := Mem{Base: w}
		switch {
		case i == 3:
			m.Index, m.Scale = others, 1
		case i > 0:
			m.Index, m.Scale = panel, uint8(i)
		}
		multiply(m, a, acc[2*i])
		multiply(m.Offset(target.size), a, acc[2*i+1])
	}
	ADDQ(Imm(4), cur)
	ADDQ(bytes(4*width), w)
	DECQ(count)
	JNZ(LabelRef("next"))
	ADDQ(others, w) // w is at the end of the first panel
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: y, Disp: target.size * i})
	}
	ADDQ(bytes(4*width*panels), init)
	ADDQ(bytes(4*width*panels), y)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
