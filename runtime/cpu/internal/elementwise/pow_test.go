package elementwise

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func TestPower(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 1))
	special := []float64{0, math.Copysign(0, -1), 1, -1, 2, 0.5, -2, 3, math.Inf(1), math.Inf(-1), math.NaN(), 1e-45,
		1e-38, math.MaxFloat32, -0.5, 1.0 / 3, math.Nextafter(1, 2), math.Nextafter(2, 1), 1 << 20, 1 << 21}
	check := func(x, y float64) {
		t.Helper()
		got, want := power(x, y), math.Pow(x, y)
		if math.Abs(got-want) > 1e-11*math.Abs(want) || (got != got) != (want != want) ||
			math.IsInf(got, 0) != math.IsInf(want, 0) || math.Signbit(got) != math.Signbit(want) && got == got {
			t.Fatalf("power(%v, %v) = %v, expected %v", x, y, got, want)
		}
	}
	for _, x := range special {
		for _, y := range special {
			check(x, y)
		}
	}
	for range 1 << 20 {
		x := math.Abs(float64(math.Float32frombits(r.Uint32())))
		check(x, r.NormFloat64()*math.Ldexp(1, r.IntN(12)-6))
		check(1+r.NormFloat64()*1e-3, r.NormFloat64()*1e3)
	}
	x := make([]float32, 1000)
	for i := range x {
		x[i] = math.Float32frombits(r.Uint32())
	}
	y, z := make([]float32, len(x)), make([]float32, len(x))
	kernel.Cube(y, x)
	fourthPower(z, x)
	for i, v := range x {
		if a, b := float32(math.Pow(float64(v), 3)), float32(math.Pow(float64(v), 4)); v == v && (a != y[i] || b != z[i]) {
			t.Fatalf("powers of %v: %v and %v, expected %v and %v", v, y[i], z[i], a, b)
		}
	}
}
