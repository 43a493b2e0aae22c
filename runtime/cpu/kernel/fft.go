package kernel

import (
	"math"
	"math/bits"
)

// FFT transforms real sequences of a length that is a power of two, 2n with n ≥ 1, for convolution by the convolution
// theorem. A spectrum has n numbers: frequency k lies at k's bit reversal, and the first holds frequency 0 and, as its
// imaginary part, frequency n; both are real. Twiddle factors are computed in float64. An FFT is immutable.
type FFT struct {
	n      int
	stages []fftStage
	split  []complex64 // exp(-iπk/n) by position
	mirror []int32     // position of frequency n-k by position of k
}

// fftStage is two steps of radix 2 at once, over blocks of size numbers.
type fftStage struct {
	size int
	w    []complex64 // wʲ, w²ʲ, w³ʲ for j below size/4
}

// NewFFT makes a transform of at least length numbers; at least 2.
func NewFFT(length int) *FFT {
	n := 1
	for 2*n < length {
		n *= 2
	}
	f := &FFT{n: n, split: make([]complex64, n), mirror: make([]int32, n)}
	for size := n; size >= 4; size /= 4 {
		s := fftStage{size: size}
		for j := range size / 4 {
			for k := 1; k <= 3; k++ {
				s.w = append(s.w, unit(-2*math.Pi*float64(j*k)/float64(size)))
			}
		}
		f.stages = append(f.stages, s)
	}
	shift := 64 - bits.Len(uint(n-1))
	for i := range n {
		k := 0
		if n > 1 {
			k = int(bits.Reverse64(uint64(i)) >> shift)
			f.mirror[i] = int32(bits.Reverse64(uint64((n-k)%n)) >> shift)
		}
		f.split[i] = unit(-math.Pi * float64(k) / float64(n))
	}
	return f
}

func unit(angle float64) complex64 {
	s, c := math.Sincos(angle)
	return complex(float32(c), float32(s))
}

// Size is the length of the sequences, padding included.
func (f *FFT) Size() int { return 2 * f.n }

// Len is the numbers of a spectrum.
func (f *FFT) Len() int { return f.n }

// Forward gives the spectrum of x, which is filled up with zeros.
func (f *FFT) Forward(spec []complex64, x []float32) {
	z := spec[:f.n]
	x = x[:min(len(x), 2*f.n)]
	for i := range z {
		switch {
		case 2*i+1 < len(x):
			z[i] = complex(x[2*i], x[2*i+1])
		case 2*i < len(x):
			z[i] = complex(x[2*i], 0)
		default:
			z[i] = 0
		}
	}
	f.spectrum(z)
}

// ForwardRing gives the spectrum of a kernel k as a ring, k[j] at place j (after) or at the place j+1 before the first
// (before), or both: the kernels of sums over what came before a step, and over what follows it.
func (f *FFT) ForwardRing(spec []complex64, k []float32, after, before bool) {
	z := spec[:f.n]
	clear(z)
	for j, v := range k {
		if after {
			f.put(z, j, v)
		}
		if before {
			f.put(z, 2*f.n-1-j, v)
		}
	}
	f.spectrum(z)
}

func (f *FFT) put(z []complex64, i int, v float32) {
	if i&1 == 0 {
		z[i/2] += complex(v, 0)
	} else {
		z[i/2] += complex(0, v)
	}
}

// spectrum transforms pairs of real numbers in place.
func (f *FFT) spectrum(z []complex64) {
	f.forward(z)
	z[0] = complex(real(z[0])+imag(z[0]), real(z[0])-imag(z[0]))
	for i := 1; i < f.n; i++ {
		m := int(f.mirror[i])
		if m < i {
			continue
		}
		// Even and odd samples: E = (Z[k]+Z̄[n-k])/2, O = (Z[k]-Z̄[n-k])/2i; X[k] = E + wᵏO, X[n-k] = conj(E - wᵏO).
		a, b := z[i], conj(z[m])
		e, d := (a+b)*0.5, (a-b)*0.5
		o := complex(imag(d), -real(d)) * f.split[i]
		z[i], z[m] = e+o, conj(e-o)
	}
}

// Inverse gives len(x) numbers, from number skip on, of the sequence with the spectrum, which it destroys. With add it adds
// them to x.
func (f *FFT) Inverse(x []float32, spec []complex64, skip int, add bool) {
	z := spec[:f.n]
	z[0] = complex((real(z[0])+imag(z[0]))*0.5, (real(z[0])-imag(z[0]))*0.5)
	for i := 1; i < f.n; i++ {
		m := int(f.mirror[i])
		if m < i {
			continue
		}
		a, b := z[i], conj(z[m])
		e, o := (a+b)*0.5, (a-b)*0.5*conj(f.split[i])
		o = complex(-imag(o), real(o))
		z[i], z[m] = e+o, conj(e-o)
	}
	f.inverse(z)
	scale := 1 / float32(f.n)
	for i := range x {
		c := z[(i+skip)/2]
		v := real(c) * scale
		if (i+skip)&1 == 1 {
			v = imag(c) * scale
		}
		if add {
			v += x[i]
		}
		x[i] = v
	}
}

// MulAdd adds sign·a·b to the spectrum acc, for spectra of real sequences.
func MulAdd(acc, a, b []complex64, sign float32) {
	if len(acc) == 0 {
		return
	}
	acc[0] += complex(sign*real(a[0])*real(b[0]), sign*imag(a[0])*imag(b[0]))
	acc, a, b = acc[1:], a[1:len(acc)], b[1:len(acc)]
	for i := range acc {
		p := a[i] * b[i]
		acc[i] += complex(sign*real(p), sign*imag(p))
	}
}

func conj(z complex64) complex64 { return complex(real(z), -imag(z)) }

// forward transforms z from natural order into bit-reversed order.
func (f *FFT) forward(z []complex64) {
	size := len(z)
	for _, s := range f.stages {
		q := s.size / 4
		for lo := 0; lo < len(z); lo += s.size {
			z0, z1, z2, z3 := z[lo:lo+q], z[lo+q:lo+2*q], z[lo+2*q:lo+3*q], z[lo+3*q:lo+4*q]
			w := s.w[:3*q]
			for j := range z0 {
				a0, a1, a2, a3 := z0[j], z1[j], z2[j], z3[j]
				b0, b1, t, d := a0+a2, a1+a3, a0-a2, a1-a3
				u := complex(imag(d), -real(d))
				wj := w[3*j : 3*j+3 : 3*j+3]
				z0[j] = b0 + b1
				z1[j] = (b0 - b1) * wj[1]
				z2[j] = (t + u) * wj[0]
				z3[j] = (t - u) * wj[2]
			}
		}
		size = q
	}
	if size == 2 {
		for i := 0; i+1 < len(z); i += 2 {
			z[i], z[i+1] = z[i]+z[i+1], z[i]-z[i+1]
		}
	}
}

// inverse undoes forward, times len(z).
func (f *FFT) inverse(z []complex64) {
	size := len(z)
	if k := len(f.stages); k > 0 {
		size = f.stages[k-1].size / 4
	}
	if size == 2 {
		for i := 0; i+1 < len(z); i += 2 {
			z[i], z[i+1] = z[i]+z[i+1], z[i]-z[i+1]
		}
	}
	for i := len(f.stages) - 1; i >= 0; i-- {
		s := f.stages[i]
		q := s.size / 4
		for lo := 0; lo < len(z); lo += s.size {
			z0, z1, z2, z3 := z[lo:lo+q], z[lo+q:lo+2*q], z[lo+2*q:lo+3*q], z[lo+3*q:lo+4*q]
			w := s.w[:3*q]
			for j := range z0 {
				wj := w[3*j : 3*j+3 : 3*j+3]
				c0, c1, c2, c3 := z0[j], z1[j]*conj(wj[1]), z2[j]*conj(wj[0]), z3[j]*conj(wj[2])
				u, v, p, d := c0+c1, c0-c1, c2+c3, c2-c3
				m := complex(-imag(d), real(d))
				z0[j], z1[j], z2[j], z3[j] = u+p, v+m, u-p, v-m
			}
		}
	}
}
