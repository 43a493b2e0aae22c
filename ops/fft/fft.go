// Package fft computes discrete Fourier transforms of any length in double precision, in O(n log n).
//
// It imports the standard library only. Long work calls a function of its caller in between, which may panic to end it.
// A plan is immutable and may be used by many goroutines at once. Equal inputs give equal bits.
//
// Lengths with small prime factors use a mixed-radix Stockham algorithm, which needs no reordering. All others become a
// convolution whose length has small factors (Bluestein). Each twiddle factor is computed in double precision, not by a
// recurrence, so errors grow with log n only.
package fft

import (
	"math"
	"sync"
)

// largestRadix is the largest prime factor that is transformed directly. The cost of its butterfly is quadratic.
const largestRadix = 13

// Step is a function that is told how many operations follow, a few thousand at most. It may panic to end the
// transform, whose result is then of no use. nil: none is called.
type Step func(operations int)

func (f Step) count(operations int) {
	if f != nil {
		f(operations)
	}
}

// each counts one of a loop's steps.
func (f Step) each(i int) {
	if i%part == 0 {
		f.count(part)
	}
}

// Plan holds the tables for transforms of one length.
type Plan struct {
	n      int
	stages []stage
	chirp  *bluestein
	// half transforms real input of even length as complex input of half the length, with the twiddles unpack.
	half   *Plan
	unpack []complex128
	work   sync.Pool
}

// stage is one pass of the Stockham algorithm: m butterflies of the radix, over s interleaved transforms.
type stage struct {
	radix, m, s int
	twiddle     []complex128 // (m, radix-1): w^r for butterfly j, r = 1 …
	roots       []complex128 // (radix): for radices without a special butterfly
}

// New returns a plan for length n. A length below 1 counts as 1.
func New(n int, step Step) *Plan {
	n = max(n, 1)
	p := newComplex(n, step)
	if n%2 == 0 {
		p.half = newComplex(n/2, step)
		p.unpack = make([]complex128, n/4+1)
		for k := range p.unpack {
			step.each(k)
			p.unpack[k] = root(k, n)
		}
	}
	return p
}

// Bytes bounds the memory of a plan for length n and of a transform by it.
func Bytes(n int) int64 {
	if _, ok := factor(n); ok {
		return 80 * int64(n)
	}
	return 400 * int64(n) // the convolution has up to four times the length
}

func newComplex(n int, step Step) *Plan {
	p := &Plan{n: n}
	p.work.New = func() any { b := make([]complex128, n); return &b }
	radices, ok := factor(n)
	if !ok {
		p.chirp = newBluestein(n, step)
		return p
	}
	left, s := n, 1
	for _, r := range radices {
		st := stage{radix: r, m: left / r, s: s}
		st.twiddle = make([]complex128, 0, st.m*(r-1))
		for j := range st.m {
			step.each(j)
			for k := 1; k < r; k++ {
				st.twiddle = append(st.twiddle, root(j*k%left, left))
			}
		}
		if r > 5 {
			for k := range r {
				st.roots = append(st.roots, root(k, r))
			}
		}
		p.stages = append(p.stages, st)
		left, s = left/r, s*r
	}
	return p
}

// factor writes n as a product of small radices. It returns false if a prime factor is larger.
func factor(n int) (radices []int, ok bool) {
	for _, r := range []int{4, 2, 3, 5, 7, 11, largestRadix} {
		for n%r == 0 {
			radices = append(radices, r)
			n /= r
		}
	}
	return radices, n == 1
}

// root returns exp(-2πi k/n) for 0 ≤ k < n. It reduces the angle to an eighth of a turn, so that symmetric roots are
// symmetric bit by bit.
func root(k, n int) complex128 {
	switch {
	case 2*k > n: // lower half of the circle
		w := root(n-k, n)
		return complex(real(w), -imag(w))
	case 4*k > n: // second quadrant
		w := rootQuadrant(n-2*k, 2*n)
		return complex(-real(w), imag(w))
	}
	return rootQuadrant(k, n)
}

// rootQuadrant is root for 4k ≤ n.
func rootQuadrant(k, n int) complex128 {
	if 8*k > n {
		// exp(-iφ) = -i·conj(exp(-i(π/2-φ))), with π/2-φ = 2π(n-4k)/(4n).
		sin, cos := math.Sincos(math.Pi / 2 * (float64(n-4*k) / float64(n)))
		return complex(sin, -cos)
	}
	sin, cos := math.Sincos(2 * math.Pi * (float64(k) / float64(n)))
	return complex(cos, -sin)
}

// Len returns the length that the plan is for.
func (p *Plan) Len() int { return p.n }

// Forward replaces x, which has the plan's length, by X[k] = Σ x[j] exp(-2πi jk/n).
func (p *Plan) Forward(x []complex128, step Step) {
	x = x[:p.n]
	if p.chirp != nil {
		p.chirp.transform(x, step)
		return
	}
	buf := p.work.Get().(*[]complex128)
	defer p.work.Put(buf)
	src, dst := x, *buf
	for i := range p.stages {
		p.stages[i].run(dst, src, step)
		src, dst = dst, src
	}
	if len(p.stages)%2 == 1 {
		for lo := 0; lo < p.n; lo += part {
			step.each(lo)
			copy(x[lo:min(lo+part, p.n)], src[lo:])
		}
	}
}

// Inverse replaces x by x[j] = 1/n Σ X[k] exp(2πi jk/n).
func (p *Plan) Inverse(x []complex128, step Step) {
	x = x[:p.n]
	for i, v := range x {
		step.each(i)
		x[i] = complex(real(v), -imag(v))
	}
	p.Forward(x, step)
	scale := 1 / float64(p.n)
	for i, v := range x {
		step.each(i)
		x[i] = complex(real(v)*scale, -imag(v)*scale)
	}
}

// Real writes the first n/2+1 terms of the transform of x, n real numbers, to dst. The others are their conjugates.
func (p *Plan) Real(dst []complex128, x []float64, step Step) {
	x, dst = x[:p.n], dst[:p.n/2+1]
	if p.half == nil {
		z := make([]complex128, p.n)
		for i, v := range x {
			step.each(i)
			z[i] = complex(v, 0)
		}
		p.Forward(z, step)
		copy(dst, z)
		return
	}
	h := p.n / 2
	z := dst[:h]
	for i := range z {
		step.each(i)
		z[i] = complex(x[2*i], x[2*i+1])
	}
	p.half.Forward(z, step)
	// With E and O the transforms of even and odd elements, Z = E + iO and X[k] = E[k] + w^k O[k].
	z0 := z[0]
	dst[h] = complex(real(z0)-imag(z0), 0)
	dst[0] = complex(real(z0)+imag(z0), 0)
	for k := 1; k <= h/2; k++ {
		step.each(k)
		a, b := dst[k], dst[h-k]
		even := complex(real(a)+real(b), imag(a)-imag(b)) / 2
		odd := complex(imag(a)+imag(b), real(b)-real(a)) / 2
		t := p.unpack[k] * odd
		dst[k] = even + t
		u := even - t
		dst[h-k] = complex(real(u), -imag(u))
	}
}

// InverseReal writes to dst the n real numbers whose transform starts with the n/2+1 terms of x. It ignores the
// imaginary parts of term 0 and, if n is even, of term n/2. It overwrites x.
func (p *Plan) InverseReal(dst []float64, x []complex128, step Step) {
	dst, x = dst[:p.n], x[:p.n/2+1]
	if p.half == nil {
		z := make([]complex128, p.n)
		z[0] = complex(real(x[0]), 0)
		for k := 1; k < len(x); k++ {
			step.each(k)
			z[k], z[p.n-k] = x[k], complex(real(x[k]), -imag(x[k]))
		}
		p.Inverse(z, step)
		for i, v := range z {
			step.each(i)
			dst[i] = real(v)
		}
		return
	}
	h := p.n / 2
	a0, ah := real(x[0]), real(x[h])
	for k := 1; k <= h/2; k++ {
		step.each(k)
		a, b := x[k], complex(real(x[h-k]), -imag(x[h-k]))
		even, t := (a+b)/2, (a-b)/2
		w := p.unpack[k]
		odd := t * complex(real(w), -imag(w))
		x[k] = even + complex(-imag(odd), real(odd))
		u := even - complex(-imag(odd), real(odd))
		x[h-k] = complex(real(u), -imag(u))
	}
	x[0] = complex((a0+ah)/2, (a0-ah)/2)
	p.half.Inverse(x[:h], step)
	for i, v := range x[:h] {
		step.each(i)
		dst[2*i], dst[2*i+1] = real(v), imag(v)
	}
}
