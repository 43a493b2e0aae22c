package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ops/fft"
)

// Fourier is the discrete Fourier transform of signals in tensors, of any length up to 8 million: y[k] = scale·Σ
// x[j]·e^(∓2πijk/N). Complex numbers are pairs of float32. Lengths up to 4096 with prime factors up to 13 are
// computed in shared memory, longer ones in two such passes, and others as a convolution (Bluestein). Roots are
// computed in float64.
type Fourier struct {
	N       int
	Inverse bool // e^(+…)
	Scale   float64
	// RealIn: numbers are real. RealOut: only the real parts of results are wanted.
	RealIn, RealOut bool
	// Present is the number of given numbers of a signal; the others are 0. Wanted is the number of results.
	Present, Wanted int
	// Mirrored: the numbers from N/2 + 1 on are the conjugates of those from the other side.
	Mirrored bool
	// Outer and Inner are the numbers of signals along two axes.
	Outer, Inner int
	In, Out      FourierPlace
}

// FourierPlace is the layout of signals: number k of signal (i, j) is at offset i·Outer + j·Inner + k·Step, in
// numbers.
type FourierPlace struct{ Outer, Inner, Step int }

// Memory provides kernels with scratch memory of the given size, and with tables that are made once, or for each content
// of what they are derived from: see record.Builder.
type Memory struct {
	Scratch  func(bytes int) Buffer
	Constant func(key string, make func() []byte) Buffer
	Derived  func(key string, make func() []byte) Buffer
}

// halves returns n as a product of two nearly equal lengths that a block can transform.
func halves(n int) (a, b int, ok bool) {
	for a = int(math.Sqrt(float64(n))); a >= 1; a-- {
		if n%a != 0 {
			continue
		}
		_, ok1 := radices(a)
		if _, ok2 := radices(n / a); ok1 && ok2 {
			return a, n / a, true
		}
		if n/a > maxFFT {
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// Calls returns the launches. It returns false for unsupported lengths and numbers of signals.
func (f Fourier) Calls(y, x Buffer, m Memory) ([]Call, bool) {
	if f.N < 1 || f.N > 1<<23 || f.Outer*f.Inner > MaxRows/f.N {
		return nil, false
	}
	if f.Outer == 0 || f.Inner == 0 || f.Wanted == 0 {
		return nil, true
	}
	signals := [3]int{f.Inner, f.Outer, 1}
	p := fftPass{n: f.N, inverse: f.Inverse, sizes: signals, sub: -1, realIn: f.RealIn, realOut: f.RealOut,
		in: fftLine{f.In.Step, [3]int{f.In.Inner, f.In.Outer}}, out: fftLine{f.Out.Step, [3]int{f.Out.Inner, f.Out.Outer}},
		inStep: 1, outStep: 1, present: min(f.Present, f.N), wanted: min(f.Wanted, f.N), scale: f.Scale}
	if f.Mirrored {
		p.mirror, p.present = f.N, min(f.Present, f.N/2+1)
	}
	_, one := radices(f.N)
	_, _, two := halves(f.N)
	if one || two {
		return p.calls(y, x, m), true
	}
	// x[j]·c[j] is convolved with 1/c, where c[j] = e^(∓πij²/N), and the result multiplied by c.
	long := 1
	for long < 2*f.N-1 {
		long *= 2
	}
	sign := ""
	if f.Inverse {
		sign = " inverse"
	}
	chirp := m.Constant(fmt.Sprintf("chirp %d%s", f.N, sign), func() []byte { return complexBytes(chirpOf(f.N, f.N, f.Inverse)) })
	spectrum := m.Constant(fmt.Sprintf("spectrum of chirp %d%s", f.N, sign), func() []byte {
		c := chirpOf(f.N, f.N, !f.Inverse)
		z := make([]complex128, long)
		for j, v := range c {
			z[j] = v
			z[(long-j)%long] = v
		}
		fft.New(long, nil).Forward(z, nil)
		for i := range z {
			z[i] /= complex(float64(long), 0)
		}
		return complexBytes(z)
	})
	middle := m.Scratch(8 * long * f.Outer * f.Inner)
	place := fftLine{1, [3]int{long, long * f.Inner}}
	first, second := p, p
	first.n, first.inverse, first.before = long, false, chirp
	first.out, first.realOut, first.after, first.wanted, first.scale = place, false, spectrum, long, 1
	second.n, second.inverse, second.in, second.realIn, second.present, second.mirror = long, true, place, false, long, 0
	second.after = chirp
	return append(first.calls(middle, x, m), second.calls(y, middle, m)...), true
}

// calls returns the launches of one pass, or of two.
func (f fftPass) calls(y, x Buffer, m Memory) []Call {
	roots := func(n int) Buffer {
		return m.Constant(fmt.Sprintf("roots %d", n), func() []byte {
			z := make([]complex128, n)
			for k := range z {
				s, c := math.Sincos(-2 * math.Pi * float64(k) / float64(n))
				z[k] = complex(c, s)
			}
			return complexBytes(z)
		})
	}
	if _, ok := radices(f.n); ok {
		f.roots = roots(f.n)
		return []Call{f.call(y, x)}
	}
	// Number j1·n2 + j2 becomes number k1 + n1·k2: transforms over j1, factors e^(-2πi·j2·k1/n), transforms
	// over j2.
	n1, n2, _ := halves(f.n)
	middle := m.Scratch(8 * f.n * f.sizes[0] * f.sizes[1])
	inner := f.sizes[0]
	first, second := f, f
	first.n, first.roots = n1, roots(n1)
	first.sizes, first.sub = [3]int{n2, inner, f.sizes[1]}, 0
	first.in = fftLine{n2 * f.in.step, [3]int{f.in.step, f.in.digits[0], f.in.digits[1]}}
	first.inStep, first.inSub = n2, 1
	first.out, first.realOut = fftLine{n2, [3]int{1, f.n, f.n * inner}}, false
	first.after, first.turn, first.outStep, first.outSub, first.wanted, first.scale = roots(f.n), true, 0, 0, 1, 1
	second.n, second.roots = n2, roots(n2)
	second.sizes, second.sub = [3]int{n1, inner, f.sizes[1]}, 0
	second.in, second.realIn = fftLine{1, [3]int{n2, f.n, f.n * inner}}, false
	second.inStep, second.inSub, second.present, second.before, second.mirror = 0, 0, 1, 0, 0
	second.out = fftLine{n1 * f.out.step, [3]int{f.out.step, f.out.digits[0], f.out.digits[1]}}
	second.outStep, second.outSub = n1, 1
	return []Call{first.call(middle, x), second.call(y, middle)}
}

// chirpOf returns n numbers e^(∓πij²/length).
func chirpOf(n, length int, inverse bool) []complex128 {
	z := make([]complex128, n)
	for j := range z {
		s, c := math.Sincos(-math.Pi * float64(j*j%(2*length)) / float64(length))
		if inverse {
			s = -s
		}
		z[j] = complex(c, s)
	}
	return z
}

func complexBytes(z []complex128) []byte {
	b := make([]byte, 0, 8*len(z))
	for _, v := range z {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(real(v))))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(imag(v))))
	}
	return b
}
