package kernel

import "math"

// transform is a plan for transforms of n complex numbers, with separate real and imaginary parts. It uses Stockham's
// algorithm, which alternates between two buffers and needs no reordering. prepare makes the tables; afterwards the
// plan is immutable.
type transform struct {
	n      int
	passes []fftPass
	chirp  *chirp // for lengths with a prime factor above largestRadix
}

// Stop reports whether a result is no longer wanted. Long work calls it from time to time, and ends early if it returns
// true; the result is then incomplete. nil never stops.
type Stop func() bool

// longFFT is the work, in numbers, between two calls of Stop.
const longFFT = 1 << 15

func (s Stop) after(numbers int) bool { return s != nil && numbers >= longFFT && s() }

// every is called for each step i of a loop that computes factors. It calls s once in 2048 steps.
func (s Stop) every(i int) bool { return i%2048 == 2047 && s != nil && s() }

// fftPass computes m butterflies of a radix over s interleaved transforms. It reads the numbers q + s(j + mk) of the
// source, k below radix, and writes q + s(radix·j + r), r below radix, multiplied by factors.
type fftPass struct {
	radix, m, s int
	w           []float32 // per butterfly: radix-1 complex factors
	eight       []float32 // the same for eight butterflies at once, in a first pass of radix 8; see fftFirst8AVX2
}

// largestRadix is the greatest prime factor with butterflies of its own, whose work grows with its square.
const largestRadix = 13

// lanes is the number of transforms that are computed together, if there are many of one length.
const lanes = 8

// newTransform returns a plan for n ≥ 1, without tables.
func newTransform(n int) *transform {
	t := &transform{n: n}
	radices, ok := factors(n)
	if !ok {
		t.chirp = &chirp{n: n, inner: newTransform(smooth(2*n - 1))}
		return t
	}
	left, s := n, 1
	for _, r := range radices {
		t.passes = append(t.passes, fftPass{radix: r, m: left / r, s: s})
		left, s = left/r, s*r
	}
	return t
}

// bytes returns the size of the tables, with the memory that prepare needs to make them.
func (t *transform) bytes() (n int64) {
	for _, p := range t.passes {
		factors := int64(p.radix-1) * int64(p.m) * 8
		if n += factors; p.byEight() {
			n += factors + 8*7*8
		}
	}
	if c := t.chirp; c != nil {
		n += 8*int64(c.n+c.inner.n) + 3*16*int64(c.inner.n) + c.inner.bytes()
	}
	return n
}

// prepare makes the tables. It returns false if it was stopped.
func (t *transform) prepare(stop Stop) bool {
	if t.chirp != nil {
		return t.chirp.prepare(stop)
	}
	for i := range t.passes {
		p := &t.passes[i]
		p.w = make([]float32, 0, 2*(p.radix-1)*p.m)
		for j := range p.m {
			if stop.every(j) {
				return false
			}
			for k := 1; k < p.radix; k++ {
				w := unit(j*k%(p.m*p.radix), p.m*p.radix)
				p.w = append(p.w, real(w), imag(w))
			}
		}
		if p.byEight() {
			if p.eight = byEight(p.w, p.m, stop); p.eight == nil {
				return false
			}
		}
	}
	return true
}

// byEight reports whether the pass computes eight butterflies at once.
func (p *fftPass) byEight() bool { return p.s == 1 && p.radix == 8 && p.m >= 8 }

// byEight arranges factors in vectors of eight butterflies. The last vector ends with the last butterfly, and may
// overlap the one before it. The result is nil if it was stopped.
func byEight(w []float32, m int, stop Stop) []float32 {
	v := make([]float32, 0, (m+7)/8*8*14)
	for at := 0; at < m; at += 8 {
		if stop.every(at / 8) {
			return nil
		}
		for k := range 7 {
			for part := range 2 {
				for j := range 8 {
					v = append(v, w[14*(min(at, m-8)+j)+2*k+part])
				}
			}
		}
	}
	return v
}

// factors returns radices with the product n, eights first, so that all later passes have whole vectors. ok is false if
// n has a prime factor above largestRadix.
func factors(n int) (radices []int, ok bool) {
	for n%8 == 0 {
		radices = append(radices, 8)
		n /= 8
	}
	if k := len(radices); k > 1 && n%2 == 0 && n%4 != 0 { // 4·4 instead of 8·2
		radices = append(radices[:k-1], 4, 4)
		n /= 2
	}
	for _, r := range []int{4, 2, 5, 3, 7, 11, largestRadix} {
		for n%r == 0 {
			radices = append(radices, r)
			n /= r
		}
	}
	return radices, n == 1
}

// unit returns exp(-2πi k/n), computed in float64.
func unit(k, n int) complex64 { return complex64(unit64(k, n)) }

func unit64(k, n int) complex128 {
	sin, cos := math.Sincos(-2 * math.Pi * float64(k) / float64(n))
	return complex(cos, sin)
}

// parts are complex numbers as two slices.
type parts struct{ re, im []float32 }

// planes divides scratch into room for two times count complex numbers.
func planes(tmp []float32, count int) (x, y parts) {
	p := planeLen(count)
	cut := func(i int) []float32 { return tmp[i*p : i*p+count : (i+1)*p] }
	return parts{cut(0), cut(1)}, parts{cut(2), cut(3)}
}

// planeLen returns the distance between planes of count numbers. It is a multiple of a cache line but not of the
// size of a way of the cache, so that the rows of a butterfly do not evict each other from the cache.
func planeLen(count int) int {
	const line, way = 16, 1024
	if count < way {
		return (count + 2*line - 1) / line * line
	}
	return (count+way-1)/way*way + 5*line
}

// scratch returns the size of the scratch that planes divides, for count numbers.
func scratch(count int) int { return 4 * planeLen(count) }

// room returns the number of complex numbers per lane that run works on.
func (t *transform) room() int {
	if t.chirp != nil {
		return t.chirp.inner.n
	}
	return t.n
}

// run transforms x, of t.n numbers for each of the interleaved lanes, and returns the buffer of the result, x or y,
// and the other one. Both have room() numbers per lane. With real and imaginary parts exchanged, before and after,
// it is the inverse, times n.
func (t *transform) run(x, y parts, lanes int, stop Stop) (result, other parts) {
	if t.chirp != nil {
		return t.chirp.run(x, y, lanes, stop)
	}
	for i := range t.passes {
		if !stop.after(t.n * lanes) {
			t.passes[i].run(y, x, lanes, stop)
		}
		x, y = y, x
	}
	return x, y
}

// run computes a pass. It may end early if it was stopped.
func (p *fftPass) run(dst, src parts, lanes int, stop Stop) {
	s, n := p.s*lanes, p.radix*p.m*p.s*lanes
	dst, src = parts{dst.re[:n], dst.im[:n]}, parts{src.re[:n], src.im[:n]}
	if fftPassWide(p, dst, src, s) {
		return
	}
	r := p.radix
	var x [largestRadix + 3]complex64
	for j := range p.m {
		w := p.w[2*(r-1)*j : 2*(r-1)*(j+1)]
		for q := range s {
			if stop.every(j*s + q) {
				return
			}
			at := q + s*j
			for k := range r {
				x[k] = complex(src.re[at], src.im[at])
				at += s * p.m
			}
			switch r {
			case 2:
				x[0], x[1] = x[0]+x[1], x[0]-x[1]
			case 4:
				x[0], x[1], x[2], x[3] = four(x[0], x[1], x[2], x[3])
			case 8:
				eight(&x)
			default:
				odd(&x, r)
			}
			at = q + s*r*j
			dst.re[at], dst.im[at] = real(x[0]), imag(x[0])
			for k := 1; k < r; k++ {
				at += s
				wr, wi := w[2*k-2], w[2*k-1]
				dst.re[at], dst.im[at] = real(x[k])*wr-imag(x[k])*wi, real(x[k])*wi+imag(x[k])*wr
			}
		}
	}
}

// turned returns -i·z.
func turned(z complex64) complex64 { return complex(imag(z), -real(z)) }

func scaled(z complex64, by float32) complex64 { return complex(real(z)*by, imag(z)*by) }

func four(x0, x1, x2, x3 complex64) (y0, y1, y2, y3 complex64) {
	a, b, c, d := x0+x2, x0-x2, x1+x3, turned(x1-x3)
	return a + c, b + d, a - c, b - d
}

func eight(x *[largestRadix + 3]complex64) {
	const half = math.Sqrt2 / 2
	a0, a1, a2, a3 := four(x[0]+x[4], x[1]+x[5], x[2]+x[6], x[3]+x[7])
	d0, d1, d2, d3 := x[0]-x[4], x[1]-x[5], x[2]-x[6], x[3]-x[7]
	p := complex(real(d1)+imag(d1), imag(d1)-real(d1))
	q := complex(imag(d3)-real(d3), -(real(d3) + imag(d3)))
	b0, b1, b2, b3 := four(d0, scaled(p, half), turned(d2), scaled(q, half))
	x[0], x[2], x[4], x[6] = a0, a1, a2, a3
	x[1], x[3], x[5], x[7] = b0, b1, b2, b3
}

// roots are the cosines and sines of 2πk/r, for radices r that are odd primes.
var roots = func() (t [largestRadix + 1][largestRadix]struct{ cos, sin float32 }) {
	for _, r := range []int{3, 5, 7, 11, 13} {
		for k := range r {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(r))
			t[r][k].cos, t[r][k].sin = float32(cos), float32(sin)
		}
	}
	return t
}()

func odd(x *[largestRadix + 3]complex64, r int) {
	var y [largestRadix + 3]complex64
	y[0] = x[0]
	for k := 1; k <= r/2; k++ {
		x[k], x[r-k] = x[k]+x[r-k], x[k]-x[r-k]
		y[0] += x[k]
	}
	for j := 1; j <= r/2; j++ {
		t, u := x[0], complex64(0)
		for k := 1; k <= r/2; k++ {
			w := &roots[r][j*k%r]
			t += scaled(x[k], w.cos)
			u += scaled(x[r-k], w.sin)
		}
		u = turned(u)
		y[j], y[r-j] = t+u, t-u
	}
	*x = y
}

// chirp computes a transform of any length n as a convolution (Bluestein): with jk = (j² + k² - (k-j)²)/2, X[k] = c[k]
// Σ (x[j] c[j]) conj(c[k-j]), where c[j] = exp(-πi j²/n).
type chirp struct {
	n     int
	inner *transform // of at least 2n-1 numbers
	c     parts      // (n)
	freqs parts      // the transform of conj(c), periodic, divided by inner.n
}

func (c *chirp) prepare(stop Stop) bool {
	if !c.inner.prepare(stop) {
		return false
	}
	m := c.inner.n
	f := make([]complex128, m)
	c.c = parts{make([]float32, 0, c.n), make([]float32, 0, c.n)}
	at := 0 // j² modulo 2n
	for j := range c.n {
		if stop.every(j) {
			return false
		}
		w := unit64(at, 2*c.n)
		at = (at + 2*j + 1) % (2 * c.n)
		c.c.re, c.c.im = append(c.c.re, float32(real(w))), append(c.c.im, float32(imag(w)))
		w = complex(real(w), -imag(w)) / complex(float64(m), 0)
		f[j] = w
		if j > 0 {
			f[m-j] = w
		}
	}
	f = transformed(f, stop)
	c.freqs = parts{make([]float32, m), make([]float32, m)}
	for i, w := range f {
		if stop.every(i) {
			return false
		}
		c.freqs.re[i], c.freqs.im[i] = float32(real(w)), float32(imag(w))
	}
	return f != nil
}

func (c *chirp) run(x, y parts, lanes int, stop Stop) (result, other parts) {
	multiply(x, x, c.c, c.n, lanes)
	clear(x.re[c.n*lanes : c.inner.n*lanes])
	clear(x.im[c.n*lanes : c.inner.n*lanes])
	x, y = c.inner.run(x, y, lanes, stop)
	multiply(x, x, c.freqs, c.inner.n, lanes)
	x, y = c.inner.run(parts{x.im, x.re}, parts{y.im, y.re}, lanes, stop)
	x, y = parts{x.im, x.re}, parts{y.im, y.re}
	multiply(x, x, c.c, c.n, lanes)
	return x, y
}

// multiply computes the products of n numbers of each lane with factors that the lanes share.
func multiply(y, x, w parts, n, lanes int) {
	i := 0
	if lanes == 1 {
		i = mulWideParts(y, x, w, n)
	}
	for ; i < n; i++ {
		wr, wi := w.re[i], w.im[i]
		for k := i * lanes; k < (i+1)*lanes; k++ {
			a, b := x.re[k], x.im[k]
			y.re[k], y.im[k] = a*wr-b*wi, a*wi+b*wr
		}
	}
}

// smooth returns the smallest length ≥ n for which all passes have whole vectors.
func smooth(n int) int {
	best := math.MaxInt
	for _, odd := range []int{1, 3, 5, 9, 15, 25, 27, 45} {
		k := 64 * odd
		for k < n {
			k *= 2
		}
		best = min(best, k)
	}
	return best
}

// transformed returns the transform of x in float64; nil if it was stopped. The length must not have a prime factor
// above largestRadix.
func transformed(x []complex128, stop Stop) []complex128 {
	w := make([]complex128, len(x))
	for k := range w {
		if stop.every(k) {
			return nil
		}
		w[k] = unit64(k, len(x))
	}
	y := make([]complex128, len(x))
	if !decimated(y, x, 1, w, stop) {
		return nil
	}
	return y
}

// decimated sets y to the transform of every step-th number of x. w holds the roots of unity of the whole length. It
// returns false if it was stopped.
func decimated(y, x []complex128, step int, w []complex128, stop Stop) bool {
	n := len(y)
	if n == 1 {
		y[0] = x[0]
		return true
	}
	p := 2
	for n%p != 0 {
		p++
	}
	m := n / p
	for r := range p {
		if !decimated(y[r*m:(r+1)*m], x[r*step:], step*p, w, stop) {
			return false
		}
	}
	if stop.after(n) {
		return false
	}
	var in [largestRadix]complex128
	for k := range m {
		if stop.every(k) {
			return false
		}
		for r := range p {
			in[r] = y[r*m+k] * w[r*k*step]
		}
		for j := range p {
			sum := in[0]
			for r := 1; r < p; r++ {
				sum += in[r] * w[r*j%p*m*step]
			}
			y[j*m+k] = sum
		}
	}
	return true
}
