package kernel

import (
	"fmt"
	"math"
	"testing"
)

// nearestBF16 rounds by looking at which side of the middle between two neighbours x lies.
func nearestBF16(x float32) float64 {
	if x != x || math.IsInf(float64(x), 0) {
		return float64(x)
	}
	low := math.Float32bits(x) &^ 0xffff
	middle, size := math.Float32frombits(low|0x8000), math.Abs(float64(x))
	if m := math.Abs(float64(middle)); size > m || size == m && low&0x10000 != 0 {
		low += 0x10000
	}
	return float64(math.Float32frombits(low))
}

func TestRoundBF16(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		r := newRand()
		x := spread()
		for range 10000 {
			x = append(x, math.Float32frombits(r.Uint32()))
		}
		for _, bits := range []uint32{0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x7f7fffff, 0x7f7f7fff,
			0x7f800001, 0xff800001, 0xffffffff, 1, 0x8000, 0x8001, 0x18000} {
			x = append(x, math.Float32frombits(bits))
		}
		for n := range 70 {
			n = min(n*n*n, len(x))
			for _, rows := range []int{1, 3} {
				k, words := n/rows, BF16Words(n/rows)
				all, y := guarded(rows * words)
				RoundBF16(y, x, rows, k)
				checkGuards(t, "rounding", all)
				for i, v := range x[:rows*k] {
					got := y[i/k*words:][:words]
					q := float64(0)
					if machine.pairs {
						q = float64(math.Float32frombits(uint32(uint16s(got)[i%k]) << 16))
					} else {
						q = float64(got[i%k])
					}
					if want := nearestBF16(v); q != want && (q == q || want == want) {
						t.Fatalf("%g (%#x) of %d by %d becomes %g, expected %g", v, math.Float32bits(v), rows, k, q, want)
					}
				}
			}
		}
	})
}

func TestGemmBF16(t *testing.T) { eachVariant(t, testGemmBF16) }

func testGemmBF16(t *testing.T) {
	t.Logf("AVX512_BF16: %v", machine.pairs)
	r := newRand()
	for _, m := range sizes {
		for _, k := range sizes {
			for _, rows := range []int{0, 1, 2, 3, 5, 6, 7, 11, 13, 35} {
				what := fmt.Sprintf("m %d k %d rows %d", m, k, rows)
				w, x, bias := random(r, m*k), random(r, rows*k), random(r, m)
				if rows > 3 && k > 2 {
					x[k+1], x[2*k+2] = float32(math.NaN()), float32(math.Inf(-1))
				}
				if rows > 6 && k > 2 {
					x[6*k], x[6*k+1] = 0x1p-130, -0x1p-149 // denormal numbers, which may count as zeros
				}
				if r.IntN(4) == 0 {
					bias = nil
				}
				words, ldy := BF16Words(k), m+r.IntN(3)
				all, q := guarded(rows * words)
				RoundBF16(q, x, rows, k)
				checkGuards(t, what+", rounding", all)
				outer, y := guarded(max(0, (rows-1)*ldy+m))
				GemmBF16(y, ldy, q, words, rows, PackBF16(w, m, k, k, 1), bias)
				checkGuards(t, what, outer)
				for i := range rows {
					want := make([]float64, m)
					for j := range want {
						if bias != nil {
							want[j] = float64(bias[j])
						}
						for p := range k {
							want[j] += nearestBF16(x[i*k+p]) * nearestBF16(w[j*k+p])
						}
					}
					near(t, what, y[i*ldy:][:m], want, 2e-5)
				}
			}
		}
	}
}
