package kernel

import (
	"fmt"
	"math"
	"math/cmplx"
	"testing"
)

// TestScanBlocks checks scans by blocks against their definition in float64: systems that fade at once and slow
// ones, with outputs and without, numbers of states and rows that do not fill blocks, slices that start anywhere,
// and inputs that are NaN or infinite, which must not affect earlier steps.
func TestScanBlocks(t *testing.T) { eachVariant(t, testScanBlocks) }

func testScanBlocks(t *testing.T) {
	r := newRand()
	for _, n := range []int{8, 16, 17, 32, 36, 71} {
		for _, rows := range []int{1, 3, 4, 5, 8, 11, 24, 99} {
			for kind := range 16 {
				backward, odd, outputs, add := kind&1 != 0, kind&2 != 0, kind&4 != 0, kind&12 == 12
				if add && !backward {
					continue
				}
				d := &Diagonal{}
				var a, b, z []complex128
				var zr, zi []float64
				for range n {
					p := cmplx.Rect(math.Exp(-math.Exp(12*r.Float64()-11)), 6*r.Float64())
					q, z0 := complex(r.NormFloat64(), r.NormFloat64()), complex(r.NormFloat64(), r.NormFloat64())
					a, b, z = append(a, p), append(b, q), append(z, z0)
					zr, zi = append(zr, real(z0)), append(zi, imag(z0))
					d.ARe, d.AIm = append(d.ARe, real(p)), append(d.AIm, imag(p))
					d.BRe, d.BIm = append(d.BRe, real(q)), append(d.BIm, imag(q))
				}
				d.Pack()
				at := 1 + r.IntN(7)
				v := random(r, rows*n+at)[at:]
				bad := -1 // the row of an input that is NaN or infinite
				if odd {
					bad = r.IntN(rows)
					v[bad*n+r.IntN(n)] = float32([]float64{math.NaN(), math.Inf(-1)}[r.IntN(2)])
				}
				all := make([]float32, rows*n+2*at)
				for i := range all {
					all[i] = guard
				}
				x := all[at : at+rows*n]
				if add {
					copy(x, random(r, rows*n))
				}
				was := append([]float32(nil), x...)
				in := &Inputs{Re: v}
				var out []float32
				if outputs {
					out = x
				}
				if backward {
					d.ScanBackward(out, nil, in, rows, zr, zi, add)
				} else {
					d.ScanForward(out, nil, in, rows, zr, zi)
				}
				u := make([]complex128, rows*n)
				for i, f := range v {
					u[i] = complex(float64(f), 0)
				}
				want := scanned(a, b, nil, u, nil, rows, z, backward)
				what := fmt.Sprintf("n %d rows %d kind %d", n, rows, kind)
				for i, w := range want {
					row, state := i/n, i%n
					expected := real(w)
					if add {
						expected += float64(was[i])
					}
					if !outputs {
						expected = float64(was[i])
					}
					// After an input that is NaN or infinite, the result may be either.
					behind := bad >= 0 && (row >= bad && !backward || row < bad && backward) &&
						v[bad*n+state]-v[bad*n+state] != 0
					g := float64(x[i])
					if behind && outputs && (math.IsNaN(g) || math.IsInf(g, 0)) {
						continue
					}
					if !(math.Abs(g-expected) <= 2e-6*(1+math.Abs(expected))) {
						t.Fatalf("%s: row %d state %d is %g, expected %g", what, row, state, g, expected)
					}
				}
				for j := range n {
					got := complex(zr[j], zi[j])
					if bad >= 0 && v[bad*n+j]-v[bad*n+j] != 0 {
						if !cmplx.IsNaN(got) && !cmplx.IsInf(got) {
							t.Fatalf("%s: state %d is %v behind %g", what, j, got, v[bad*n+j])
						}
						continue
					}
					if !(cmplx.Abs(z[j]-got) <= 2e-6*(1+cmplx.Abs(z[j]))) {
						t.Fatalf("%s: state %d is %v, expected %v", what, j, got, z[j])
					}
				}
				for i, g := range all {
					if (i < at || i >= at+rows*n) && g != guard {
						t.Fatalf("%s: wrote beside its rows", what)
					}
				}
			}
		}
	}
}

// TestScanBlocksSlow takes slow systems through many tiles: what blocks round away must stay a rounding of what inputs
// may give at most, however long that adds up.
func TestScanBlocksSlow(t *testing.T) { eachVariant(t, testScanBlocksSlow) }

func testScanBlocksSlow(t *testing.T) {
	const n, rows, tiles = 32, 96, 200
	r := newRand()
	packed := &Diagonal{}
	for j := range n {
		a := cmplx.Exp(complex(-math.Pow(10, -1-5*float64(j)/n), 3*r.Float64()*float64(j%2)))
		packed.ARe, packed.AIm = append(packed.ARe, real(a)), append(packed.AIm, imag(a))
		packed.BRe, packed.BIm = append(packed.BRe, r.NormFloat64()), append(packed.BIm, r.NormFloat64())
	}
	plain := *packed
	packed.Pack()
	for _, noise := range []float64{0, 1} {
		for _, backward := range []bool{false, true} {
			z, y := make([]float64, 2*n), make([]float64, 2*n)
			var worst [n]float64
			loudest := 0.0
			for range tiles {
				v := make([]float32, rows*n)
				for i := range v {
					v[i] = 0.7 + float32(noise*r.NormFloat64())
					loudest = max(loudest, math.Abs(float64(v[i])))
				}
				in := &Inputs{Re: v}
				if backward {
					packed.ScanBackward(nil, nil, in, rows, z[:n], z[n:], false)
					plain.ScanBackward(nil, nil, in, rows, y[:n], y[n:], false)
				} else {
					packed.ScanForward(nil, nil, in, rows, z[:n], z[n:])
					plain.ScanForward(nil, nil, in, rows, y[:n], y[n:])
				}
				for j := range n {
					worst[j] = max(worst[j], math.Hypot(z[j]-y[j], z[n+j]-y[n+j]))
				}
			}
			for j := range n {
				a := math.Hypot(packed.ARe[j], packed.AIm[j])
				most := loudest * math.Hypot(packed.BRe[j], packed.BIm[j]) * (1 - math.Pow(a, rows*tiles)) / (1 - a)
				if !(worst[j] <= 1e-7*most) {
					t.Errorf("noise %g backward %v: state %d, a = %g%+gi, is off by %g, and may be %g", noise, backward,
						j, packed.ARe[j], packed.AIm[j], worst[j], most)
				}
			}
		}
	}
}

func BenchmarkScanBlocks(b *testing.B) {
	const n, rows = 128, 96
	r := newRand()
	d := &Diagonal{}
	for range n {
		d.ARe, d.AIm = append(d.ARe, 0.9), append(d.AIm, 0.1)
		d.BRe, d.BIm = append(d.BRe, 1), append(d.BIm, 0.5)
	}
	plain := *d
	d.Pack()
	v, x, zr, zi := random(r, rows*n), make([]float32, rows*n), make([]float64, n), make([]float64, n)
	for _, c := range []struct {
		name string
		d    *Diagonal
	}{{"steps", &plain}, {"blocks", d}} {
		run := func(name string, f func(d *Diagonal)) {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					f(c.d)
				}
				b.ReportMetric(float64(b.N)*float64(rows*n)/b.Elapsed().Seconds()/1e9, "Gstates/s")
			})
		}
		run("forward", func(d *Diagonal) { d.ScanForward(x, nil, &Inputs{Re: v}, rows, zr, zi) })
		run("backward", func(d *Diagonal) { d.ScanBackward(x, nil, &Inputs{Re: v}, rows, zr, zi, true) })
		run("drop", func(d *Diagonal) { d.ScanBackward(nil, nil, &Inputs{Re: v}, rows, zr, zi, false) })
	}
}
