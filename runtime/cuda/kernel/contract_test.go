package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

func normal32(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func normal64(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// Two dimensions are summed over, one of which the second factor lacks, and axes are in another order in the result.
func TestContraction(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const p, q, u, v = 5, 7, 3, 4
	// y[q,p] = Σ over u, v of a[p,u,q,v]·b[v,q]
	results := []kernel.Axis{{Size: q, A: v, B: 1, C: p}, {Size: p, A: u * q * v, C: 1}}
	sums := []kernel.Axis{{Size: u, A: q * v}, {Size: v, A: 1, B: q}}
	want := func(a, b func(i int) float64, i int) (sum, size float64) {
		for iu := range u {
			for iv := range v {
				x := a(((i%p)*u+iu)*q*v + i/p*v + iv)
				if b != nil {
					x *= b(iv*q + i/p)
				}
				sum, size = sum+x, size+math.Abs(x)
			}
		}
		return sum, size
	}
	for _, alone := range []bool{false, true} {
		bench := kerneltest.New(t)
		a, b := normal32(r, p*q*u*v), normal32(r, q*v)
		c := kernel.Contraction{A: bench.In(a), B: bench.In(b), C: bench.Out(4 * p * q), Results: results, Sums: sums}
		if alone {
			c.B = 0
		}
		bench.Run(c.Calls()...)
		of := func(i int) float64 { return float64(b[i]) }
		if alone {
			of = nil
		}
		for i, y := range bench.Float32s(c.C) {
			if x, size := want(func(i int) float64 { return float64(a[i]) }, of, i); math.Abs(float64(y)-x) > 5e-7*size {
				t.Fatalf("at %d: found %v, expected %v", i, y, x)
			}
		}
	}
	bench := kerneltest.New(t)
	a, b := normal64(r, p*q*u*v), normal64(r, q*v)
	c := kernel.Contraction{Type: kernel.SumF64, A: bench.In(a), B: bench.In(b), C: bench.Out(8 * p * q), Results: results,
		Sums: sums}
	bench.Run(c.Calls()...)
	for i, y := range bench.Float64s(c.C) {
		x, size := want(func(i int) float64 { return a[i] }, func(i int) float64 { return b[i] }, i)
		if math.Abs(y-x) > 1e-15*size {
			t.Fatalf("at %d: found %v, expected %v", i, y, x)
		}
	}
	whole, other := make([]int64, p*q*u*v), make([]int64, q*v)
	for i := range whole {
		whole[i] = r.Int64N(1000) - 500
	}
	for i := range other {
		other[i] = r.Int64() - 1<<62
	}
	c = kernel.Contraction{Type: kernel.SumI64, A: bench.In(whole), B: bench.In(other), C: bench.Out(8 * p * q),
		Results: results, Sums: sums}
	bench.Run(c.Calls()...)
	for i, y := range bench.Int64s(c.C) {
		var sum int64
		for iu := range u {
			for iv := range v {
				sum += whole[((i%p)*u+iu)*q*v+i/p*v+iv] * other[iv*q+i/p]
			}
		}
		if y != sum {
			t.Fatalf("at %d: found %v, expected %v", i, y, sum)
		}
	}
}
