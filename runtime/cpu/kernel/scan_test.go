package kernel

import (
	"fmt"
	"math"
	"math/cmplx"
	"testing"
)

// scanned is a scan by its definition.
func scanned(a, b, cut []complex128, v, old []complex128, rows int, z []complex128, backward bool) (x []complex128) {
	n := len(a)
	x = make([]complex128, rows*n)
	for i := range rows {
		t := i
		if backward {
			t = rows - 1 - i
		}
		for j := range n {
			if backward {
				x[t*n+j] = z[j]
			}
			z[j] = a[j]*z[j] + b[j]*v[t*n+j]
			if old != nil {
				z[j] -= cut[j] * old[t*n+j]
			}
			if !backward {
				x[t*n+j] = z[j]
			}
		}
	}
	return x
}

func TestScan(t *testing.T) { eachVariant(t, testScan) }

func testScan(t *testing.T) {
	r := newRand()
	for _, n := range []int{1, 2, 3, 8, 17, 30, 45} {
		for _, rows := range sizes {
			for kind := range 64 {
				vim, window, xim, backward := kind&1 != 0, kind&2 != 0, kind&4 != 0, kind&8 != 0
				add, drop := kind&16 != 0, kind&32 != 0
				if add && (drop || !backward) {
					continue
				}
				d := &Diagonal{}
				var a, b, cut, z []complex128
				var zr, zi []float64
				for range n {
					p := cmplx.Rect(0.5+0.5*r.Float64(), 6*r.Float64())
					q, c := complex(r.NormFloat64(), r.NormFloat64()), complex(r.NormFloat64(), r.NormFloat64())
					z0 := complex(r.NormFloat64(), r.NormFloat64())
					a, b, cut, z = append(a, p), append(b, q), append(cut, c), append(z, z0)
					zr, zi = append(zr, real(z0)), append(zi, imag(z0))
					d.ARe, d.AIm = append(d.ARe, real(p)), append(d.AIm, imag(p))
					d.BRe, d.BIm = append(d.BRe, real(q)), append(d.BIm, imag(q))
					d.CutRe, d.CutIm = append(d.CutRe, real(c)), append(d.CutIm, imag(c))
				}
				in := Inputs{Re: random(r, rows*n)}
				if vim {
					in.Im = random(r, rows*n)
				}
				join := func(re, im []float32) []complex128 {
					out := make([]complex128, rows*n)
					for i := range out {
						out[i] = complex(at(re, i), at(im, i))
					}
					return out
				}
				var old []complex128
				if window {
					in.OldRe = random(r, rows*n)
					if in.OldRe == nil {
						in.OldRe = []float32{}
					}
					if vim {
						in.OldIm = random(r, rows*n)
					}
					old = join(in.OldRe, in.OldIm)
				}
				var x, xi []float32
				if !drop {
					x = random(r, rows*n)
				}
				if !drop && xim {
					xi = random(r, rows*n)
				}
				re, im := make([]float64, rows*n), make([]float64, rows*n)
				for i := range re {
					if add {
						re[i], im[i] = at(x, i), at(xi, i)
					}
				}
				if backward {
					d.ScanBackward(x, xi, &in, rows, zr, zi, add)
				} else {
					d.ScanForward(x, xi, &in, rows, zr, zi)
				}
				for i, c := range scanned(a, b, cut, join(in.Re, in.Im), old, rows, z, backward) {
					re[i] += real(c)
					im[i] += imag(c)
				}
				what := fmt.Sprintf("n %d rows %d kind %d", n, rows, kind)
				if x != nil {
					near(t, what, x, re, 1e-5)
				}
				if xi != nil {
					near(t, what+" imaginary", xi, im, 1e-5)
				}
				for j := range n {
					if !(cmplx.Abs(z[j]-complex(zr[j], zi[j])) <= 1e-9) {
						t.Fatalf("%s: state %d is %g%+gi, expected %v", what, j, zr[j], zi[j], z[j])
					}
				}
			}
		}
	}
}

// A slow mode with constant input is where a scan in float32 would lose digits; 5e-5 relative is allowed.
func TestScanDrift(t *testing.T) { eachVariant(t, testScanDrift) }

func testScanDrift(t *testing.T) {
	const length, tile = 16384, 64
	for _, a := range []complex128{-1e-6, -1e-6 + 1e-3i, -1e-4 + 3i, -1e-6 + 0.5i} {
		p := cmplx.Exp(a)
		d := &Diagonal{ARe: []float64{real(p)}, AIm: []float64{imag(p)}, BRe: []float64{1}, BIm: []float64{0}}
		v, x := make([]float32, tile), make([]float32, tile)
		for i := range v {
			v[i] = 0.7
		}
		zr, zi := []float64{0}, []float64{0}
		worst, top := 0.0, 0.0
		for lo := 0; lo < length; lo += tile {
			d.ScanForward(x, nil, &Inputs{Re: v}, tile, zr, zi)
			for i, got := range x { // Σ aᵏ·v in closed form
				k := complex(float64(lo+i+1), 0)
				want := real(complex(float64(v[0]), 0) * (cmplx.Exp(k*a) - 1) / (p - 1))
				top = math.Max(top, math.Abs(want))
				worst = math.Max(worst, math.Abs(float64(got)-want))
			}
		}
		if !(worst <= 1e-6*top) {
			t.Errorf("a = %v: error %g relative to %g", a, worst/top, top)
		}
	}
}

func TestDense(t *testing.T) { eachVariant(t, testDense) }

func testDense(t *testing.T) {
	r := newRand()
	for _, n := range []int{1, 2, 3, 8} {
		for _, rows := range []int{0, 1, 5, 33} {
			ld := n + 2
			a, z, next := make([]float64, n*n), make([]float64, n), make([]float64, n)
			for i := range a {
				a[i] = 0.5 * r.NormFloat64() / math.Sqrt(float64(n))
			}
			for i := range z {
				z[i] = r.NormFloat64()
			}
			g, x := random(r, rows*ld), make([]float32, rows*ld)
			want := make([]float64, rows*ld)
			for _, backward := range []bool{false, true} {
				clear(x)
				clear(want)
				s := append([]float64(nil), z...)
				for i := range rows {
					t := i
					if backward {
						t = rows - 1 - i
						copy(want[t*ld:], s)
					}
					q := make([]float64, n)
					for i := range n {
						q[i] = float64(g[t*ld+i])
						for j := range n {
							q[i] += a[i*n+j] * s[j]
						}
					}
					s = q
					if !backward {
						copy(want[t*ld:], s)
					}
				}
				state := append([]float64(nil), z...)
				if backward {
					DenseBackward(x, g, ld, rows, a, state, next, false)
				} else {
					DenseForward(x, g, ld, rows, a, state, next)
				}
				near(t, fmt.Sprint(n, rows, backward), x, want, 1e-5)
				for i := range s {
					if !(math.Abs(s[i]-state[i]) <= 1e-9) {
						t.Fatalf("n %d rows %d: state %g, expected %g", n, rows, state[i], s[i])
					}
				}
			}
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for _, n := range []int{128, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const rows = 64
			r := newRand()
			d := &Diagonal{}
			for range n {
				d.ARe, d.AIm = append(d.ARe, 0.9), append(d.AIm, 0.1)
				d.BRe, d.BIm = append(d.BRe, 1), append(d.BIm, 0.5)
			}
			v, x, zr, zi := random(r, rows*n), make([]float32, rows*n), make([]float64, n), make([]float64, n)
			for range b.N {
				d.ScanForward(x, nil, &Inputs{Re: v}, rows, zr, zi)
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(rows*n), "ns/state-step")
		})
		b.Run(fmt.Sprint(n, " complex"), func(b *testing.B) {
			const rows = 64
			r := newRand()
			d := &Diagonal{}
			for range n {
				d.ARe, d.AIm = append(d.ARe, 0.9), append(d.AIm, 0.1)
				d.BRe, d.BIm = append(d.BRe, 1), append(d.BIm, 0.5)
			}
			v := Inputs{Re: random(r, rows*n), Im: random(r, rows*n)}
			x, xi, zr, zi := make([]float32, rows*n), make([]float32, rows*n), make([]float64, n), make([]float64, n)
			for range b.N {
				d.ScanForward(x, xi, &v, rows, zr, zi)
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(rows*n), "ns/state-step")
		})
	}
}
