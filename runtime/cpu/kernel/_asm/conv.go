package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// panelAVX2 generates a copy of 16 consecutive numbers from each of n positions.
func panelAVX2() {
	TEXT("panelAVX2", NOSPLIT, "func(n int, dst, src *float32, off *int32)")
	Pragma("noescape")
	describe("panelAVX2 copies 16 numbers from src+off[i] to dst+16·i for each i < n, n ≥ 1.")
	n, dst, src, off := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("src"), GP64()),
		Load(Param("off"), GP64())
	at, a, b := GP64(), YMM(), YMM()
	Label("next")
	MOVLQSX(Mem{Base: off}, at)
	VMOVUPS(Mem{Base: src, Index: at, Scale: 4}, a)
	VMOVUPS(Mem{Base: src, Index: at, Scale: 4, Disp: 32}, b)
	VMOVUPS(a, Mem{Base: dst})
	VMOVUPS(b, Mem{Base: dst, Disp: 32})
	ADDQ(Imm(4), off)
	ADDQ(Imm(64), dst)
	DECQ(n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// runPanelAVX2 generates a copy of runs of consecutive numbers.
func runPanelAVX2() {
	TEXT("runPanelAVX2", NOSPLIT, "func(n int, dst *float32, ld int, src *float32, off, runs *int32, count int)")
	Pragma("noescape")
	describe("runPanelAVX2 copies 16 numbers from src+off[i]+From to dst+ld·i+At, for each Run in their order, for each i " +
		"< n in their order, n ≥ 1 and count ≥ 1.")
	n, off, runs := given("n"), given("off"), given("runs")
	dst, ld := strided("dst", "ld")
	src := given("src")
	from, run, left, at := GP64(), GP64(), GP64(), GP64()
	a, b := YMM(), YMM()
	Label("next")
	MOVLQSX(Mem{Base: off}, from)
	LEAQ(Mem{Base: src, Index: from, Scale: 4}, from)
	MOVQ(runs, run)
	MOVQ(argument("count"), left)
	Label("run")
	MOVLQSX(Mem{Base: run}, at)
	VMOVUPS(Mem{Base: from, Index: at, Scale: 4}, a)
	VMOVUPS(Mem{Base: from, Index: at, Scale: 4, Disp: 32}, b)
	MOVLQSX(Mem{Base: run, Disp: 4}, at)
	VMOVUPS(a, Mem{Base: dst, Index: at, Scale: 4})
	VMOVUPS(b, Mem{Base: dst, Index: at, Scale: 4, Disp: 32})
	ADDQ(Imm(12), run)
	DECQ(left)
	JNZ(LabelRef("run"))
	ADDQ(Imm(4), off)
	ADDQ(ld, dst)
	DECQ(n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// gatherPanelAVX2 generates a copy of 16 numbers at any positions.
func gatherPanelAVX2() {
	TEXT("gatherPanelAVX2", NOSPLIT, "func(n int, dst, src *float32, off, index *int32)")
	Pragma("noescape")
	describe("gatherPanelAVX2 copies the numbers at src+off[i]+index[j], j < 16, to dst+16·i for each i < n, n ≥ 1.")
	n, dst, src, off := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("src"), GP64()),
		Load(Param("off"), GP64())
	index := Load(Param("index"), GP64())
	i0, i1 := YMM(), YMM()
	VMOVDQU(Mem{Base: index}, i0)
	VMOVDQU(Mem{Base: index, Disp: 32}, i1)
	at, a, b, m0, m1 := GP64(), YMM(), YMM(), YMM(), YMM()
	Label("next")
	MOVLQSX(Mem{Base: off}, at)
	LEAQ(Mem{Base: src, Index: at, Scale: 4}, at)
	VPCMPEQD(m0, m0, m0)
	VPCMPEQD(m1, m1, m1)
	VXORPS(a, a, a)
	VXORPS(b, b, b)
	VGATHERDPS(m0, Mem{Base: at, Index: i0, Scale: 4}, a)
	VGATHERDPS(m1, Mem{Base: at, Index: i1, Scale: 4}, b)
	VMOVUPS(a, Mem{Base: dst})
	VMOVUPS(b, Mem{Base: dst, Disp: 32})
	ADDQ(Imm(4), off)
	ADDQ(Imm(64), dst)
	DECQ(n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// quarterPanelAVX2 generates a copy of four runs of four numbers.
func quarterPanelAVX2() {
	TEXT("quarterPanelAVX2", NOSPLIT, "func(n int, dst, src *float32, off, index *int32)")
	Pragma("noescape")
	describe("quarterPanelAVX2 copies the four numbers from src+off[i]+index[4·j] on to dst+16·i+4·j for each i < " +
		"n, j < 4, n ≥ 1.")
	n, dst, src, off := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("src"), GP64()),
		Load(Param("off"), GP64())
	index := Load(Param("index"), GP64())
	from := make([]Register, 4)
	for j := range from {
		r := GP64()
		MOVLQSX(Mem{Base: index, Disp: 16 * j}, r)
		LEAQ(Mem{Base: src, Index: r, Scale: 4}, r)
		from[j] = r
	}
	at := GP64()
	Label("next")
	MOVLQSX(Mem{Base: off}, at)
	for j, r := range from {
		v := XMM()
		VMOVUPS(Mem{Base: r, Index: at, Scale: 4}, v)
		VMOVUPS(v, Mem{Base: dst, Disp: 16 * j})
	}
	ADDQ(Imm(4), off)
	ADDQ(Imm(64), dst)
	DECQ(n)
	JNZ(LabelRef("next"))
	RET()
}

// tapsAVX2 generates a weighted sum of shifted copies, 32 numbers at a time, and then 8.
func tapsAVX2() {
	TEXT("tapsAVX2", NOSPLIT, "func(n int, y, x *float32, taps int, off *int32, w *float32, bias float32)")
	Pragma("noescape")
	describe("tapsAVX2 computes y[i] = bias + Σ over t < taps of w[t]·x[i+off[t]] for i < n, n a positive multiple " +
		"of 8, taps ≥ 1.")
	n, y, x := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64())
	taps, off, w := Load(Param("taps"), GP64()), Load(Param("off"), GP64()), Load(Param("w"), GP64())
	init := broadcast("bias")
	t, at, weight := GP64(), GP64(), YMM()
	block := func(label string, vectors int) {
		acc := make([]VecVirtual, vectors)
		for i := range acc {
			acc[i] = YMM()
			VMOVAPS(init, acc[i])
		}
		XORQ(t, t)
		Label(label)
		MOVLQSX(Mem{Base: off, Index: t, Scale: 4}, at)
		VBROADCASTSS(Mem{Base: w, Index: t, Scale: 4}, weight)
		LEAQ(Mem{Base: x, Index: at, Scale: 4}, at)
		for i := range acc {
			VFMADD231PS(Mem{Base: at, Disp: 32 * i}, weight, acc[i])
		}
		INCQ(t)
		CMPQ(t, taps)
		JLT(LabelRef(label))
		for i := range acc {
			VMOVUPS(acc[i], Mem{Base: y, Disp: 32 * i})
		}
		ADDQ(U32(uint32(32*vectors)), x)
		ADDQ(U32(uint32(32*vectors)), y)
	}
	SUBQ(Imm(32), n)
	JL(LabelRef("rest"))
	Label("wide")
	block("wideTap", 4)
	SUBQ(Imm(32), n)
	JGE(LabelRef("wide"))
	Label("rest")
	ADDQ(Imm(32), n)
	JZ(LabelRef("done"))
	Label("narrow")
	block("narrowTap", 1)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("narrow"))
	Label("done")
	VZEROUPPER()
	RET()
}

// depthwiseAVX2 generates a weighted sum of rows, 32 features of all rows at a time, and then 8.
func depthwiseAVX2() {
	TEXT("depthwiseAVX2", NOSPLIT, "func(n, rows, f int, y, x *float32, taps int, off *int32, w, bias *float32)")
	Pragma("noescape")
	describe("depthwiseAVX2 computes y[r·f+c] = bias[c] + Σ over t < taps of w[t·f+c]·x[r·f+off[t]+c] for r < rows " +
		"and c < n, n a positive " +
		"multiple of 8, rows and taps ≥ 1. bias may be nil.")
	n, ld, y, x := Load(Param("n"), GP64()), Load(Param("f"), GP64()), Load(Param("y"), GP64()),
		Load(Param("x"), GP64())
	taps, off, w := Load(Param("taps"), GP64()), Load(Param("off"), GP64()), Load(Param("w"), GP64())
	SHLQ(Imm(2), ld)
	done := GP64() // bytes of finished features
	XORQ(done, done)
	block := func(label string, vectors int) {
		init, acc := make([]VecVirtual, vectors), make([]VecVirtual, vectors)
		bias := Load(Param("bias"), GP64())
		for i := range acc {
			init[i], acc[i] = YMM(), YMM()
			VXORPS(init[i], init[i], init[i])
		}
		TESTQ(bias, bias)
		JZ(LabelRef(label + "Row"))
		for i := range init {
			VMOVUPS(Mem{Base: bias, Index: done, Scale: 1, Disp: 32 * i}, init[i])
		}
		Label(label + "Row")
		rows, src, dst := Load(Param("rows"), GP64()), GP64(), GP64()
		MOVQ(x, src)
		MOVQ(y, dst)
		t, at, weights, weight := GP64(), GP64(), GP64(), YMM()
		Label(label + "Next")
		for i := range acc {
			VMOVAPS(init[i], acc[i])
		}
		XORQ(t, t)
		MOVQ(w, weights)
		Label(label)
		MOVLQSX(Mem{Base: off, Index: t, Scale: 4}, at)
		LEAQ(Mem{Base: src, Index: at, Scale: 4}, at)
		for i := range acc {
			VMOVUPS(Mem{Base: weights, Disp: 32 * i}, weight)
			VFMADD231PS(Mem{Base: at, Disp: 32 * i}, weight, acc[i])
		}
		ADDQ(ld, weights)
		INCQ(t)
		CMPQ(t, taps)
		JLT(LabelRef(label))
		for i := range acc {
			VMOVUPS(acc[i], Mem{Base: dst, Disp: 32 * i})
		}
		ADDQ(ld, src)
		ADDQ(ld, dst)
		DECQ(rows)
		JNZ(LabelRef(label + "Next"))
		for _, p := range []Register{x, y, w, done} {
			ADDQ(U32(uint32(32*vectors)), p)
		}
	}
	SUBQ(Imm(32), n)
	JL(LabelRef("rest"))
	Label("wide")
	block("wideTap", 4)
	SUBQ(Imm(32), n)
	JGE(LabelRef("wide"))
	Label("rest")
	ADDQ(Imm(32), n)
	JZ(LabelRef("done"))
	Label("narrow")
	block("narrowTap", 1)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("narrow"))
	Label("done")
	VZEROUPPER()
	RET()
}

// partAVX2 generates the separation of numbers at even and at odd positions.
func partAVX2() {
	TEXT("partAVX2", NOSPLIT, "func(n int, even, odd, x *float32)")
	Pragma("noescape")
	describe("partAVX2 sets even[i] = x[2i] and odd[i] = x[2i+1] for i < n, n a positive multiple of 8.")
	n, even, odd, x := Load(Param("n"), GP64()), Load(Param("even"), GP64()), Load(Param("odd"), GP64()),
		Load(Param("x"), GP64())
	a, b, v := YMM(), YMM(), YMM()
	Label("next")
	VMOVUPS(Mem{Base: x}, a)
	VMOVUPS(Mem{Base: x, Disp: 32}, b)
	for i, to := range []Register{even, odd} {
		VSHUFPS(Imm([]uint64{0x88, 0xdd}[i]), b, a, v) // a0 a2 b0 b2, a4 a6 b4 b6
		VPERMPD(Imm(0xd8), v, v)
		VMOVUPS(v, Mem{Base: to})
		ADDQ(Imm(32), to)
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// weaveAVX2 generates the inverse of partAVX2.
func weaveAVX2() {
	TEXT("weaveAVX2", NOSPLIT, "func(n int, y, even, odd *float32)")
	Pragma("noescape")
	describe("weaveAVX2 sets y[2i] = even[i] and y[2i+1] = odd[i] for i < n, n a positive multiple of 8.")
	n, y, even, odd := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("even"), GP64()),
		Load(Param("odd"), GP64())
	a, b, lo, hi, v := YMM(), YMM(), YMM(), YMM(), YMM()
	Label("next")
	VMOVUPS(Mem{Base: even}, a)
	VMOVUPS(Mem{Base: odd}, b)
	VUNPCKLPS(b, a, lo) // a0 b0 a1 b1, a4 b4 a5 b5
	VUNPCKHPS(b, a, hi) // a2 b2 a3 b3, a6 b6 a7 b7
	VPERM2F128(Imm(0x20), hi, lo, v)
	VMOVUPS(v, Mem{Base: y})
	VPERM2F128(Imm(0x31), hi, lo, v)
	VMOVUPS(v, Mem{Base: y, Disp: 32})
	ADDQ(Imm(32), even)
	ADDQ(Imm(32), odd)
	ADDQ(Imm(64), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}
