package kernel

import (
	"fmt"
	"math"
	"math/cmplx"
	"testing"
)

// TestSISO checks systems with one input and one output against their definition in float64: states and rows that do
// not fill blocks, both directions, and inputs that are NaN or infinite, which must not affect earlier steps.
func TestSISO(t *testing.T) { eachVariant(t, testSISO) }

func testSISO(t *testing.T) {
	r := newRand()
	for _, n := range []int{1, 3, 8, 12, 16, 64} {
		for _, heads := range []int{1, 3} {
			for _, rows := range []int{1, 7, 8, 9, 24, 43} {
				for kind := range 64 {
					backward, add, odd, plain := kind&1 != 0, kind&2 != 0, kind&4 != 0, kind&8 != 0
					complexB, complexC := kind&16 != 0, kind&32 != 0
					if add && !backward {
						continue
					}
					all := heads * n
					d := &Diagonal{}
					var z []complex128
					var zr, zi []float64
					for range all {
						p := cmplx.Rect(math.Exp(-math.Exp(8*r.Float64()-7)), 6*r.Float64())
						z0 := complex(r.NormFloat64(), r.NormFloat64())
						d.ARe, d.AIm = append(d.ARe, real(p)), append(d.AIm, imag(p))
						d.BRe, d.BIm = append(d.BRe, r.NormFloat64()), append(d.BIm, r.NormFloat64())
						z, zr, zi = append(z, z0), append(zr, real(z0)), append(zi, imag(z0))
					}
					b, c := Gains{Re: random(r, all)}, Gains{Re: random(r, all)}
					if complexB {
						b.Im = random(r, all)
					}
					if complexC {
						c.Im = random(r, all)
					}
					var direct []float32
					if !plain {
						direct = random(r, heads)
					}
					s := NewSISO(d, n, b, c, direct)
					u, y := random(r, rows*heads), make([]float32, rows*heads+2)
					bad, badHead := -1, r.IntN(heads)
					if odd {
						bad = r.IntN(rows)
						u[bad*heads+badHead] = float32([]float64{math.NaN(), math.Inf(1)}[r.IntN(2)])
					}
					for i := range y {
						y[i] = guard
					}
					inside := y[1 : 1+rows*heads]
					if add {
						copy(inside, random(r, rows*heads))
					}
					want := make([]float64, rows*heads)
					for k := range rows {
						row := k
						if backward {
							row = rows - 1 - k
						}
						for h := range heads {
							in, sum := float64(u[row*heads+h]), 0.0
							for j := h * n; j < (h+1)*n; j++ {
								if backward {
									sum += real(c.At(j) * z[j])
								}
								z[j] = complex(d.ARe[j], d.AIm[j])*z[j] + complex(d.BRe[j], d.BIm[j])*b.At(j)*complex(in, 0)
								if !backward {
									sum += real(c.At(j) * z[j])
								}
							}
							if add {
								sum += float64(inside[row*heads+h])
							} else if direct != nil {
								sum += float64(direct[h]) * in
							}
							want[row*heads+h] = sum
						}
					}
					tmp := make([]float32, s.Scratch(rows))
					sr, si := append([]float64(nil), zr...), append([]float64(nil), zi...)
					if backward {
						s.Backward(inside, u, rows, zr, zi, tmp, add)
						s.Backward(nil, u, rows, sr, si, tmp, false)
					} else {
						s.Forward(inside, u, rows, zr, zi, tmp)
						s.Forward(nil, u, rows, sr, si, tmp)
					}
					what := fmt.Sprintf("n %d heads %d rows %d kind %d", n, heads, rows, kind)
					if y[0] != guard || y[len(y)-1] != guard {
						t.Fatalf("%s: wrote beside its rows", what)
					}
					for i, w := range want {
						g := float64(inside[i])
						row, head := i/heads, i%heads
						if bad >= 0 && head == badHead &&
							(row > bad && !backward || row < bad && backward || row == bad) && w-w != 0 {
							if g-g == 0 {
								t.Fatalf("%s: row %d is %g behind what is no number", what, row, g)
							}
							continue
						}
						if !(math.Abs(g-w) <= 2e-6*float64(4+n)+5e-7*math.Abs(w)) {
							t.Fatalf("%s: row %d system %d is %g, expected %g", what, row, head, g, w)
						}
					}
					for j := range all {
						if bad >= 0 && j/n == badHead {
							continue
						}
						for _, got := range []complex128{complex(zr[j], zi[j]), complex(sr[j], si[j])} {
							if !(cmplx.Abs(got-z[j]) <= 3e-6*(1+cmplx.Abs(z[j]))) {
								t.Fatalf("%s: state %d is %v, expected %v", what, j, got, z[j])
							}
						}
					}
				}
			}
		}
	}
}

func TestScaleAdd(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		r := newRand()
		for _, n := range sizes {
			const rows = 3
			d, x, y := random(r, n), random(r, rows*n), random(r, rows*n)
			want := make([]float64, rows*n)
			for i := range want {
				want[i] = float64(y[i]) + float64(d[i%n])*float64(x[i])
			}
			ScaleAdd(y, x, rows, d)
			near(t, fmt.Sprint(n), y, want, 1e-5)
		}
	})
}

func BenchmarkSISO(b *testing.B) {
	const n, heads, rows = 64, 64, 96
	r := newRand()
	d := &Diagonal{}
	for range n * heads {
		d.ARe, d.AIm = append(d.ARe, 0.9), append(d.AIm, 0.1)
		d.BRe, d.BIm = append(d.BRe, 1), append(d.BIm, 0.5)
	}
	w, c := random(r, n*heads), random(r, n*heads)
	s, steps := NewSISO(d, n, Gains{Re: w}, Gains{Re: c}, nil), NewSISO(d, n, Gains{Re: w}, Gains{Re: c}, nil)
	steps.tables = nil
	u, y := random(r, rows*heads), make([]float32, rows*heads)
	v, x := make([]float32, rows*heads*n), make([]float32, rows*heads*n)
	zr, zi := make([]float64, n*heads), make([]float64, n*heads)
	tmp := make([]float32, s.Scratch(rows))
	in, out := PackBlocks(w, heads, n, 1), PackBlocks(c, heads, 1, n)
	for name, f := range map[string]func(){
		"blocks": func() { s.Forward(y, u, rows, zr, zi, tmp) },
		"steps":  func() { steps.Forward(y, u, rows, zr, zi, tmp) },
		"apart": func() {
			Heads(v, n*heads, u, heads, rows, in, 0, false)
			d.ScanForward(x, nil, &Inputs{Re: v}, rows, zr, zi)
			Heads(y, heads, x, n*heads, rows, out, 0, false)
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.N)*float64(rows*n*heads)/b.Elapsed().Seconds()/1e9, "Gstates/s")
		})
	}
}
