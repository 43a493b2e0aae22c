package kernel

import (
	"fmt"
	"math"
	"testing"
)

// convolved is Σ k[j]·v[t-j], and Σ k[j]·v[t+1+j], as asked for.
func convolved(v, k []float32, after, before bool) []float64 {
	y := make([]float64, len(v))
	for t := range v {
		for j := range k {
			if after && t-j >= 0 {
				y[t] += float64(k[j]) * float64(v[t-j])
			}
			if before && t+1+j < len(v) {
				y[t] += float64(k[j]) * float64(v[t+1+j])
			}
		}
	}
	return y
}

func TestFFT(t *testing.T) { eachVariant(t, testFFT) }

func testFFT(t *testing.T) {
	r := newRand()
	for _, n := range append(append([]int{}, sizes...), 64, 100, 128, 257, 1000, 4096) {
		for _, taps := range []int{0, 1, 2, 5, n} {
			if taps > max(n, 1) {
				continue
			}
			v, k := random(r, n), random(r, taps)
			for side := 1; side < 4; side++ {
				after, before := side&1 != 0, side&2 != 0
				f := NewFFT(n + taps)
				f.Prepare(nil)
				if f.Size() < n+taps {
					t.Fatalf("size %d for %d numbers", f.Size(), n+taps)
				}
				a, b, acc, tmp := make([]float32, f.Len()), make([]float32, f.Len()), make([]float32, f.Len()),
					make([]float32, f.Len())
				f.Forward(a, v, tmp, nil)
				f.ForwardRing(b, k, after, before, tmp, nil)
				f.MulAdd(acc, a, b, 1)
				f.Mul(a, a, b)
				for i, v := range f.parts(acc).re {
					if w := f.parts(a).re[i]; v != w {
						t.Fatalf("n %d taps %d: product %d is %g, added to zero %g", n, taps, i, w, v)
					}
				}
				want := convolved(v, k, after, before)
				y := make([]float32, n)
				f.Inverse(y, acc, 0, false, tmp, nil)
				near(t, fmt.Sprintf("n %d taps %d side %d", n, taps, side), y, want, 3e-6*math.Sqrt(float64(taps+1))*4)

				z := make([]float32, n)
				rev := make([]float32, taps)
				for j := range k {
					rev[taps-1-j] = k[j]
				}
				if after {
					Correlate(z, v, rev, -(taps - 1))
				}
				if before {
					Correlate(z, v, k, 1)
				}
				near(t, fmt.Sprintf("direct, n %d taps %d side %d", n, taps, side), z, want,
					3e-6*math.Sqrt(float64(taps+1)))
			}
		}
	}
}

// The spectrum equals the definition.
func TestSpectrum(t *testing.T) { eachVariant(t, testSpectrum) }

func testSpectrum(t *testing.T) {
	r := newRand()
	for _, size := range []int{2, 4, 8, 16, 32, 64, 512, 1152} {
		f := NewFFT(size)
		f.Prepare(nil)
		x := random(r, size)
		spec, tmp := make([]float32, f.Len()), make([]float32, f.Len())
		f.Forward(spec, x, tmp, nil)
		n, z := size/2, f.parts(spec)
		for k := 0; k <= n; k++ {
			re, im := 0.0, 0.0
			for i, v := range x {
				s, c := math.Sincos(-2 * math.Pi * float64(i*k%size) / float64(size))
				re, im = re+float64(v)*c, im+float64(v)*s
			}
			var got complex128
			switch k {
			case 0:
				got = complex(float64(z.re[0]), 0)
			case n:
				got = complex(float64(z.im[0]), 0)
			default:
				got = complex(float64(z.re[k]), float64(z.im[k]))
			}
			if !(math.Hypot(real(got)-re, imag(got)-im) <= 1e-5*math.Sqrt(float64(size))) {
				t.Fatalf("size %d, frequency %d: %v, expected %g%+gi", size, k, got, re, im)
			}
		}
		y := make([]float32, size)
		f.Inverse(y, spec, 0, false, tmp, nil)
		want := make([]float64, size)
		for i, v := range x {
			want[i] = float64(v)
		}
		near(t, "back", y, want, 1e-5)
	}
}

func BenchmarkFFT(b *testing.B) {
	for _, size := range []int{2048, 8192, 32768} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f := NewFFT(size)
			f.Prepare(nil)
			x, spec, tmp := random(newRand(), size), make([]float32, f.Len()), make([]float32, f.Len())
			for range b.N {
				f.Forward(spec, x, tmp, nil)
				f.Inverse(x, spec, 0, false, tmp, nil)
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/2/float64(size)/math.Log2(float64(size)),
				"ns/number·stage")
		})
	}
}

func BenchmarkCorrelate(b *testing.B) {
	r := newRand()
	v, k, y := random(r, 4096), random(r, 1024), make([]float32, 4096)
	for range b.N {
		Correlate(y, v, k, 0)
	}
	b.ReportMetric(2*1024*4096*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
