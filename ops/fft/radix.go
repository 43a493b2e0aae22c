package fft

import "math"

// run does one pass from src to dst. For butterfly j and interleaved transform q it combines src[q + s(j + m·k)], k = 0
// … radix-1, and writes dst[q + s(radix·j + r)].
func (st *stage) run(dst, src []complex128, step Step) {
	transforms := min(st.s, part)
	butterflies := part / transforms
	for j := 0; j < st.m; j += butterflies {
		for q := 0; q < st.s; q += transforms {
			b := bounds{j, min(j+butterflies, st.m), q, min(q+transforms, st.s)}
			step.count((b.m1 - b.m0) * (b.s1 - b.s0) * st.radix)
			switch st.radix {
			case 2:
				st.run2(dst, src, b)
			case 3:
				st.run3(dst, src, b)
			case 4:
				st.run4(dst, src, b)
			case 5:
				st.run5(dst, src, b)
			default:
				st.runAny(dst, src, b)
			}
		}
	}
}

// part is the number of butterflies between two calls of a Step.
const part = 1 << 11

// bounds are a part of a pass: butterflies m0 to m1-1 of transforms s0 to s1-1.
type bounds struct{ m0, m1, s0, s1 int }

// timesMinusI returns -i·z.
func timesMinusI(z complex128) complex128 { return complex(imag(z), -real(z)) }

func scaled(z complex128, by float64) complex128 { return complex(real(z)*by, imag(z)*by) }

// row returns the transforms of part b in row i of rows of s.
func row(v []complex128, s, i int, b bounds) []complex128 { return v[s*i+b.s0 : s*i+b.s1] }

func (st *stage) run2(dst, src []complex128, b bounds) {
	s, m := st.s, st.m
	for j := b.m0; j < b.m1; j++ {
		w := st.twiddle[j]
		x0, x1 := row(src, s, j, b), row(src, s, j+m, b)
		y0, y1 := row(dst, s, 2*j, b), row(dst, s, 2*j+1, b)
		for q, a := range x0 {
			b := x1[q]
			y0[q], y1[q] = a+b, (a-b)*w
		}
	}
}

func (st *stage) run3(dst, src []complex128, b bounds) {
	const sin = 0.86602540378443864676372317075293618 // sin(2π/3)
	s, m := st.s, st.m
	for j := b.m0; j < b.m1; j++ {
		w1, w2 := st.twiddle[2*j], st.twiddle[2*j+1]
		x0, x1, x2 := row(src, s, j, b), row(src, s, j+m, b), row(src, s, j+2*m, b)
		y0, y1, y2 := row(dst, s, 3*j, b), row(dst, s, 3*j+1, b), row(dst, s, 3*j+2, b)
		for q, a := range x0 {
			sum, d := x1[q]+x2[q], timesMinusI(scaled(x1[q]-x2[q], sin))
			mid := a - scaled(sum, 0.5)
			y0[q], y1[q], y2[q] = a+sum, (mid+d)*w1, (mid-d)*w2
		}
	}
}

func (st *stage) run4(dst, src []complex128, b bounds) {
	s, m := st.s, st.m
	if s == 1 { // the first pass: with one transform, the loop over butterflies is the inner one
		x0, x1, x2, x3 := src[:m], src[m:2*m], src[2*m:3*m], src[3*m:4*m]
		for j := b.m0; j < b.m1; j++ {
			a := x0[j]
			w := st.twiddle[3*j : 3*j+3 : 3*j+3]
			y := dst[4*j : 4*j+4 : 4*j+4]
			b, c, d := x1[j], x2[j], x3[j]
			ac, bd := a+c, b+d
			am, bm := a-c, timesMinusI(b-d)
			y[0], y[1], y[2], y[3] = ac+bd, (am+bm)*w[0], (ac-bd)*w[1], (am-bm)*w[2]
		}
		return
	}
	for j := b.m0; j < b.m1; j++ {
		w1, w2, w3 := st.twiddle[3*j], st.twiddle[3*j+1], st.twiddle[3*j+2]
		x0, x1, x2, x3 := row(src, s, j, b), row(src, s, j+m, b), row(src, s, j+2*m, b), row(src, s, j+3*m, b)
		y0, y1, y2, y3 := row(dst, s, 4*j, b), row(dst, s, 4*j+1, b), row(dst, s, 4*j+2, b), row(dst, s, 4*j+3, b)
		for q, a := range x0 {
			b, c, d := x1[q], x2[q], x3[q]
			ac, bd := a+c, b+d
			am, bm := a-c, timesMinusI(b-d)
			y0[q], y1[q], y2[q], y3[q] = ac+bd, (am+bm)*w1, (ac-bd)*w2, (am-bm)*w3
		}
	}
}

func (st *stage) run5(dst, src []complex128, b bounds) {
	const (
		cos1 = 0.30901699437494742410229341718281906  // cos(2π/5)
		cos2 = -0.80901699437494742410229341718281906 // cos(4π/5)
		sin1 = 0.95105651629515357211643933337938214  // sin(2π/5)
		sin2 = 0.58778525229247312916870595463907277  // sin(4π/5)
	)
	s, m := st.s, st.m
	for j := b.m0; j < b.m1; j++ {
		w := st.twiddle[4*j : 4*j+4]
		in, out := src[s*j:], dst[s*5*j:]
		for q := b.s0; q < b.s1; q++ {
			a := in[q]
			s1, d1 := in[q+s*m]+in[q+4*s*m], in[q+s*m]-in[q+4*s*m]
			s2, d2 := in[q+2*s*m]+in[q+3*s*m], in[q+2*s*m]-in[q+3*s*m]
			r1, r2 := a+scaled(s1, cos1)+scaled(s2, cos2), a+scaled(s1, cos2)+scaled(s2, cos1)
			i1, i2 := timesMinusI(scaled(d1, sin1)+scaled(d2, sin2)), timesMinusI(scaled(d1, sin2)-scaled(d2, sin1))
			out[q] = a + s1 + s2
			out[q+s], out[q+4*s] = (r1+i1)*w[0], (r1-i1)*w[3]
			out[q+2*s], out[q+3*s] = (r2+i2)*w[1], (r2-i2)*w[2]
		}
	}
}

func (st *stage) runAny(dst, src []complex128, b bounds) {
	s, m, p := st.s, st.m, st.radix
	var in [largestRadix]complex128
	for j := b.m0; j < b.m1; j++ {
		w := st.twiddle[(p-1)*j : (p-1)*(j+1)]
		for q := b.s0; q < b.s1; q++ {
			for k := range p {
				in[k] = src[q+s*(j+m*k)]
			}
			for r := range p {
				sum := in[0]
				at := 0
				for k := 1; k < p; k++ {
					if at += r; at >= p {
						at -= p
					}
					sum += in[k] * st.roots[at]
				}
				if r > 0 {
					sum *= w[r-1]
				}
				dst[q+s*(p*j+r)] = sum
			}
		}
	}
}

// bluestein computes a transform of any length n as a convolution with a chirp: with jk = (j² + k² - (k-j)²)/2,
// X[k] = c[k] Σ (x[j] c[j]) conj(c[k-j]), where c[j] = exp(-πi j²/n).
type bluestein struct {
	n     int
	plan  *Plan
	c     []complex128 // n
	freqs []complex128 // the transform of conj(c), wrapped around, over the plan's length
}

func newBluestein(n int, step Step) *bluestein {
	m := smooth(2*n - 1)
	b := &bluestein{n: n, plan: newComplex(m, step), c: make([]complex128, n), freqs: make([]complex128, m)}
	at := 0 // j² modulo 2n, accumulated from differences so that it cannot overflow
	for j := range n {
		step.each(j)
		b.c[j] = root(at, 2*n)
		at = (at + 2*j + 1) % (2 * n)
	}
	for j, w := range b.c {
		step.each(j)
		v := complex(real(w), -imag(w))
		b.freqs[j] = v
		if j > 0 {
			b.freqs[m-j] = v
		}
	}
	b.plan.Forward(b.freqs, step)
	return b
}

func (b *bluestein) transform(x []complex128, step Step) {
	m := b.plan.n
	z := make([]complex128, m)
	for j, v := range x {
		step.each(j)
		z[j] = v * b.c[j]
	}
	b.plan.Forward(z, step)
	for k, v := range z {
		step.each(k)
		z[k] = v * b.freqs[k]
	}
	b.plan.Inverse(z, step)
	for k := range x {
		step.each(k)
		x[k] = z[k] * b.c[k]
	}
}

// smooth returns the smallest length ≥ n with only the prime factors 2, 3 and 5, with few 3s and 5s.
func smooth(n int) int {
	best := math.MaxInt
	for _, odd := range []int{1, 3, 5, 9, 15} {
		k := odd
		for k < n {
			k *= 2
		}
		best = min(best, k)
	}
	return best
}
