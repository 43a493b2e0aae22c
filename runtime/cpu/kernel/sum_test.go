package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestAddRows checks sums of rows against plain ones, bit by bit: widths around whole vectors, slices that begin
// anywhere and end at what must not be touched, and columns with NaN or Inf, which stay in theirs.
func TestAddRows(t *testing.T) { eachVariant(t, testAddRows) }

func testAddRows(t *testing.T) {
	r := newRand()
	const guards = 5
	for _, n := range []int{1, 7, 15, 16, 17, 31, 32, 48, 100, 129} {
		for _, rows := range []int{0, 1, 2, 9} {
			for _, odd := range []float32{0, float32(math.NaN()), float32(math.Inf(1))} {
				off := 1 + r.IntN(7)
				x := random(r, off+rows*n)[off:]
				if odd != 0 && rows > 0 {
					x[rows/2*n+n/2] = odd
				}
				all := make([]float64, n+2*guards)
				for i := range all {
					all[i] = r.NormFloat64()
				}
				want := append([]float64(nil), all...)
				for i, v := range x {
					want[guards+i%n] += float64(v)
				}
				AddRows(all[guards:guards+n:guards+n], x, rows)
				for i, w := range want {
					if v := all[i]; v != w && (v == v || w == w) {
						t.Fatalf("%d rows of %d, %g: sum %d is %g, expected %g", rows, n, odd, i-guards, v, w)
					}
				}
			}
		}
	}
}

func BenchmarkAddRows(b *testing.B) {
	r := newRand()
	for _, n := range []int{64, 128, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, sum := random(r, 96*n), make([]float64, n)
			for range b.N {
				AddRows(sum, x, 96)
			}
			b.ReportMetric(float64(b.N)*float64(len(x))/b.Elapsed().Seconds()/1e9, "Gnumbers/s")
		})
	}
}
