package kernel

import (
	"sync"
	"sync/atomic"
)

// DFT computes transforms X[k] = Σ x[j] exp(-2πi jk/n) of n numbers, complex or real, and their inverses with the
// factor 1/n. Complex numbers are pairs of a real and an imaginary part. Factors are computed in float64, so errors are
// those of float32 additions, about 1e-7·√log n of the root mean square. A DFT can be used after Prepare has made its
// tables, and is immutable from then on.
type DFT struct {
	n    int
	real bool
	t    *transform // of n numbers; of n/2 if half
	half bool       // pairs of real numbers are transformed as complex ones
	// Factors between the spectrum of pairs and the spectrum of real numbers: ∓i·exp(∓iπk/t.n) for k up to
	// t.n/2.
	forward, inverse parts

	mu    sync.Mutex // while tables are made
	ready atomic.Bool
}

// NewDFT returns a plan for n ≥ 1 numbers. With real, it transforms n real numbers to the first n/2+1 terms; the
// others are conjugates of these.
func NewDFT(n int, real bool) *DFT {
	d := &DFT{n: n, real: real, half: real && n%2 == 0}
	if d.t = newTransform(n); d.half {
		d.t = newTransform(n / 2)
	}
	return d
}

// Bytes returns the size of the tables, with the memory that Prepare needs to make them.
func (d *DFT) Bytes() int64 {
	n := d.t.bytes()
	if d.half {
		n += splitBytes(d.t.n)
	}
	return n
}

// Prepare makes the tables, if they are not made yet. It returns false if it was stopped. Several goroutines may call
// it at the same time.
func (d *DFT) Prepare(stop Stop) bool {
	if d.ready.Load() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ready.Load() {
		return true
	}
	if !d.t.prepare(stop) {
		return false
	}
	if d.half {
		var ok bool
		if d.forward, d.inverse, ok = splitFactors(d.t.n, stop); !ok {
			return false
		}
	}
	d.ready.Store(true)
	return true
}

func splitBytes(n int) int64 { return 3 * 4 * int64(n/2+8) }

// splitFactors returns false if it was stopped.
func splitFactors(n int, stop Stop) (forward, inverse parts, ok bool) {
	size := n/2 + 8 // whole vectors
	forward, inverse.im = parts{make([]float32, size), make([]float32, size)}, make([]float32, size)
	for k := range size {
		if stop.every(k) {
			return forward, inverse, false
		}
		w := turned(unit(k, 2*n))
		forward.re[k], forward.im[k], inverse.im[k] = real(w), imag(w), -imag(w)
	}
	inverse.re = forward.re
	return forward, inverse, true
}

// Len returns n, the length of the transform.
func (d *DFT) Len() int { return d.n }

// Rows are rows of numbers to transform: pairs for complex numbers.
type Rows struct {
	Dst, Src             []float32
	DstStride, SrcStride int // distance between rows, in float32
	Count                int // number of rows
	// Terms is the number of results per row that are written, at most n. Have is the number of elements per row of
	// Src; the others are 0.
	Terms, Have int
	Stop        Stop
}

// Group returns the number of rows that are transformed together. Callers should pass multiples of it.
func (d *DFT) Group() int {
	if d.side() {
		return lanes
	}
	return 1
}

// side reports whether eight rows are transformed together: if one row has no whole vectors, or is short, and eight
// rows fit the cache.
func (d *DFT) side() bool {
	const cached = 1 << 13
	if d.t.chirp != nil || d.t.n > cached {
		return false
	}
	first := d.t.passes
	return len(first) == 0 || !first[0].byEight() || d.t.n <= sideBelow
}

// sideBelow is the length up to which eight transforms together are faster than eight single ones.
const sideBelow = 128

// Scratch returns the size of tmp in Forward and Inverse, in float32.
func (d *DFT) Scratch() int {
	n := d.t.room() + 1
	if d.side() {
		n *= lanes
	}
	return scratch(n)
}

// Forward transforms rows of complex numbers, or of real numbers with a plan for those, to complex numbers.
func (d *DFT) Forward(r *Rows, tmp []float32) {
	have := min(r.Have, d.n)
	d.rows(r, func(dst, src []float32, count int) {
		x, y := planes(tmp, (d.t.room()+1)*count)
		switch {
		case d.half:
			d.load(x, src, r, count, have/2)
			if have%2 != 0 { // half a pair
				for i := range count {
					x.re[have/2*count+i] = src[i*r.SrcStride+have-1]
				}
			}
			x, _ = d.t.run(x, y, count, r.Stop)
			if r.Stop.after(count * d.n) {
				return
			}
			d.spread(x, count)
			if r.Stop.after(count * d.n) {
				return
			}
			d.store(dst, x, r, count, min(r.Terms, d.t.n+1), 1)
		case d.real:
			clear(x.im[:d.n*count])
			for i := range count {
				for j, v := range src[i*r.SrcStride:][:have] {
					x.re[j*count+i] = v
				}
			}
			clear(x.re[have*count : d.n*count])
			x, _ = d.t.run(x, y, count, r.Stop)
			if r.Stop.after(count * d.n) {
				return
			}
			d.store(dst, x, r, count, min(r.Terms, d.n/2+1), 1)
		default:
			d.load(x, src, r, count, have)
			x, _ = d.t.run(x, y, count, r.Stop)
			if r.Stop.after(count * d.n) {
				return
			}
			d.store(dst, x, r, count, r.Terms, 1)
			return
		}
		from := d.n/2 + 1
		if from >= r.Terms {
			return
		}
		if count == 1 && r.Terms == d.n {
			from += mirrorWide(dst[2*from:], parts{x.re[1 : d.n-from+1], x.im[1 : d.n-from+1]})
		}
		for i := range count {
			row := dst[i*r.DstStride:][:2*r.Terms]
			for k := from; k < r.Terms; k++ {
				row[2*k], row[2*k+1] = row[2*(d.n-k)], -row[2*(d.n-k)+1]
			}
		}
	})
}

// Inverse is the inverse of Forward. With a plan for real numbers, it ignores the imaginary parts of terms that must be
// real.
func (d *DFT) Inverse(r *Rows, tmp []float32) {
	d.rows(r, func(dst, src []float32, count int) {
		x, y := planes(tmp, (d.t.room()+1)*count)
		scale := 1 / float32(d.n)
		if !d.real {
			d.load(x, src, r, count, r.Have)
			x, _ = d.t.run(parts{x.im, x.re}, parts{y.im, y.re}, count, r.Stop)
			if r.Stop.after(count * d.n) {
				return
			}
			d.store(dst, parts{x.im, x.re}, r, count, r.Terms, scale)
			return
		}
		have := min(r.Have, d.n/2+1)
		if !d.half {
			d.load(x, src, r, count, have)
			clear(x.im[:count])
			for k := 1; k <= d.n/2; k++ {
				for i := range count {
					x.re[(d.n-k)*count+i], x.im[(d.n-k)*count+i] = x.re[k*count+i], -x.im[k*count+i]
				}
			}
			x, _ = d.t.run(parts{x.im, x.re}, parts{y.im, y.re}, count, r.Stop)
			if r.Stop.after(count * d.n) {
				return
			}
			for i := range count {
				for k := range r.Terms {
					dst[i*r.DstStride+k] = x.im[k*count+i] * scale
				}
			}
			return
		}
		n := d.t.n
		d.load(x, src, r, count, have)
		for i := range count {
			a, b := x.re[i], float32(0)
			if have > n {
				b = src[i*r.SrcStride+2*n]
			}
			x.re[i], x.im[i] = (a+b)*0.5, (a-b)*0.5
		}
		combine(x, d.inverse, n, count)
		x, _ = d.t.run(parts{x.im, x.re}, parts{y.im, y.re}, count, r.Stop)
		if r.Stop.after(count * d.n) {
			return
		}
		x = parts{x.im, x.re}
		d.store(dst, x, r, count, r.Terms/2, 1/float32(n))
		if r.Terms%2 != 0 {
			for i := range count {
				dst[i*r.DstStride+r.Terms-1] = x.re[r.Terms/2*count+i] / float32(n)
			}
		}
	})
}

// rows calls f for all rows, one or eight at a time.
func (d *DFT) rows(r *Rows, f func(dst, src []float32, count int)) {
	for at := 0; at < r.Count; {
		count := 1
		if r.Count-at >= lanes && d.side() {
			count = lanes
		}
		f(r.Dst[at*r.DstStride:], r.Src[at*r.SrcStride:], count)
		at += count
		if r.Stop.after(count * d.n) {
			return
		}
	}
}

// load separates have complex numbers of count rows into real and imaginary parts. It fills up the transform's length
// with zeros.
func (d *DFT) load(z parts, src []float32, r *Rows, count, have int) {
	have = min(have, d.t.n)
	done := 0
	if count == lanes {
		done = lanesInWide(z, src, r.SrcStride, have)
	} else {
		done = partWide(z, src, have)
	}
	for i := range count {
		row := src[i*r.SrcStride:]
		for k := done; k < have; k++ {
			z.re[k*count+i], z.im[k*count+i] = row[2*k], row[2*k+1]
		}
	}
	clear(z.re[have*count : d.t.n*count])
	clear(z.im[have*count : d.t.n*count])
}

// store writes n numbers of count rows, times scale.
func (d *DFT) store(dst []float32, z parts, r *Rows, count, n int, scale float32) {
	done := 0
	if count == lanes {
		if scale != 1 {
			for i := range n * count {
				z.re[i], z.im[i] = z.re[i]*scale, z.im[i]*scale
			}
			scale = 1
		}
		done = lanesOutWide(z, dst, r.DstStride, n)
	} else {
		done = joinWide(dst, z, n, scale)
	}
	for i := range count {
		row := dst[i*r.DstStride:]
		for k := done; k < n; k++ {
			row[2*k], row[2*k+1] = z.re[k*count+i]*scale, z.im[k*count+i]*scale
		}
	}
}

// spread turns the spectrum of pairs into the spectrum of the real numbers, which has one more term.
func (d *DFT) spread(z parts, count int) {
	n := d.t.n
	for i := range count {
		a, b := z.re[i], z.im[i]
		z.re[n*count+i], z.im[n*count+i] = a-b, 0
		z.re[i], z.im[i] = a+b, 0
	}
	combine(z, d.forward, n, count)
}

// combine replaces numbers a = z[k] and b = z[n-k] by e + du and conj(e - du), where e = (a + conj b)/2 and d = (a -
// conj b)/2.
func combine(z, u parts, n, count int) {
	done := 0
	switch count {
	case 1:
		done = splitWide(z, u, n)
	case lanes:
		done = splitLanesWide(z, u, n)
	}
	for k := 1 + done; k <= n/2; k++ {
		ur, ui := u.re[k], u.im[k]
		for i := range count {
			at, to := k*count+i, (n-k)*count+i
			ar, ai, br, bi := z.re[at], z.im[at], z.re[to], z.im[to]
			er, ei, dr, di := (ar+br)*0.5, (ai-bi)*0.5, (ar-br)*0.5, (ai+bi)*0.5
			or, oi := dr*ur-di*ui, dr*ui+di*ur
			z.re[at], z.im[at] = er+or, ei+oi
			z.re[to], z.im[to] = er-or, oi-ei
		}
	}
}
