package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// guard is what the numbers around a kernel's output hold; it must stay.
const guard = 12345

// TestHeads checks the block-diagonal product against its definition in float64: blocks of every kind, rows that lie apart,
// slices that begin anywhere, NaN and Inf.
func TestHeads(t *testing.T) { eachVariant(t, testHeads) }

func testHeads(t *testing.T) {
	r := newRand()
	type size struct{ heads, p, q, shared int }
	all := []size{{6, 4, 3, 0}, {6, 5, 7, 3}, {64, 4, 4, 0}, {8, 2, 2, 0}, {4, 4, 4, 2}, {3, 17, 9, 1}, {4, 0, 3, 0},
		{4, 3, 0, 0}, {4, 1, 0, 0}, {0, 1, 3, 0},
		{7, 6, 8, 0}, {5, 8, 6, 0}, {16, 8, 8, 0}, {3, 5, 4, 0}, {2, 7, 6, 0}, {2, 5, 8, 0}, {6, 4, 4, 0}, {4, 2, 2, 0},
		{2, 8, 4, 0}, {3, 24, 32, 0}, {3, 32, 24, 0}, {9, 2, 4, 0}, {9, 4, 2, 0}, {6, 4, 8, 0}, {5, 4, 8, 0},
		{10, 8, 4, 0}, {12, 8, 4, 4}, {3, 18, 8, 0}, {9, 3, 5, 3}, {4, 12, 5, 2}, {1, 3, 3, 0}, {2, 18, 2, 0},
		{1, 70, 3, 0}}
	for _, heads := range []int{1, 2, 4, 7, 16} {
		for _, n := range sizes[1:] {
			all = append(all, size{heads, 1, n, 0}, size{heads, n, 1, 0}, size{2 * heads, 1, n, heads},
				size{3 * heads, n, 1, heads})
		}
	}
	for _, c := range all {
		for _, rows := range []int{0, 1, 2, 5, 6, 13} {
			in := c.heads
			if c.shared > 0 {
				in = c.shared
			}
			width, from := c.heads*c.p, in*c.q
			ldx, ldy, off := from+r.IntN(3), width+r.IntN(3), 1+r.IntN(7)
			raw, x := random(r, c.heads*c.p*c.q), random(r, off+rows*ldx+from)[off:]
			odd := rows > 1 && from > 0 && r.IntN(4) == 0
			if odd { // in one row; the others must not see it
				x[ldx+r.IntN(from)] = float32(math.NaN())
				x[ldx+r.IntN(from)] = float32(math.Inf(1))
			}
			for _, add := range []bool{false, true} {
				y := make([]float32, off+rows*ldy+9)
				for i := range y {
					y[i] = guard
				}
				want := make([]float64, len(y))
				for i := range want {
					want[i] = guard
				}
				for i := range rows {
					for j := range width {
						h, s := j/c.p, 0.0
						if add {
							s = guard
						}
						for k := range c.q {
							s += float64(raw[j*c.q+k]) * float64(x[i*ldx+h%in*c.q+k])
						}
						want[off+i*ldy+j] = s
					}
				}
				Heads(y[off:], ldy, x, ldx, rows, PackBlocks(slices.Clone(raw), c.heads, c.p, c.q), c.shared, add)
				tol := 2e-5
				if add {
					tol = 4e-3
				}
				near(t, fmt.Sprintf("%+v rows %d add %v odd %v", c, rows, add, odd), y, want, tol)
			}
		}
	}
}

func BenchmarkHeads(b *testing.B) {
	r := newRand()
	for _, rows := range []int{6, 96} {
		for _, s := range []struct{ n, m, k int }{{16, 16, 1}, {16, 1, 16}, {64, 1, 64}, {16, 20, 1}, {16, 1, 20},
			{32, 4, 4}, {64, 4, 8}, {64, 8, 4}, {16, 6, 8}, {16, 8, 6}, {8, 24, 32}, {8, 32, 24}} {
			b.Run(fmt.Sprintf("rows%d/%dx%dx%d", rows, s.n, s.m, s.k), func(b *testing.B) {
				w := PackBlocks(random(r, s.n*s.m*s.k), s.n, s.m, s.k)
				x, y := random(r, rows*s.n*s.k), make([]float32, rows*s.n*s.m)
				for b.Loop() {
					Heads(y, s.n*s.m, x, s.n*s.k, rows, w, 0, false)
				}
				b.ReportMetric(2*float64(rows*s.n*s.m*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
