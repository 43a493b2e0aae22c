package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestWideProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 64))
	for _, k := range []int{0, 1, 2, 5, 33} {
		for _, rows := range []int{1, 2, 3, 4, 5, 7, 8, 13} {
			for n := 1; n <= WideWidth; n++ {
				ldw, ldy := k+r.IntN(3), n+r.IntN(3)
				w, panel := make([]float64, rows*ldw), make([]float64, k*WideWidth)
				for i := range w {
					w[i] = r.NormFloat64()
				}
				for i := range panel {
					panel[i] = r.NormFloat64()
				}
				y := make([]float64, rows*ldy)
				for i := range y {
					y[i] = 77
				}
				WideProduct(y, ldy, w, ldw, rows, k, panel, n)
				for i := range rows {
					for j := range ldy {
						want := 77.0
						if j < n {
							want = 0
							for p := range k {
								want += w[i*ldw+p] * panel[p*WideWidth+j]
							}
						}
						if got := y[i*ldy+j]; math.Abs(got-want) > 1e-13 {
							t.Fatalf("k %d, %d rows, %d columns: y[%d][%d] = %v, expected %v", k, rows, n, i, j, got, want)
						}
					}
				}
			}
		}
	}
}
