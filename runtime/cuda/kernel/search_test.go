package kernel_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

func TestSearch(t *testing.T) {
	nan, zero := float32(math.NaN()), float32(math.Copysign(0, -1))
	for _, c := range [][3]int{{1, 1, 1}, {3, 7, 1}, {2, 100, 1}, {2, 1500, 1}, {2, 5, 3}, {1, 300, 40}, {3, 17, 33}} {
		outer, n, inner := c[0], c[1], c[2]
		for kind := range 3 {
			x := far(outer*n*inner, 0)
			for i := range x {
				x[i] = float32(math.Round(float64(x[i]))) // many are equal, and some -0
				if kind == 1 && i%7 == 3 {
					x[i] = nan
				}
				if kind == 2 {
					x[i] = []float32{0, zero}[i%2]
				}
			}
			for _, s := range []kernel.Search{{}, {Least: true}, {Last: true}, {Least: true, Last: true}, {Hard: true}} {
				b := kerneltest.New(t)
				y := b.In(make([]float32, len(x)))
				if !s.Hard {
					y = b.Out(8 * outer * inner)
				}
				call, ok := s.Call(y, b.In(x), outer, n, inner)
				if !ok {
					t.Fatal(c)
				}
				b.Run(call)
				var hard []float32
				var places []int64
				if s.Hard {
					hard = b.Float32s(y)
				} else {
					places = b.Int64s(y)
				}
				for o := range outer {
					for i := range inner {
						at := 0
						for j := 1; j < n; j++ {
							v, best := x[(o*n+j)*inner+i], x[(o*n+at)*inner+i]
							if (v > best && !s.Least) || (v < best && s.Least) || s.Last && v == best || v != v && best == best {
								at = j
							}
						}
						if s.Hard {
							for j := range n {
								want := float32(0)
								if j == at {
									want = 1
								}
								if got := hard[(o*n+j)*inner+i]; got != want {
									t.Fatalf("%v, kind %d, %+v: number %d of line %d, %d: expected %v, found %v", c, kind, s, j, o, i, want, got)
								}
							}
						} else if got := places[o*inner+i]; got != int64(at) {
							t.Fatalf("%v, kind %d, %+v: line %d, %d: expected %d, found %d", c, kind, s, o, i, at, got)
						}
					}
				}
			}
		}
	}
}
