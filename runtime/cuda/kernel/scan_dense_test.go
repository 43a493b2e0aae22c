package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

func TestDenseScan(t *testing.T) {
	for i, s := range []kernel.DenseScan{
		{Batch: 1, Length: 1, Heads: 1, States: 1}, {Batch: 2, Length: 17, Heads: 3, States: 7},
		{Batch: 2, Length: 17, Heads: 3, States: 7, Backward: true, Add: true},
		{Batch: 2, Length: 12, Heads: 2, States: 33, Lags: 5, State32: true},
		{Batch: 1, Length: 3, Heads: 2, States: 5, Lags: 8}, {Batch: 1, Length: 20, Heads: 2, States: 5, Lags: 8, Backward: true},
		{Batch: 1, Length: 5, Heads: 1, States: 300},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(9, uint64(i)))
			n, all := s.States, s.Heads*s.States
			per := s.StateSize()
			a, g := doubles(r, all*n, 1/math.Sqrt(float64(n))), doubles(r, all*n, 1)
			v, x, first := numbers(r, s.Batch*s.Length*all), numbers(r, s.Batch*s.Length*all), doubles(r, s.Batch*per, 1)
			d := kerneltest.New(t)
			s.V, s.X, s.Tables = d.In(v), d.In(x), d.In(kernel.DenseTables(s.Heads, n, s.Lags, a, g))
			switch {
			case s.Backward:
				clear(first)
			case s.State32:
				s.First, s.Last = d.In(single(first)), d.Out(4*len(first))
			default:
				s.First, s.Last = d.In(first), d.Out(8*len(first))
			}
			d.Run(s.Calls()...)
			want, last := make([]float64, len(x)), make([]float64, len(first))
			for b := range s.Batch {
				input := func(t, j int) float64 {
					switch {
					case t >= s.Length:
						return 0
					case t >= 0:
						return float64(v[(b*s.Length+t)*all+j])
					case s.Lags == 0:
						return 0
					}
					return first[b*per+all*(1+s.Lags+t)+j]
				}
				for h := range s.Heads {
					product := func(m, x []float64) []float64 {
						y := make([]float64, n)
						for i := range n {
							for j := range n {
								y[i] += m[h*n*n+i*n+j] * x[j]
							}
						}
						return y
					}
					at := func(t int) []float64 {
						u := make([]float64, n)
						for i := range u {
							u[i] = input(t, h*n+i)
						}
						return product(g, u)
					}
					z := append([]float64(nil), first[b*per+h*n:][:n]...)
					read := func(t int) {
						for i, v := range z {
							want[(b*s.Length+t)*all+h*n+i] = v
							if s.Add {
								want[(b*s.Length+t)*all+h*n+i] += float64(x[(b*s.Length+t)*all+h*n+i])
							}
						}
					}
					for q := range s.Length {
						t, old := q, q-s.Lags
						if s.Backward {
							t = s.Length - 1 - q
							old = t + s.Lags
							read(t)
						}
						z = product(a, z)
						for i, v := range at(t) {
							z[i] += v
						}
						if s.Lags > 0 {
							cut := at(old)
							for range s.Lags {
								cut = product(a, cut)
							}
							for i, v := range cut {
								z[i] -= v
							}
						}
						if !s.Backward {
							read(t)
						}
					}
					copy(last[b*per+h*n:], z)
				}
				for lag := range s.Lags {
					for j := range all {
						last[b*per+all*(1+lag)+j] = input(s.Length-s.Lags+lag, j)
					}
				}
			}
			within(t, "x", d.Float32s(s.X), want, 1e-6)
			switch {
			case s.Last == 0:
			case s.State32:
				within(t, "state", d.Float32s(s.Last), last, 1e-6)
			default:
				within(t, "state", single(d.Float64s(s.Last)), last, 1e-6)
			}
		})
	}
}
