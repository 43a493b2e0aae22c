package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// exactF16 returns the nearest float16 by its definition.
func exactF16(x float64) float64 {
	size := math.Abs(x)
	if x != x || math.IsInf(x, 0) {
		return x
	}
	_, e := math.Frexp(size)
	unit := math.Ldexp(1, max(e-11, -24))
	y := math.RoundToEven(size/unit) * unit
	if y > 65504 {
		y = math.Inf(1)
	}
	return math.Copysign(y, x)
}

func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func TestHalves(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	eachVariant(t, func(t *testing.T) {
		wide, back := make([]float32, len(all)), make([]uint16, len(all))
		WidenF16(wide, all)
		NarrowF16(back, wide)
		for i, x := range wide {
			if y := float32(exactF16(float64(x))); !sameFloat(x, y) || x == x && back[i] != all[i] {
				t.Fatalf("float16 %04x: widened to %v, which is %04x", i, x, back[i])
			}
		}
		WidenBF16(wide, all)
		NarrowBF16(back, wide)
		for i, x := range wide {
			if x == x && (back[i] != all[i] || math.Float32bits(x) != uint32(i)<<16) {
				t.Fatalf("bfloat16 %04x: widened to %v, which is %04x", i, x, back[i])
			}
		}
		r := rand.New(rand.NewPCG(16, 1))
		x := make([]float32, 1<<16+5)
		for i := range x {
			switch r.IntN(4) {
			case 0:
				x[i] = math.Float32frombits(r.Uint32())
			case 1: // near ties
				x[i] = math.Float32frombits(math.Float32bits(fromF16(uint16(r.Uint32()))) ^ 0x1000 + r.Uint32N(3) - 1)
			case 2:
				x[i] = math.Float32frombits(r.Uint32()&0xffff0000 | 0x7fff + r.Uint32N(3))
			case 3:
				x[i] = float32(r.NormFloat64() * math.Ldexp(1, r.IntN(44)-28))
			}
		}
		copy(x, []float32{65504, 65519, 65520, 65536, float32(math.Inf(-1)), float32(math.NaN()), 0,
			float32(math.Copysign(0, -1))})
		for _, n := range []int{0, 1, 7, 8, 9, 31, 33, len(x)} {
			y, b, h := make([]float32, n), make([]float32, n), make([]uint16, n)
			Float16(y, x[:n])
			BFloat16(b, x[:n])
			NarrowF16(h, x[:n])
			for i := range n {
				if want := float32(exactF16(float64(x[i]))); !sameFloat(y[i], want) || !sameFloat(fromF16(h[i]), want) {
					t.Fatalf("%v rounds to %v and %v as float16, expected %v", x[i], y[i], fromF16(h[i]), want)
				}
				if want := roundBF16(x[i]); !sameFloat(b[i], want) {
					t.Fatalf("%v rounds to %v as bfloat16, expected %v", x[i], b[i], want)
				}
			}
		}
	})
}
