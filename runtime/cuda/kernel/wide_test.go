package kernel_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// TestWide checks functions of float64 against package math, in units in the last place.
func TestWide(t *testing.T) {
	var x []float64
	for i := -60; i <= 60; i++ {
		for _, m := range []float64{1, 1.2345678901, 1.41421356, 1.9999999} {
			v := math.Ldexp(m, i)
			x = append(x, v, -v)
		}
	}
	for i := range 400 {
		x = append(x, float64(i)*3.7-740, float64(i)*0.01-2)
	}
	inf := math.Inf(1)
	x = append(x, 0, math.Copysign(0, -1), inf, -inf, math.NaN(), 5e-324, 1e-310, math.MaxFloat64, 700.5, 710.5, -745, -746, 1)
	b := kerneltest.New(t)
	run := func(e scalar.Expr, in ...[]float64) []float64 {
		var ops []kernel.Operand
		for _, v := range in {
			ops = append(ops, kernel.Dense(b.In(v), tensor.Float64))
		}
		y := b.Out(8 * len(in[0]))
		calls, ok := kernel.Elementwise(e, []int{len(in[0])}, kernel.Dense(y, tensor.Float64), ops...)
		if !ok {
			t.Fatalf("%v is not computed", e)
		}
		b.Run(calls...)
		return b.Float64s(y)
	}
	check := func(name string, got, want, at, bound float64) {
		if got == want || math.IsNaN(got) && math.IsNaN(want) {
			return
		}
		ulp := max(math.Abs(want)*0x1p-52, 5e-324)
		if d := math.Abs(got-want) / ulp; !(d <= bound) {
			t.Errorf("%s(%v) is %v, expected %v: off by %.3g units", name, at, got, want, d)
		}
	}
	in := scalar.Input(0)
	for _, f := range []struct {
		name  string
		e     scalar.Expr
		of    func(float64) float64
		bound float64
	}{
		{"exp", scalar.Exp(in), math.Exp, 2}, {"expm1", scalar.Expm1(in), math.Expm1, 4}, {"log", scalar.Log(in), logarithm, 2},
		{"log1p", scalar.Log1p(in), math.Log1p, 4}, {"tanh", scalar.Tanh(in), math.Tanh, 6},
		{"sigmoid", scalar.Sigmoid(in), func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 6},
	} {
		for i, y := range run(f.e, x) {
			check(f.name, y, f.of(x[i]), x[i], f.bound)
		}
	}
	var a, p []float64
	for _, v := range []float64{0, math.Copysign(0, -1), 1, -1, 2, -2, 3, 0.5, 7.25, -7.25, 1e10, 1.0001, inf, -inf, math.NaN()} {
		for _, w := range []float64{0, 1, -1, 2, 3, -3, 0.5, -0.5, 64, 65, 1.5, 20, inf, -inf, math.NaN(), 1e9 + 1} {
			a, p = append(a, v), append(p, w)
		}
	}
	for i, y := range run(scalar.Pow(in, scalar.Input(1)), a, p) {
		want, bound := math.Pow(a[i], p[i]), 8.0
		if l := math.Abs(p[i] * math.Log(math.Abs(a[i]))); !math.IsInf(l, 0) && l == l {
			bound += 2 * l
		}
		check("pow", y, want, a[i], bound)
	}
}

// logarithm is math.Log, which is wrong below the normal numbers on some machines.
func logarithm(x float64) float64 {
	if x > 0 && x < 0x1p-1000 {
		return math.Log(x*0x1p60) - 60*math.Ln2
	}
	return math.Log(x)
}
