package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pair is a vector of complex numbers: a vector of real parts and one of imaginary parts.
type pair struct{ re, im VecVirtual }

func newPair() pair { return pair{target.vector(), target.vector()} }

func loaded(re, im Mem) pair {
	p := newPair()
	VMOVUPS(re, p.re)
	VMOVUPS(im, p.im)
	return p
}

func (a pair) plus(b pair) pair {
	p := newPair()
	VADDPS(b.re, a.re, p.re)
	VADDPS(b.im, a.im, p.im)
	return p
}

func (a pair) minus(b pair) pair {
	p := newPair()
	VSUBPS(b.re, a.re, p.re)
	VSUBPS(b.im, a.im, p.im)
	return p
}

// turned returns a - i·b and a + i·b.
func (a pair) turned(b pair) (plus, minus pair) {
	plus, minus = newPair(), newPair()
	VADDPS(b.im, a.re, plus.re)
	VSUBPS(b.im, a.re, minus.re)
	VSUBPS(b.re, a.im, plus.im)
	VADDPS(b.re, a.im, minus.im)
	return plus, minus
}

// times returns a·w. It overwrites w.
func (a pair) times(w pair) pair {
	re := target.vector()
	VMULPS(w.re, a.re, re)
	VFNMADD231PS(w.im, a.im, re)
	VMULPS(w.im, a.re, w.im)
	VFMADD231PS(w.re, a.im, w.im)
	return pair{re, w.im}
}

func (a pair) store(re, im Mem) {
	VMOVUPS(a.re, re)
	VMOVUPS(a.im, im)
}

// four returns the transform of four pairs.
func four(x [4]pair) [4]pair {
	a, b := x[0].plus(x[2]), x[0].minus(x[2])
	c, d := x[1].plus(x[3]), x[1].minus(x[3])
	y1, y3 := b.turned(d)
	return [4]pair{a.plus(c), y1, a.minus(c), y3}
}

// butterfly computes the transform of r pairs, and stores the results in any order. It loads numbers where they are
// used, some of them twice, so that radix 8 fits sixteen registers.
func butterfly(r int, load func(k int) pair, store func(k int, p pair)) {
	switch r {
	case 2:
		a, b := load(0), load(1)
		store(0, a.plus(b))
		store(1, a.minus(b))
	case 4:
		for k, p := range four([4]pair{load(0), load(1), load(2), load(3)}) {
			store(k, p)
		}
	case 8:
		var x [4]pair
		for k := range x {
			x[k] = load(k).plus(load(k + 4))
		}
		for k, p := range four(x) {
			store(2*k, p)
		}
		for k := range x {
			x[k] = load(k).minus(load(k + 4))
		}
		// The odd half is a transform of x0, e·x1, -i·x2, e³·x3, where e is the eighth root of unity: √2·e = 1-i and
		// √2·e³ = -1-i.
		b, a := x[0].turned(x[2])
		p, q := newPair(), newPair()
		VADDPS(x[1].im, x[1].re, p.re)
		VSUBPS(x[1].re, x[1].im, p.im)
		VSUBPS(x[3].re, x[3].im, q.re)
		VADDPS(x[3].re, x[3].im, q.im) // its negative
		sum, diff := newPair(), newPair()
		VADDPS(q.re, p.re, sum.re)
		VSUBPS(q.im, p.im, sum.im)
		VSUBPS(q.re, p.re, diff.re)
		VADDPS(q.im, p.im, diff.im)
		half := splat(math.Sqrt2 / 2)
		for _, v := range []VecVirtual{sum.re, sum.im, diff.re, diff.im} {
			VMULPS(half, v, v)
		}
		y1, y5 := b.plus(sum), b.minus(sum)
		store(1, y1)
		store(5, y5)
		y3, y7 := a.turned(diff)
		store(3, y3)
		store(7, y7)
	default:
		odd(r, load, store)
	}
}

// odd computes the transform of an odd number of pairs: with a = x[k]+x[r-k] and b = x[k]-x[r-k], outputs j and r-j are
// x[0] + Σ cos·a ∓ i·Σ sin·b.
func odd(r int, load func(k int) pair, store func(k int, p pair)) {
	h := r / 2
	inStack := r > 5
	if target.masks() {
		inStack = r > 11 // there are more registers
	}
	var frame Mem
	if inStack {
		frame = AllocLocal(4 * target.size * h)
	}
	a, b := make([]pair, h+1), make([]pair, h+1)
	zero := load(0)
	for k := 1; k <= h; k++ {
		x, y := load(k), load(r-k)
		a[k], b[k] = x.plus(y), x.minus(y)
		VADDPS(a[k].re, zero.re, zero.re)
		VADDPS(a[k].im, zero.im, zero.im)
		if inStack {
			at := frame.Offset(4 * target.size * (k - 1))
			a[k].store(at, at.Offset(target.size))
			b[k].store(at.Offset(2*target.size), at.Offset(3*target.size))
		}
	}
	store(0, zero)
	for j := 1; j <= h; j++ {
		t, u := load(0), newPair()
		for k := 1; k <= h; k++ {
			angle := 2 * math.Pi * float64(j*k%r) / float64(r)
			cos, sin := splat(float32(math.Cos(angle))), splat(float32(math.Sin(angle)))
			operands := [4]Op{a[k].re, a[k].im, b[k].re, b[k].im}
			if inStack {
				for i := range operands {
					operands[i] = frame.Offset(target.size * (4*(k-1) + i))
				}
			}
			VFMADD231PS(operands[0], cos, t.re)
			VFMADD231PS(operands[1], cos, t.im)
			if k == 1 {
				VMULPS(operands[2], sin, u.re)
				VMULPS(operands[3], sin, u.im)
			} else {
				VFMADD231PS(operands[2], sin, u.re)
				VFMADD231PS(operands[3], sin, u.im)
			}
		}
		y, z := t.turned(u)
		store(j, y)
		store(r-j, z)
	}
}

// rowsAt returns a function that returns the position of row k of n. Rows lie stride bytes apart; stride3 is three
// times stride.
func rowsAt(base, stride, stride3 Register, n int) func(k int) Mem {
	bases := []Register{base}
	for k := 4; k < n; k += 4 {
		next := GP64()
		LEAQ(Mem{Base: bases[len(bases)-1], Index: stride, Scale: 4}, next)
		bases = append(bases, next)
	}
	return func(k int) Mem {
		m := Mem{Base: bases[k/4]}
		switch k % 4 {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(k%4)
		case 3:
			m.Index, m.Scale = stride3, 1
		}
		return m
	}
}

func tripled(x Register) Register {
	y := GP64()
	LEAQ(Mem{Base: x, Index: x, Scale: 2}, y)
	return y
}

// fftPass generates a pass of radix r over interleaved transforms, at least as many as a vector has lanes. If they are
// no multiple of the lanes, the last vector overlaps the one before it.
func fftPass(r int) {
	name := fmt.Sprintf("fftPass%d%s", r, target.name)
	flags := NOSPLIT
	if r > 8 {
		flags = 0 // the frame is too large for NOSPLIT
	}
	TEXT(name, flags, "func(dre, dim, sre, sim *float32, m, s int, w *float32)")
	Pragma("noescape")
	describe(fmt.Sprintf("%s computes a pass of radix %d, from sre and sim to dre and dim, over m ≥ 1 butterflies "+
		"of s ≥ %d interleaved transforms; w holds %d complex factors for each "+
		"butterfly.", name, r, target.size/4, r-1))
	dr, di := Load(Param("dre"), GP64()), Load(Param("dim"), GP64())
	sr, si := Load(Param("sre"), GP64()), Load(Param("sim"), GP64())
	m, w := Load(Param("m"), GP64()), Load(Param("w"), GP64())
	ss := Load(Param("s"), GP64()) // bytes between rows of the result
	SHLQ(Imm(2), ss)
	sm := GP64() // bytes between rows of the source
	MOVQ(ss, sm)
	IMULQ(m, sm)
	var sm3, ss3 Register
	if r > 3 {
		sm3, ss3 = tripled(sm), tripled(ss)
	}
	Label("butterfly")
	left := GP64()
	MOVQ(ss, left)
	Label("vector")
	var src, dst [2]func(int) Mem
	if r <= 8 {
		for i, base := range []Register{sr, si} {
			src[i] = rowsAt(base, sm, sm3, r)
		}
	}
	load := func(k int) pair {
		if r <= 8 {
			return loaded(src[0](k), src[1](k))
		}
		p := newPair()
		for i, base := range []Register{sr, si} {
			at := GP64()
			IMUL3Q(U32(uint32(k)), sm, at)
			VMOVUPS(Mem{Base: base, Index: at, Scale: 1}, []VecVirtual{p.re, p.im}[i])
		}
		return p
	}
	butterfly(r, load, func(k int, p pair) {
		if k > 0 {
			f := newPair()
			VBROADCASTSS(Mem{Base: w, Disp: 8 * (k - 1)}, f.re)
			VBROADCASTSS(Mem{Base: w, Disp: 8*(k-1) + 4}, f.im)
			p = p.times(f)
		}
		if r <= 8 {
			if dst[0] == nil {
				for i, base := range []Register{dr, di} {
					dst[i] = rowsAt(base, ss, ss3, r)
				}
			}
			p.store(dst[0](k), dst[1](k))
			return
		}
		at := GP64()
		IMUL3Q(U32(uint32(k)), ss, at)
		p.store(Mem{Base: dr, Index: at, Scale: 1}, Mem{Base: di, Index: at, Scale: 1})
	})
	step := func(by Op) {
		for _, p := range []Register{sr, si, dr, di} {
			ADDQ(by, p)
		}
	}
	vector := Imm(uint64(target.size))
	step(vector)
	SUBQ(vector, left)
	JZ(LabelRef("done"))
	CMPQ(left, vector)
	JGE(LabelRef("vector"))
	SUBQ(vector, left)
	step(left)
	MOVQ(U32(uint32(target.size)), left)
	JMP(LabelRef("vector"))
	Label("done")
	skip := GP64()
	IMUL3Q(U32(uint32(r-1)), ss, skip)
	ADDQ(skip, dr)
	ADDQ(skip, di)
	ADDQ(U32(uint32(8*(r-1))), w)
	DECQ(m)
	JNZ(LabelRef("butterfly"))
	VZEROUPPER()
	RET()
}

// transposed transposes eight rows into eight columns. row and column return the positions of rows and of columns.
func transposed(row, column func(i int) Mem) {
	for half := range 2 {
		var r, t [4]VecVirtual
		for i := range r {
			low := XMM()
			VMOVUPS(row(i).Offset(16*half), low)
			r[i] = YMM()
			VINSERTF128(Imm(1), row(i+4).Offset(16*half), low.AsY(), r[i])
		}
		for i := range t {
			t[i] = YMM()
		}
		VUNPCKLPS(r[1], r[0], t[0])
		VUNPCKHPS(r[1], r[0], t[1])
		VUNPCKLPS(r[3], r[2], t[2])
		VUNPCKHPS(r[3], r[2], t[3])
		for i := range 4 {
			out := YMM()
			VSHUFPS(Imm([]uint64{0x44, 0xee}[i%2]), t[i/2+2], t[i/2], out)
			VMOVUPS(out, column(4*half+i))
		}
	}
}

// fftFirstAVX2 generates the first pass of a transform, of radix 8. Vectors hold eight butterflies, which are
// transposed at the end, so that later passes have eight interleaved transforms.
func fftFirstAVX2() {
	TEXT("fftFirst8AVX2", NOSPLIT, "func(dre, dim, sre, sim *float32, m int, w *float32)")
	Pragma("noescape")
	describe("fftFirst8AVX2 computes the first pass, of radix 8, over m ≥ 8 butterflies. w holds, for each eight " +
		"of them, seven times eight real and eight imaginary parts; the last eight end with the last butterfly.")
	dr, di := Load(Param("dre"), GP64()), Load(Param("dim"), GP64())
	sr, si := Load(Param("sre"), GP64()), Load(Param("sim"), GP64())
	m, w := Load(Param("m"), GP64()), Load(Param("w"), GP64())
	SHLQ(Imm(2), m)
	left := GP64()
	MOVQ(m, left)
	m3 := tripled(m)
	frame := AllocLocal(512)
	Label("vector")
	re, im := rowsAt(sr, m, m3, 8), rowsAt(si, m, m3, 8)
	butterfly(8, func(k int) pair { return loaded(re(k), im(k)) }, func(k int, p pair) {
		if k > 0 {
			at := Mem{Base: w, Disp: 64 * (k - 1)}
			p = p.times(loaded(at, at.Offset(32)))
		}
		p.store(frame.Offset(32*k), frame.Offset(256+32*k))
	})
	for part, base := range []Register{dr, di} {
		transposed(func(i int) Mem { return frame.Offset(256*part + 32*i) },
			func(i int) Mem { return Mem{Base: base, Disp: 32 * i} })
	}
	step := func(src, dst Op) {
		ADDQ(src, sr)
		ADDQ(src, si)
		ADDQ(dst, dr)
		ADDQ(dst, di)
	}
	step(Imm(32), U32(256))
	ADDQ(U32(7*64), w)
	SUBQ(Imm(32), left)
	JZ(LabelRef("done"))
	CMPQ(left, Imm(32))
	JGE(LabelRef("vector"))
	SUBQ(Imm(32), left)
	back := GP64()
	MOVQ(left, back)
	SHLQ(Imm(3), back)
	step(left, back)
	MOVQ(U32(32), left)
	JMP(LabelRef("vector"))
	Label("done")
	VZEROUPPER()
	RET()
}

// fftLanesAVX2 generates copies of eight rows to eight interleaved transforms, or back.
func fftLanesAVX2(name, doc string, in bool) {
	TEXT(name, NOSPLIT, "func(re, im, x *float32, stride, blocks int)")
	Pragma("noescape")
	describe(name + doc)
	re, im := Load(Param("re"), GP64()), Load(Param("im"), GP64())
	x, stride := Load(Param("x"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)
	blocks := Load(Param("blocks"), GP64())
	stride3 := tripled(stride)
	Label("block")
	rows := rowsAt(x, stride, stride3, 8)
	lanes := func(i int) Mem { return Mem{Base: []Register{re, im}[i%2], Disp: 32 * (i / 2)} }
	if in {
		transposed(rows, lanes)
	} else {
		transposed(lanes, rows)
	}
	ADDQ(Imm(32), x)
	ADDQ(U32(128), re)
	ADDQ(U32(128), im)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// reversal returns the permutation that reverses a vector.
func reversal() Mem {
	m := GLOBL("fftReversal", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(uint32(7-i)))
	}
	return m
}

// fftSplitAVX2 generates the step between a complex transform of half the length and a transform of real numbers, in
// both directions.
func fftSplitAVX2(order Mem) {
	TEXT("fftSplitAVX2", NOSPLIT, "func(re, im, mre, mim *float32, blocks int, ur, ui *float32)")
	Pragma("noescape")
	describe("fftSplitAVX2 combines eight numbers from re and im on with the eight from mre and mim on, in reverse " +
		"order, and continues upward and downward. It replaces a and b by e+du and conj(e-du), where e = (a + conj " +
		"b)/2 and d = (a - conj b)/2.")
	re, im := Load(Param("re"), GP64()), Load(Param("im"), GP64())
	mre, mim := Load(Param("mre"), GP64()), Load(Param("mim"), GP64())
	blocks := Load(Param("blocks"), GP64())
	ur, ui := Load(Param("ur"), GP64()), Load(Param("ui"), GP64())
	reverse, half := YMM(), splat(0.5)
	VMOVDQU(order, reverse)
	Label("block")
	a, b := loaded(Mem{Base: re}, Mem{Base: im}), newPair()
	VPERMPS(Mem{Base: mre}, reverse, b.re)
	VPERMPS(Mem{Base: mim}, reverse, b.im)
	e, d := newPair(), newPair()
	VADDPS(b.re, a.re, e.re)
	VSUBPS(b.im, a.im, e.im)
	VSUBPS(b.re, a.re, d.re)
	VADDPS(b.im, a.im, d.im)
	for _, v := range []VecVirtual{e.re, e.im, d.re, d.im} {
		VMULPS(half, v, v)
	}
	o := d.times(loaded(Mem{Base: ur}, Mem{Base: ui}))
	e.plus(o).store(Mem{Base: re}, Mem{Base: im})
	VSUBPS(o.re, e.re, e.re)
	VSUBPS(e.im, o.im, e.im)
	VPERMPS(e.re, reverse, e.re)
	VPERMPS(e.im, reverse, e.im)
	e.store(Mem{Base: mre}, Mem{Base: mim})
	for _, p := range []Register{re, im, ur, ui} {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(32), mre)
	SUBQ(Imm(32), mim)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// fftSplitLanesAVX2 generates the same for eight interleaved transforms.
func fftSplitLanesAVX2() {
	TEXT("fftSplitLanesAVX2", NOSPLIT, "func(re, im, mre, mim *float32, count int, ur, ui *float32)")
	Pragma("noescape")
	describe("fftSplitLanesAVX2 is fftSplitAVX2 for eight interleaved transforms: a vector holds one number of " +
		"each, and they share a factor.")
	re, im := Load(Param("re"), GP64()), Load(Param("im"), GP64())
	mre, mim := Load(Param("mre"), GP64()), Load(Param("mim"), GP64())
	count := Load(Param("count"), GP64())
	ur, ui := Load(Param("ur"), GP64()), Load(Param("ui"), GP64())
	half := splat(0.5)
	Label("number")
	a, b := loaded(Mem{Base: re}, Mem{Base: im}), loaded(Mem{Base: mre}, Mem{Base: mim})
	e, d := newPair(), newPair()
	VADDPS(b.re, a.re, e.re)
	VSUBPS(b.im, a.im, e.im)
	VSUBPS(b.re, a.re, d.re)
	VADDPS(b.im, a.im, d.im)
	for _, v := range []VecVirtual{e.re, e.im, d.re, d.im} {
		VMULPS(half, v, v)
	}
	u := newPair()
	VBROADCASTSS(Mem{Base: ur}, u.re)
	VBROADCASTSS(Mem{Base: ui}, u.im)
	o := d.times(u)
	e.plus(o).store(Mem{Base: re}, Mem{Base: im})
	VSUBPS(o.re, e.re, e.re)
	VSUBPS(e.im, o.im, e.im)
	e.store(Mem{Base: mre}, Mem{Base: mim})
	for _, p := range []Register{re, im} {
		ADDQ(Imm(32), p)
	}
	for _, p := range []Register{ur, ui} {
		ADDQ(Imm(4), p)
	}
	SUBQ(Imm(32), mre)
	SUBQ(Imm(32), mim)
	DECQ(count)
	JNZ(LabelRef("number"))
	VZEROUPPER()
	RET()
}

// fftJoinAVX2 generates a copy of parts to pairs; mirrored, in reverse order and conjugated.
func fftJoinAVX2(order Mem, mirrored bool) {
	name, doc := "fftJoinAVX2", " writes n numbers, n a multiple of 8, times scale to x."
	if mirrored {
		name, doc = "fftMirrorAVX2", " writes conjugates of n numbers, n a multiple of 8, to x, the last first."
	}
	signature := "func(x, re, im *float32, n int, scale float32)"
	if mirrored {
		signature = "func(x, re, im *float32, n int)"
	}
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	describe(name + doc)
	x, re, im := Load(Param("x"), GP64()), Load(Param("re"), GP64()), Load(Param("im"), GP64())
	n := Load(Param("n"), GP64())
	factor, reverse := YMM(), YMM()
	if mirrored {
		VBROADCASTSS(splatMem(float32(math.Copysign(0, -1))), factor)
		VMOVDQU(order, reverse)
		for _, p := range []Register{re, im} {
			LEAQ(Mem{Base: p, Index: n, Scale: 4, Disp: -32}, p)
		}
	} else {
		s := Load(Param("scale"), XMM())
		VBROADCASTSS(s, factor)
	}
	Label("block")
	p := newPair()
	if mirrored {
		VPERMPS(Mem{Base: re}, reverse, p.re)
		VPERMPS(Mem{Base: im}, reverse, p.im)
		VXORPS(factor, p.im, p.im)
	} else {
		VMULPS(Mem{Base: re}, factor, p.re)
		VMULPS(Mem{Base: im}, factor, p.im)
	}
	low, high, first, second := YMM(), YMM(), YMM(), YMM()
	VUNPCKLPS(p.im, p.re, low)
	VUNPCKHPS(p.im, p.re, high)
	VPERM2F128(Imm(0x20), high, low, first)
	VPERM2F128(Imm(0x31), high, low, second)
	VMOVUPS(first, Mem{Base: x})
	VMOVUPS(second, Mem{Base: x, Disp: 32})
	ADDQ(Imm(64), x)
	for _, p := range []Register{re, im} {
		if mirrored {
			SUBQ(Imm(32), p)
		} else {
			ADDQ(Imm(32), p)
		}
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// fftPartAVX2 generates a copy of pairs to parts.
func fftPartAVX2() {
	TEXT("fftPartAVX2", NOSPLIT, "func(re, im, x *float32, n int)")
	Pragma("noescape")
	describe("fftPartAVX2 separates n complex numbers of x, n a multiple of 8, into real and imaginary parts.")
	re, im, x := Load(Param("re"), GP64()), Load(Param("im"), GP64()), Load(Param("x"), GP64())
	n := Load(Param("n"), GP64())
	Label("block")
	a, b := YMM(), YMM()
	VMOVUPS(Mem{Base: x}, a)
	VMOVUPS(Mem{Base: x, Disp: 32}, b)
	p := newPair()
	VSHUFPS(Imm(0x88), b, a, p.re)
	VSHUFPS(Imm(0xdd), b, a, p.im)
	VPERMPD(Imm(0xd8), p.re, p.re)
	VPERMPD(Imm(0xd8), p.im, p.im)
	p.store(Mem{Base: re}, Mem{Base: im})
	ADDQ(Imm(64), x)
	ADDQ(Imm(32), re)
	ADDQ(Imm(32), im)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// fftMulAVX2 generates elementwise products of complex numbers.
func fftMulAVX2(add bool) {
	name, doc := "fftMulAVX2", " computes y = a·b for n numbers, n a multiple of 8; y may be a."
	signature := "func(yre, yim, are, aim, bre, bim *float32, n int)"
	if add {
		name, doc = "fftMulAddAVX2", " computes y += sign·a·b for n numbers, n a multiple of 8."
		signature = "func(yre, yim, are, aim, bre, bim *float32, n int, sign float32)"
	}
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	describe(name + doc)
	var ptr []Register
	for _, p := range []string{"yre", "yim", "are", "aim", "bre", "bim"} {
		ptr = append(ptr, Load(Param(p), GP64()))
	}
	n := Load(Param("n"), GP64())
	sign := YMM()
	if add {
		s := Load(Param("sign"), XMM())
		VBROADCASTSS(s, sign)
	}
	Label("block")
	p := loaded(Mem{Base: ptr[2]}, Mem{Base: ptr[3]}).times(loaded(Mem{Base: ptr[4]}, Mem{Base: ptr[5]}))
	if add {
		VFMADD213PS(Mem{Base: ptr[0]}, sign, p.re)
		VFMADD213PS(Mem{Base: ptr[1]}, sign, p.im)
	}
	p.store(Mem{Base: ptr[0]}, Mem{Base: ptr[1]})
	for _, p := range ptr {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// fftPasses generates the passes of all radices.
func fftPasses() {
	for _, r := range []int{2, 3, 4, 5, 7, 8, 11, 13} {
		fftPass(r)
	}
}

// fft generates the group.
func fft() {
	fftPasses()
	fftFirstAVX2()
	fftLanesAVX2("fftLanesInAVX2", " copies blocks of four complex numbers of eight rows, stride apart, to eight "+
		"interleaved transforms.", true)
	fftLanesAVX2("fftLanesOutAVX2", " is the inverse of fftLanesInAVX2.", false)
	order := reversal()
	fftSplitAVX2(order)
	fftSplitLanesAVX2()
	fftJoinAVX2(order, false)
	fftJoinAVX2(order, true)
	fftPartAVX2()
	fftMulAVX2(false)
	fftMulAVX2(true)
}
