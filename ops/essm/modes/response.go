package modes

import (
	"math"
	"math/cmplx"
)

// diagonal is a discrete diagonal system with all that its gains follow from: n states, factors b of the inputs, B (n,
// h) and C (m, n). y = Re(C z).
type diagonal struct {
	lambda []complex128 // continuous, or λΔ
	step   []float64    // 0: unknown
	a, b   []complex128
	in     []complex128 // B; nil: ones of one input
	out    []complex128 // C; nil: unknown
	h, m   int
}

// gridSize is the number of frequencies of a response, and smallest is the lowest one above 0, in cycles per step.
const (
	gridSize = 65
	smallest = 1e-5
)

// grid returns 0 and frequencies up to 0.5, evenly spaced in their logarithms.
func grid() []float64 {
	f := make([]float64, gridSize)
	for i := 1; i < gridSize; i++ {
		f[i] = smallest * math.Pow(0.5/smallest, float64(i-1)/float64(gridSize-2))
	}
	return f
}

// head returns the modes and the response of a system.
func (d *diagonal) head(channel, index int, frequencies []float64) Head {
	h := Head{Channel: channel, Head: index, Modes: make([]Mode, len(d.a))}
	for i := range d.a {
		h.Modes[i] = newMode(d.lambda[i], d.a[i], d.step[i], d.gain(i))
	}
	if d.out != nil {
		h.Response = d.response(frequencies)
	}
	return h
}

// gain is the largest amplification of a mode alone.
func (d *diagonal) gain(i int) float64 {
	if d.out == nil {
		return math.NaN()
	}
	in, out := 0.0, 0.0
	for j := range d.h {
		in = math.Hypot(in, cmplx.Abs(d.input(i, j)))
	}
	for k := range d.m {
		out = math.Hypot(out, cmplx.Abs(d.out[k*len(d.a)+i]))
	}
	size := out * in * cmplx.Abs(d.b[i])
	if size == 0 {
		return 0
	}
	return size / -math.Expm1(real(d.a[i]))
}

func (d *diagonal) input(i, j int) complex128 {
	if d.in == nil {
		return 1
	}
	return d.in[i*d.h+j]
}

// response returns the Frobenius norm of the transfer matrix at each frequency. The real part of the output is half the
// sum of the system and of its conjugate: 2n states with the weights w = b/(1 - λ̄ e^{-iω}).
func (d *diagonal) response(frequencies []float64) []float64 {
	n := len(d.a)
	e, w := make([]complex128, 2*n), make([]complex128, 2*n)
	for i := range n {
		e[i] = cmplx.Exp(d.a[i])
		e[n+i] = cmplx.Conj(e[i])
	}
	norm := d.direct
	if d.m*d.h > 8*n {
		gram := d.gram()
		norm = func(w []complex128) float64 { return quadratic(gram, w) }
	}
	out := make([]float64, len(frequencies))
	for k, f := range frequencies {
		turn := cmplx.Exp(complex(0, -2*math.Pi*f))
		for i := range n {
			w[i] = d.b[i] / (2 * (1 - e[i]*turn))
			w[n+i] = cmplx.Conj(d.b[i]) / (2 * (1 - e[n+i]*turn))
		}
		out[k] = norm(w)
	}
	return out
}

// direct sums up each element of the transfer matrix.
func (d *diagonal) direct(w []complex128) float64 {
	n, sum := len(d.a), 0.0
	for k := range d.m {
		for j := range d.h {
			var x complex128
			for i := range n {
				p := d.out[k*n+i]
				if d.in != nil {
					p *= d.in[i*d.h+j]
				}
				x += p*w[i] + complex(real(p), -imag(p))*w[n+i]
			}
			sum += real(x)*real(x) + imag(x)*imag(x)
		}
	}
	return math.Sqrt(sum)
}

// gram returns the products (c_i* c_j)(b_i* b_j) of all pairs of states, with conjugate ones. The norm of Σ w_i c_i
// b_iᵀ follows from them, in n² operations whatever the numbers of inputs and outputs.
func (d *diagonal) gram() []complex128 {
	n := len(d.a)
	at := func(z complex128, conjugate bool) complex128 {
		if conjugate {
			return cmplx.Conj(z)
		}
		return z
	}
	g := make([]complex128, 4*n*n)
	for i := range 2 * n {
		for j := range 2 * n {
			var in, out complex128
			for q := range d.h {
				in += cmplx.Conj(at(d.input(i%n, q), i >= n)) * at(d.input(j%n, q), j >= n)
			}
			for p := range d.m {
				out += cmplx.Conj(at(d.out[p*n+i%n], i >= n)) * at(d.out[p*n+j%n], j >= n)
			}
			g[i*2*n+j] = in * out
		}
	}
	return g
}

// quadratic returns √(w* g w).
func quadratic(g, w []complex128) float64 {
	sum := 0.0
	for i := range w {
		var row complex128
		for j, x := range g[i*len(w) : (i+1)*len(w)] {
			row += x * w[j]
		}
		sum += real(cmplx.Conj(w[i]) * row)
	}
	return math.Sqrt(max(sum, 0))
}
