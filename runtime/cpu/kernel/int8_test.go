package kernel

import (
	"fmt"
	"math"
	"testing"
)

// int8Of is the integers of a vector and their scale, as GemmInt8 documents them.
func int8Of(x []float32) (q []int64, scale float32) {
	most := float32(0)
	for _, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return make([]int64, len(x)), float32(math.NaN())
		}
		most = max(most, max(v, -v))
	}
	q = make([]int64, len(x))
	if most < int8Least {
		return q, 0
	}
	for i, v := range x {
		q[i] = int64(math.RoundToEven(float64(v * (127 / most))))
	}
	return q, most / 127
}

func TestGemmInt8(t *testing.T) { eachVariant(t, testGemmInt8) }

// Integers, so every variant gives the very bits of the plain evaluation.
func testGemmInt8(t *testing.T) {
	t.Logf("VPDPBUSD: %v", machine.int8.bytes)
	r := newRand()
	for _, m := range sizes {
		for _, k := range sizes {
			for _, rows := range []int{0, 1, 2, 3, 4, 5, 6, 7, 13, 23} {
				what := fmt.Sprintf("m %d k %d rows %d", m, k, rows)
				w, x, bias := random(r, m*k), random(r, rows*k), random(r, m)
				if m > 2 && k > 3 {
					clear(w[k : 2*k]) // a row of zeros
					w[3] = 127
				}
				if rows > 3 && k > 2 {
					clear(x[:k])
					x[k+1], x[2*k+2] = float32(math.NaN()), float32(math.Inf(-1))
					for i := range x[3*k : 4*k] {
						x[3*k+i] *= 1e-37 // some below the range of scales
					}
				}
				if r.IntN(4) == 0 {
					bias = nil
				}
				words, ldy := Int8Words(k), m+r.IntN(3)
				all, q := guarded(rows * words)
				QuantizeInt8(q, x, rows, k)
				checkGuards(t, what+", rounding", all)
				outer, y := guarded(max(0, (rows-1)*ldy+m))
				GemmInt8(y, ldy, q, words, rows, PackInt8(w, m, k, k, 1), bias)
				checkGuards(t, what, outer)
				for i := range rows {
					a, sa := int8Of(x[i*k : (i+1)*k])
					for j := range m {
						b, sb := int8Of(w[j*k : (j+1)*k])
						sum := int64(0)
						for p := range a {
							sum += a[p] * b[p]
						}
						want := float32(sum) * float32(sa*sb)
						if bias != nil {
							want += bias[j]
						}
						if got := y[i*ldy+j]; math.Float32bits(got) != math.Float32bits(want) &&
							(got == got || want == want) {
							t.Fatalf("%s: element (%d, %d) = %g, expected %g", what, i, j, got, want)
						}
					}
				}
			}
		}
	}
}

// The largest numbers everywhere, in the longest sums.
func TestInt8Sums(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		const k, m = MaxInt8, 17
		w, x := make([]float32, m*k), make([]float32, k)
		for i := range w {
			w[i] = -3
		}
		for i := range x {
			x[i] = 5
		}
		q, y := make([]float32, Int8Words(k)), make([]float32, m)
		QuantizeInt8(q, x, 1, k)
		GemmInt8(y, m, q, len(q), 1, PackInt8(w, m, k, k, 1), nil)
		for j, v := range y {
			if math.Abs(float64(v)+15*k) > 15*k*1e-6 {
				t.Fatalf("element %d = %g, expected %d", j, v, -15*k)
			}
		}
	})
}

func TestPackInt8Transposed(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		r := newRand()
		const m, k = 21, 37
		w, tr := random(r, m*k), make([]float32, m*k)
		for i := range m {
			for j := range k {
				tr[j*m+i] = w[i*k+j]
			}
		}
		a, b := PackInt8(w, m, k, k, 1), PackInt8(tr, m, k, 1, m)
		for i := range a.data {
			if a.data[i] != b.data[i] {
				t.Fatalf("element %d: %d and %d", i, a.data[i], b.data[i])
			}
		}
	})
}

func BenchmarkGemmInt8(b *testing.B) {
	r := newRand()
	for _, s := range []struct{ rows, m, k int }{{1, 256, 256}, {96, 256, 256}, {96, 128, 128}, {96, 192, 192},
		{96, 512, 512}, {96, 32, 32}, {96, 16, 16}} {
		w, wide, low := Pack(random(r, s.m*s.k), s.m, s.k, s.k, 1), random(r, s.m*s.k),
			make([]float32, s.rows*max(Int8Words(s.k), BF16Words(s.k)))
		x, y := random(r, s.rows*s.k), make([]float32, s.rows*s.m)
		w8, w16 := PackInt8(wide, s.m, s.k, s.k, 1), PackBF16(wide, s.m, s.k, s.k, 1)
		for name, f := range map[string]func(){
			"f32":      func() { Gemm(y, s.m, x, s.k, s.rows, w, nil, false) },
			"int8":     func() { GemmInt8(y, s.m, low, Int8Words(s.k), s.rows, w8, nil) },
			"quantize": func() { QuantizeInt8(low, x, s.rows, s.k) },
			"bf16":     func() { GemmBF16(y, s.m, low, BF16Words(s.k), s.rows, w16, nil) },
			"round":    func() { RoundBF16(low, x, s.rows, s.k) },
		} {
			clear(low)
			b.Run(fmt.Sprintf("%dx%dx%d/%s", s.rows, s.m, s.k, name), func(b *testing.B) {
				for range b.N {
					f()
				}
				b.ReportMetric(2*float64(s.rows*s.m*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
