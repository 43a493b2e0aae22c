package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// random gives n numbers around zero.
func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// near reports an error unless got is within tol of want.
func near(t testing.TB, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	for i, w := range want {
		g := float64(got[i])
		if math.IsNaN(w) != math.IsNaN(g) || math.IsInf(w, 0) && g != w ||
			!math.IsNaN(w) && !math.IsInf(w, 0) && !(math.Abs(g-w) <= tol) {
			t.Fatalf("%s: element %d = %g, expected %g", what, i, g, w)
		}
	}
}

// odd sizes, around the tiles' edges.
var sizes = []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 67, 130}

func TestGemm(t *testing.T) { eachVariant(t, testGemm) }

func testGemm(t *testing.T) {
	r := newRand()
	for _, m := range sizes {
		for _, k := range sizes {
			for _, rows := range []int{0, 1, 2, 3, 6, 8, 13, 23} {
				ldx, ldy := k+r.IntN(3), m+r.IntN(3)
				w, x, bias := random(r, m*k), random(r, rows*ldx+k), random(r, m)
				for _, add := range []bool{false, true} {
					y := random(r, rows*ldy+m)
					want, all := make([]float64, len(y)), append([]float32(nil), y...)
					for i := range want {
						want[i] = float64(y[i])
					}
					for i := range rows {
						for j := range m {
							s := float64(bias[j])
							if add {
								s += float64(y[i*ldy+j])
							}
							for p := range k {
								s += float64(x[i*ldx+p]) * float64(w[j*k+p])
							}
							want[i*ldy+j] = s
						}
					}
					Gemm(all, ldy, x, ldx, rows, Pack(w, m, k, k, 1), bias, add)
					near(t, fmt.Sprintf("m %d k %d rows %d add %v", m, k, rows, add), all, want, 2e-5)
				}
			}
		}
	}
}

func TestPack(t *testing.T) { eachVariant(t, testPack) }

// testPack holds panels against their definition: row by row, column by column, and zeros behind the last row.
func testPack(t *testing.T) {
	r := newRand()
	for _, m := range []int{0, 1, 3, 4, 5, 8, 15, 16, 17, 24, 33, 70} {
		for _, k := range []int{0, 1, 7, 8, 9, 31} {
			for _, s := range [][2]int{{k, 1}, {k + 3, 1}, {1, m}, {1, m + 2}, {2*k + 1, 2}} {
				rs, cs := s[0], s[1]
				w := random(r, m*rs+k*cs+1)
				p := Pack(w, m, k, rs, cs)
				want := make([]float32, p.size())
				for i := range m {
					at, width := i/p.panel*p.panel, p.panel
					if at == p.tail() {
						width = p.last
					}
					for j := range k {
						want[at*k+j*width+i-at] = w[i*rs+j*cs]
					}
				}
				if !slices.Equal(p.data, want) {
					t.Fatalf("%d × %d at strides %d and %d: got %v, want %v", m, k, rs, cs, p.data, want)
				}
			}
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	r := newRand()
	for _, s := range []struct{ rows, m, k int }{{16, 256, 256}, {48, 256, 256}, {64, 256, 256}, {96, 256, 256},
		{128, 256, 256}, {32, 128, 128}, {64, 128, 128}, {96, 128, 128}, {96, 192, 192}, {64, 32, 32}, {64, 4, 4}} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.rows, s.m, s.k), func(b *testing.B) {
			w, x, y := Pack(random(r, s.m*s.k), s.m, s.k, s.k, 1), random(r, s.rows*s.k), make([]float32, s.rows*s.m)
			for range b.N {
				Gemm(y, s.m, x, s.k, s.rows, w, nil, false)
			}
			b.ReportMetric(2*float64(s.rows*s.m*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// Pieces of a matrix give what the whole gives.
func TestCut(t *testing.T) { eachVariant(t, testCut) }

func testCut(t *testing.T) {
	r := newRand()
	for _, m := range sizes {
		for _, rows := range []int{1, 2, 13, 25} {
			const k = 19
			w, x, bias := random(r, m*k), random(r, rows*k), random(r, m)
			p := Pack(w, m, k, k, 1)
			want, got := make([]float32, rows*m), make([]float32, rows*m)
			Gemm(want, m, x, k, rows, p, bias, false)
			for _, size := range []int{0, 1, 20, 33, 1000} {
				at := 0
				for _, q := range p.Cut(size) {
					Gemm(got[at:], m, x, k, rows, q, bias[at:at+q.M], false)
					at += q.M
				}
				exact := make([]float64, len(want))
				for i, v := range want {
					exact[i] = float64(v)
				}
				near(t, fmt.Sprintf("%d rows of %d, pieces of %d", rows, m, size), got, exact, 1e-5)
				if at != m {
					t.Fatalf("pieces of %d: %d rows, expected %d", size, at, m)
				}
				clear(got)
			}
		}
	}
}
