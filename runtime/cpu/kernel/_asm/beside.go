package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The functions of this group transform sequences side by side: a vector holds a number of each. A point is a complex
// number of each sequence, a vector of real parts and one of imaginary parts, which the arguments re and im point to.

// byFactor returns a·w, for a complex factor at m that all sequences share.
func (a pair) byFactor(m Mem) pair {
	w := newPair()
	VBROADCASTSS(m, w.re)
	VBROADCASTSS(m.Offset(4), w.im)
	return a.times(w)
}

// eighths computes the odd outputs of radix 8 from the differences of its inputs k and k+4: a transform of x0, e·x1,
// -i·x2, e³·x3, where e is the eighth root of unity: √2·e = 1-i and √2·e³ = -1-i. store is called for the outputs 1, 3, 5
// and 7 that wanted holds.
func eighths(x [4]pair, wanted func(k int) bool, store func(k int, p pair)) {
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
	// with returns y ± half·x; y is overwritten unless again.
	with := func(y, x VecVirtual, minus, again bool) VecVirtual {
		out := y
		if again {
			out = target.vector()
			VMOVAPS(y, out)
		}
		if minus {
			VFNMADD231PS(half, x, out)
		} else {
			VFMADD231PS(half, x, out)
		}
		return out
	}
	both := wanted(5)
	store(1, pair{with(b.re, sum.re, false, both), with(b.im, sum.im, false, both)})
	if both {
		store(5, pair{with(b.re, sum.re, true, false), with(b.im, sum.im, true, false)})
	}
	both = wanted(7)
	store(3, pair{with(a.re, diff.im, false, both), with(a.im, diff.re, true, both)})
	if both {
		store(7, pair{with(a.re, diff.im, true, false), with(a.im, diff.re, false, false)})
	}
}

// inPlace computes the transform of r points and stores the results where the points were: all are loaded before the
// first is stored. load is called once for each.
func inPlace(r int, frame Mem, load func(k int) pair, store func(k int, p pair)) {
	all := func(int) bool { return true }
	keep := func(k int, p pair) pair { // out of sixteen registers, differences go to the stack
		if !target.masks() {
			p.store(frame.Offset(64*k), frame.Offset(64*k+32))
		}
		return p
	}
	kept := func(k int, p pair) pair {
		if !target.masks() {
			return loaded(frame.Offset(64*k), frame.Offset(64*k+32))
		}
		return p
	}
	switch r {
	case 4:
		for k, p := range four([4]pair{load(0), load(1), load(2), load(3)}) {
			store(k, p)
		}
	case 8:
		var sum, diff [4]pair
		for k := range sum {
			a, b := load(k), load(k+4)
			sum[k], diff[k] = a.plus(b), keep(k, a.minus(b))
		}
		for k, p := range four(sum) {
			store(2*k, p)
		}
		for k := range diff {
			diff[k] = kept(k, diff[k])
		}
		eighths(diff, all, store)
	default:
		first := false
		odd(r, func(k int) pair {
			at := frame.Offset(0)
			if k > 0 {
				return load(k)
			}
			if first {
				return loaded(at, at.Offset(target.size))
			}
			first = true
			p := load(0)
			p.store(at, at.Offset(target.size))
			return p
		}, store)
	}
}

// pointBytes is the size of a point.
func pointBytes() int { return 2 * target.size }

// besidePass generates a pass of radix r in place. Down multiplies the results by factors, as decimation in frequency
// does; up multiplies the inputs, as decimation in time does; flat does not multiply, and its points lie beside each
// other.
func besidePass(r int, kind string) {
	name := fmt.Sprintf("beside%s%d%s", kind, r, target.name)
	flat := kind == "Flat"
	doc := fmt.Sprintf("%s computes count ≥ 1 butterflies of radix %d in place, from the points of re and im on. ", name, r)
	signature := "func(re, im *float32, count int)"
	if flat {
		doc += "The points of a butterfly lie beside each other."
	} else {
		signature = "func(re, im *float32, stride, count int, w *float32)"
		doc += fmt.Sprintf("The points of a butterfly lie stride bytes apart. w holds %d complex factors for each butterfly: of its ",
			r-1) + map[string]string{"Down": "results.", "Up": "inputs."}[kind]
	}
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	describe(doc)
	re, im, count := Load(Param("re"), GP64()), Load(Param("im"), GP64()), Load(Param("count"), GP64())
	reAt := func(k int) Mem { return Mem{Base: re, Disp: pointBytes() * k} }
	imAt := func(k int) Mem { return Mem{Base: im, Disp: pointBytes() * k} }
	var w Register
	if !flat {
		stride := Load(Param("stride"), GP64())
		w = Load(Param("w"), GP64())
		stride3 := tripled(stride)
		var far [2]Register // the fourth points
		if r > 4 {
			for i, base := range []Register{re, im} {
				far[i] = GP64()
				LEAQ(Mem{Base: base, Index: stride, Scale: 4}, far[i])
			}
		}
		at := func(part int, base Register) func(k int) Mem {
			return func(k int) Mem {
				m := Mem{Base: base}
				if k >= 4 {
					m.Base = far[part]
				}
				switch k % 4 {
				case 1, 2:
					m.Index, m.Scale = stride, uint8(k%4)
				case 3:
					m.Index, m.Scale = stride3, 1
				}
				return m
			}
		}
		reAt, imAt = at(0, re), at(1, im)
		defer func() { // after the loop's body
			for _, f := range far {
				if f != nil {
					ADDQ(bytes(pointBytes()), f)
				}
			}
			ADDQ(bytes(8*(r-1)), w)
			besideEnd(count, pointBytes(), re, im)
		}()
	} else {
		defer func() { besideEnd(count, r*pointBytes(), re, im) }()
	}
	var frame Mem
	if r%2 == 1 || r == 8 && !target.masks() {
		frame = AllocLocal(max(2*target.size, 256))
	}
	Label("butterfly")
	factor := func(k int) Mem { return Mem{Base: w, Disp: 8 * (k - 1)} }
	inPlace(r, frame, func(k int) pair {
		p := loaded(reAt(k), imAt(k))
		if kind == "Up" && k > 0 {
			p = p.byFactor(factor(k))
		}
		return p
	}, func(k int, p pair) {
		if kind == "Down" && k > 0 {
			p = p.byFactor(factor(k))
		}
		p.store(reAt(k), imAt(k))
	})
}

// besideEnd advances pointers and ends the loop.
func besideEnd(count Register, by int, ptrs ...Register) {
	for _, p := range ptrs {
		ADDQ(bytes(by), p)
	}
	DECQ(count)
	JNZ(LabelRef("butterfly"))
	VZEROUPPER()
	RET()
}

// besideFirst generates a first pass of radix 8 from rows, of which the second half is zero.
func besideFirst() {
	name := "besideFirst8" + target.name
	TEXT(name, NOSPLIT, "func(re, im *float32, stride, count int, w, sre, sim *float32, apart, step int)")
	Pragma("noescape")
	describe(name + " is besideDown8" + target.name + " with points 0 to 3 of a butterfly from sre and sim, apart bytes " +
		"from each other; the others are zero. The next butterfly is step bytes away there.")
	re, im, count := Load(Param("re"), GP64()), Load(Param("im"), GP64()), Load(Param("count"), GP64())
	stride, w := Load(Param("stride"), GP64()), Load(Param("w"), GP64())
	sre, sim := Load(Param("sre"), GP64()), Load(Param("sim"), GP64())
	apart, step := Load(Param("apart"), GP64()), Load(Param("step"), GP64())
	apart3, stride3 := tripled(apart), tripled(stride)
	Label("butterfly")
	reIn, imIn := rowsAt(sre, apart, apart3, 4), rowsAt(sim, apart, apart3, 4)
	var reAt, imAt func(int) Mem
	store := func(k int, p pair) {
		if reAt == nil {
			reAt, imAt = rowsAt(re, stride, stride3, 8), rowsAt(im, stride, stride3, 8)
		}
		if k > 0 {
			p = p.byFactor(Mem{Base: w, Disp: 8 * (k - 1)})
		}
		p.store(reAt(k), imAt(k))
	}
	load := func() (x [4]pair) {
		for k := range x {
			x[k] = loaded(reIn(k), imIn(k))
		}
		return x
	}
	for k, p := range four(load()) {
		store(2*k, p)
	}
	eighths(load(), func(int) bool { return true }, store)
	ADDQ(U32(8*7), w)
	ADDQ(step, sre)
	ADDQ(step, sim)
	besideEnd(count, pointBytes(), re, im)
}

// besideLast generates a last pass of radix 8 to rows, of which the first half is wanted.
func besideLast() {
	name := "besideLast8" + target.name
	TEXT(name, NOSPLIT, "func(re, im *float32, stride, count int, w, dre, dim *float32, apart, step int)")
	Pragma("noescape")
	describe(name + " is besideUp8" + target.name + " with results 0 to 3 of a butterfly to dre and dim, apart bytes " +
		"from each other; the others are not wanted. The next butterfly is step bytes away there.")
	re, im, count := Load(Param("re"), GP64()), Load(Param("im"), GP64()), Load(Param("count"), GP64())
	stride, w := Load(Param("stride"), GP64()), Load(Param("w"), GP64())
	dre, dim := Load(Param("dre"), GP64()), Load(Param("dim"), GP64())
	apart, step := Load(Param("apart"), GP64()), Load(Param("step"), GP64())
	apart3, stride3 := tripled(apart), tripled(stride)
	var frame Mem
	if !target.masks() {
		frame = AllocLocal(256)
	}
	Label("butterfly")
	reAt, imAt := rowsAt(re, stride, stride3, 8), rowsAt(im, stride, stride3, 8)
	load := func(k int) pair {
		p := loaded(reAt(k), imAt(k))
		if k > 0 {
			p = p.byFactor(Mem{Base: w, Disp: 8 * (k - 1)})
		}
		return p
	}
	var sum, diff [4]pair
	for k := range sum {
		a, b := load(k), load(k+4)
		sum[k], diff[k] = a.plus(b), a.minus(b)
		if !target.masks() {
			diff[k].store(frame.Offset(64*k), frame.Offset(64*k+32))
		}
	}
	var reOut, imOut func(int) Mem
	store := func(k int, p pair) {
		if reOut == nil {
			reOut, imOut = rowsAt(dre, apart, apart3, 4), rowsAt(dim, apart, apart3, 4)
		}
		p.store(reOut(k), imOut(k))
	}
	a, b := sum[0].plus(sum[2]), sum[0].minus(sum[2])
	c, d := sum[1].plus(sum[3]), sum[1].minus(sum[3])
	store(0, a.plus(c))
	two := newPair()
	VADDPS(d.im, b.re, two.re)
	VSUBPS(d.re, b.im, two.im)
	store(2, two)
	if !target.masks() {
		for k := range diff {
			diff[k] = loaded(frame.Offset(64*k), frame.Offset(64*k+32))
		}
	}
	eighths(diff, func(k int) bool { return k < 4 }, store)
	ADDQ(U32(8*7), w)
	ADDQ(step, dre)
	ADDQ(step, dim)
	besideEnd(count, pointBytes(), re, im)
}

// besideProduct generates the product of the spectra of pairs of numbers with those of kernels.
func besideProduct() {
	name := "besideProduct" + target.name
	TEXT(name, NOSPLIT, "func(x *float32, count int, at *int32, u, spec *float32)")
	Pragma("noescape")
	describe(name + " replaces points p and q, at the positions that at holds for each of count ≥ 1 pairs, in points from x " +
		"on, by (e+c)·p + d·conj q and conj((e-c)·conj q - d·p), where c = u·o and d = o - c. u holds a complex factor " +
		"for each pair, and spec the points e and o.")
	x, count := Load(Param("x"), GP64()), Load(Param("count"), GP64())
	at, u, spec := Load(Param("at"), GP64()), Load(Param("u"), GP64()), Load(Param("spec"), GP64())
	Label("butterfly")
	var ptr [2]Register
	for i := range ptr {
		ptr[i] = GP64()
		MOVLQSX(Mem{Base: at, Disp: 4 * i}, ptr[i])
		SHLQ(Imm(map[int]uint64{64: 6, 128: 7}[pointBytes()]), ptr[i])
		ADDQ(x, ptr[i])
	}
	here := func(base Register, k int) Mem { return Mem{Base: base, Disp: target.size * k} }
	o := loaded(here(spec, 2), here(spec, 3))
	d := newPair()
	VMOVAPS(o.re, d.re)
	VMOVAPS(o.im, d.im)
	c := o.byFactor(Mem{Base: u})
	VSUBPS(c.re, d.re, d.re)
	VSUBPS(c.im, d.im, d.im)
	a, b := newPair(), newPair()
	VADDPS(here(spec, 0), c.re, a.re)
	VADDPS(here(spec, 1), c.im, a.im)
	b.re, b.im = target.vector(), target.vector()
	VMOVUPS(here(spec, 0), b.re)
	VMOVUPS(here(spec, 1), b.im)
	VSUBPS(c.re, b.re, b.re)
	VSUBPS(c.im, b.im, b.im)
	p, q := loaded(here(ptr[0], 0), here(ptr[0], 1)), loaded(here(ptr[1], 0), here(ptr[1], 1))
	y, z := newPair(), newPair()
	VMULPS(a.re, p.re, y.re)
	VFNMADD231PS(a.im, p.im, y.re)
	VFMADD231PS(d.re, q.re, y.re)
	VFMADD231PS(d.im, q.im, y.re)
	VMULPS(a.re, p.im, y.im)
	VFMADD231PS(a.im, p.re, y.im)
	VFNMADD231PS(d.re, q.im, y.im)
	VFMADD231PS(d.im, q.re, y.im)
	y.store(here(ptr[0], 0), here(ptr[0], 1))
	VMULPS(b.re, q.re, z.re)
	VFMADD231PS(b.im, q.im, z.re)
	VFNMADD231PS(d.re, p.re, z.re)
	VFMADD231PS(d.im, p.im, z.re)
	VMULPS(b.re, q.im, z.im)
	VFNMADD231PS(b.im, q.re, z.im)
	VFMADD231PS(d.re, p.im, z.im)
	VFMADD231PS(d.im, p.re, z.im)
	z.store(here(ptr[1], 0), here(ptr[1], 1))
	ADDQ(Imm(8), at)
	ADDQ(Imm(8), u)
	besideEnd(count, 2*pointBytes(), spec)
}

// besideRows generates a copy of vectors.
func besideRows() {
	name := "besideRows" + target.name
	TEXT(name, NOSPLIT, "func(dst *float32, to int, src *float32, from, count int)")
	Pragma("noescape")
	describe(name + " copies count ≥ 1 vectors, which lie from bytes apart in src and to bytes apart in dst.")
	dst, to := Load(Param("dst"), GP64()), Load(Param("to"), GP64())
	src, from := Load(Param("src"), GP64()), Load(Param("from"), GP64())
	count := Load(Param("count"), GP64())
	Label("row")
	v := target.vector()
	VMOVUPS(Mem{Base: src}, v)
	VMOVUPS(v, Mem{Base: dst})
	ADDQ(from, src)
	ADDQ(to, dst)
	DECQ(count)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// besides generates the group.
func besides() {
	for _, r := range []int{3, 4, 5, 8} {
		besidePass(r, "Down")
		besidePass(r, "Up")
	}
	besidePass(4, "Flat")
	besidePass(8, "Flat")
	besideFirst()
	besideLast()
	besideProduct()
	besideRows()
}
