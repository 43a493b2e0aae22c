package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestNorms checks the norms over features against their definitions in float64: rows whose mean is far from zero, in
// place and not, slices that begin anywhere, and rows with NaN or Inf, which must not touch their neighbours.
func TestNorms(t *testing.T) { eachVariant(t, testNorms) }

func testNorms(t *testing.T) {
	r := newRand()
	const rows, eps, m, s = 7, 1e-5, 0.3, 1.7
	for _, f := range append(sizes[1:], 1000) {
		for kind := range 12 {
			centre, inPlace, odd := float64(1000*(kind&1)), kind&2 != 0, kind >= 8
			off := 1 + r.IntN(7)
			x := random(r, off+rows*f)[off:]
			for i := range x {
				x[i] += float32(centre)
			}
			if odd {
				x[f+r.IntN(f)] = float32([]float64{math.NaN(), math.Inf(1)}[kind&1])
			}
			scale, shift := random(r, f+1)[1:], random(r, f+3)[3:]
			for name, norm := range map[string]func(y, x []float32){
				"layer":          func(y, x []float32) { LayerNorm(y, x, rows, f, eps, scale, shift) },
				"layer, unmoved": func(y, x []float32) { LayerNorm(y, x, rows, f, eps, scale, nil) },
				"rms":            func(y, x []float32) { RMSNorm(y, x, rows, f, eps, scale) },
				"scalar":         func(y, x []float32) { ScalarNorm(y, x, rows, f, m, s) },
			} {
				if name == "scalar" && f == 1 {
					continue // no variance
				}
				want := make([]float64, rows*f+9)
				for i := range want {
					want[i] = guard
				}
				top := 0.0
				for q := range rows {
					row := x[q*f : (q+1)*f]
					mean, variance, square := 0.0, 0.0, 0.0
					for _, v := range row {
						mean += float64(v) / float64(f)
						square += float64(v) * float64(v) / float64(f)
					}
					for _, v := range row {
						variance += (float64(v) - mean) * (float64(v) - mean) / float64(f)
					}
					for i, v := range row {
						w := (float64(v) - mean) / math.Sqrt(variance+eps) * float64(scale[i])
						switch name {
						case "layer":
							w += float64(shift[i])
						case "rms":
							w = float64(v) / math.Sqrt(square+eps) * float64(scale[i])
						case "scalar":
							w = s / math.Sqrt(variance) * (float64(v) - mean + m)
						}
						want[q*f+i] = w
						if a := math.Abs(w); a > top {
							top = a
						}
					}
				}
				y := make([]float32, len(want))
				for i := range y {
					y[i] = guard
				}
				src := x
				if inPlace {
					copy(y, x)
					src = y
				}
				norm(y[:rows*f], src[:rows*f])
				near(t, fmt.Sprintf("%s f %d kind %d", name, f, kind), y, want, 1e-6*max(1, top))
			}
		}
	}
}

// TestNormRows checks that the rows that norms compute together get the answers, to the bit, that each gets by itself.
func TestNormRows(t *testing.T) { eachVariant(t, testNormRows) }

func testNormRows(t *testing.T) {
	r := newRand()
	for _, f := range []int{1, 7, 8, 9, 24, 130} {
		scale, shift := random(r, f), random(r, f)
		for rows := range 10 {
			x := random(r, rows*f)
			for name, norm := range map[string]func(y, x []float32, rows int){
				"layer":          func(y, x []float32, rows int) { LayerNorm(y, x, rows, f, 1e-5, scale, shift) },
				"layer, unmoved": func(y, x []float32, rows int) { LayerNorm(y, x, rows, f, 1e-5, scale, nil) },
				"rms":            func(y, x []float32, rows int) { RMSNorm(y, x, rows, f, 1e-5, scale) },
			} {
				y := make([]float32, rows*f+1)
				y[rows*f] = guard
				norm(y, x, rows)
				want := make([]float32, rows*f, rows*f+1)
				for row := range rows {
					norm(want[row*f:(row+1)*f], x[row*f:(row+1)*f], 1)
				}
				if want = append(want, guard); !slices.Equal(y, want) {
					t.Errorf("%s, %d rows of %d: %v, expected %v", name, rows, f, y, want)
				}
				copy(y, x)
				if norm(y, y, rows); !slices.Equal(y, want) {
					t.Errorf("%s, %d rows of %d in place: %v, expected %v", name, rows, f, y, want)
				}
			}
		}
	}
}
