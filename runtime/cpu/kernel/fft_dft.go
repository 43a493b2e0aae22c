package kernel

import (
	"sync"
	"sync/atomic"
)

// DFT computes transforms X[k] = Σ x[j] exp(-2πi jk/n) of n numbers, complex or real, and their inverses with the factor 1/n.
// Complex numbers are pairs of a real and an imaginary part. Factors are computed in float64, so errors are those of
// float32 additions, about 1e-7·√log n of the root mean square. A DFT computes only once Prepare has made its tables, and is
// immutable from then on.
type DFT struct {
	n    int
	real bool
	t    *transform // of n numbers; of n/2 where half
	half bool       // pairs of real numbers are transformed as complex ones
	// What stands between the two: ∓i·exp(∓iπk/t.n) for k up to t.n/2, forward and inverse.
	forward, inverse parts

	mu    sync.Mutex // while tables are made
	ready atomic.Bool
}

// NewDFT makes a plan for n ≥ 1 numbers. With real, the transform is between n real numbers and the first n/2+1 terms, which the
// others are conjugates of.
func NewDFT(n int, real bool) *DFT {
	d := &DFT{n: n, real: real, half: real && n%2 == 0}
	if d.t = newTransform(n); d.half {
		d.t = newTransform(n / 2)
	}
	return d
}

// Bytes is the memory of the tables, and of what Prepare needs to make them.
func (d *DFT) Bytes() int64 {
	n := d.t.bytes()
	if d.half {
		n += splitBytes(d.t.n)
	}
	return n
}

// Prepare makes the tables, unless they are there; false when it was stopped. Several goroutines may call it.
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
		d.forward, d.inverse = splitFactors(d.t.n)
	}
	d.ready.Store(true)
	return true
}

func splitBytes(n int) int64 { return 3 * 4 * int64(n/2+8) }

func splitFactors(n int) (forward, inverse parts) {
	size := n/2 + 8 // whole vectors
	forward, inverse.im = parts{make([]float32, size), make([]float32, size)}, make([]float32, size)
	for k := range size {
		w := turned(unit(k, 2*n))
		forward.re[k], forward.im[k], inverse.im[k] = real(w), imag(w), -imag(w)
	}
	inverse.re = forward.re
	return forward, inverse
}

// Len is the length that the plan is for.
func (d *DFT) Len() int { return d.n }

// Rows is lines of numbers to transform, one after the other in memory: pairs where they are complex.
type Rows struct {
	Dst, Src             []float32
	DstStride, SrcStride int // numbers of float32 from a row to the next
	Count                int // how many rows
	// Terms of a row that are written, at most n, and those that there are; the others are 0.
	Terms, Have int
	Stop        Stop
}

// Group is how many rows are best transformed at once, or a multiple of it.
func (d *DFT) Group() int {
	if d.side() {
		return lanes
	}
	return 1
}

// side reports whether eight rows go side by side: where a single one does not find whole vectors, or is short, and eight fit
// into the cache.
func (d *DFT) side() bool {
	const cached = 1 << 13
	if d.t.chirp != nil || d.t.n > cached {
		return false
	}
	first := d.t.passes
	return len(first) == 0 || !first[0].byEight() || d.t.n <= sideBelow
}

// sideBelow is the length below which eight transforms side by side are faster than one after the other.
const sideBelow = 128

// Scratch is the numbers of scratch that Forward and Inverse need.
func (d *DFT) Scratch() int {
	n := d.t.room() + 1
	if d.side() {
		n *= lanes
	}
	return scratch(n)
}

// Forward transforms rows: real numbers, where the plan is for those, or complex ones, into complex ones.
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
			d.spread(x, count)
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
			d.store(dst, x, r, count, min(r.Terms, d.n/2+1), 1)
		default:
			d.load(x, src, r, count, have)
			x, _ = d.t.run(x, y, count, r.Stop)
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

// Inverse undoes Forward. The imaginary parts of terms that are real do not count where the plan is for real numbers.
func (d *DFT) Inverse(r *Rows, tmp []float32) {
	d.rows(r, func(dst, src []float32, count int) {
		x, y := planes(tmp, (d.t.room()+1)*count)
		scale := 1 / float32(d.n)
		if !d.real {
			d.load(x, src, r, count, r.Have)
			x, _ = d.t.run(parts{x.im, x.re}, parts{y.im, y.re}, count, r.Stop)
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
		x = parts{x.im, x.re}
		d.store(dst, x, r, count, r.Terms/2, 1/float32(n))
		if r.Terms%2 != 0 {
			for i := range count {
				dst[i*r.DstStride+r.Terms-1] = x.re[r.Terms/2*count+i] / float32(n)
			}
		}
	})
}

// rows calls f for rows, some at a time.
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

// load takes have numbers of count rows apart; what is missing up to the transform's length is 0.
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

// spread makes the spectrum of pairs that of the real numbers, with one more term.
func (d *DFT) spread(z parts, count int) {
	n := d.t.n
	for i := range count {
		a, b := z.re[i], z.im[i]
		z.re[n*count+i], z.im[n*count+i] = a-b, 0
		z.re[i], z.im[i] = a+b, 0
	}
	combine(z, d.forward, n, count)
}

// combine sets, of each two numbers k and n-k with half their sum e and half their difference d, the second conjugated before
// and after, to e+du and e-du.
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
