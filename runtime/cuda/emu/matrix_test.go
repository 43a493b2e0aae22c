package emu

import (
	"math"
	"math/rand/v2"
	"testing"
)

func partsOf(of func(uint32) part, bits ...uint32) []part {
	var out []part
	for _, x := range bits {
		out = append(out, of(x))
	}
	return out
}

func tf32Of(x ...float32) []part {
	var out []part
	for _, v := range x {
		out = append(out, tf32Part(math.Float32bits(v)))
	}
	return out
}

// TestTensorSum checks sums of tensor cores to those that are known of them.
func TestTensorSum(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	ulp := float32(math.Ldexp(1, -23))
	for _, c := range []struct {
		name  string
		c     float32
		a, b  []float32
		extra uint
		want  float32
	}{
		{"exact", 1, []float32{2, 3, 0, -1}, []float32{5, 7, 9, 4}, 1, 28},
		{"cut off, not rounded", 1, []float32{ulp / 2 * 1.5}, []float32{1}, 1, 1},
		{"two halves of the last bit, with one more", 1, []float32{ulp / 2, ulp / 2}, []float32{1, 1}, 1, 1 + ulp},
		{"two halves of the last bit, with none more", 1, []float32{ulp / 2, ulp / 2}, []float32{1, 1}, 0, 1},
		{"four quarters, with one more", 1, []float32{ulp / 4, ulp / 4, ulp / 4, ulp / 4}, []float32{1, 1, 1, 1}, 1, 1},
		{"four quarters, with two more", 1, []float32{ulp / 4, ulp / 4, ulp / 4, ulp / 4}, []float32{1, 1, 1, 1}, 2, 1 + ulp},
		{"the greatest exponent is that of a product that cancels", ulp, []float32{4, -4}, []float32{1, 1}, 1, 0},
		{"the greatest exponent cancels, with two more", ulp, []float32{4, -4}, []float32{1, 1}, 2, ulp},
		{"negative sums are cut off towards 0", -1, []float32{-ulp / 4}, []float32{1}, 1, -1},
		{"subnormal operands", 0, []float32{math.Float32frombits(1 << 13)}, []float32{8}, 1, 8 * math.Float32frombits(1<<13)},
		{"subnormal sums", 0, []float32{float32(math.Ldexp(1, -100))}, []float32{float32(math.Ldexp(3, -49))}, 1,
			float32(math.Ldexp(3, -149))},
		{"sums below all", 0, []float32{float32(math.Ldexp(1, -100))}, []float32{float32(math.Ldexp(1, -50))}, 1, 0},
		{"overflow", 0, []float32{float32(math.Ldexp(1, 100))}, []float32{float32(math.Ldexp(1, 28))}, 1, inf},
		{"infinite", 1, []float32{inf, 2}, []float32{2, 2}, 1, inf},
		{"negative infinite", 1, []float32{inf, 2}, []float32{-2, 2}, 1, -inf},
		{"infinite by 0", 1, []float32{inf}, []float32{0}, 1, nan},
		{"infinities that cancel", inf, []float32{inf}, []float32{-1}, 1, nan},
		{"NaN", 0, []float32{nan}, []float32{0}, 1, nan},
		{"nothing", 0, []float32{0, 0}, []float32{1, 0}, 1, 0},
	} {
		got := tensorSum(c.c, tf32Of(c.a...), tf32Of(c.b...), 4, c.extra)
		if got != c.want && (got == got || c.want == c.want) {
			t.Errorf("%s: found %v, expected %v", c.name, got, c.want)
		}
	}
}

// TestTensorSumBounds checks sums of random numbers to float64, by the bound that follows from their making.
func TestTensorSumBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		n, extra := 1+r.IntN(16), uint(r.IntN(4))
		var a, b []part
		c := float32(r.NormFloat64())
		want, top := float64(c), math.Abs(float64(c))
		for range n {
			x := math.Float32frombits(math.Float32bits(float32(r.NormFloat64()*math.Ldexp(1, r.IntN(20)-10))) &^ 0x1fff)
			y := math.Float32frombits(math.Float32bits(float32(r.NormFloat64())) &^ 0x1fff)
			a, b = append(a, tf32Of(x)...), append(b, tf32Of(y)...)
			want += float64(x) * float64(y)
			top += math.Abs(float64(x) * float64(y))
		}
		got := float64(tensorSum(c, a, b, 4, extra))
		// A block truncates five terms at 2^-(23+extra) of a number, at least a quarter of which is top, and the sum
		// at 2^-23.
		blocks := float64((n + 3) / 4)
		if e := math.Abs(got - want); e > blocks*top*(5*math.Ldexp(1, -21-int(extra))+math.Ldexp(1, -23)) {
			t.Fatalf("%d products, %d bits: found %v, expected %v within %v", n, extra, got, want, e)
		}
	}
}

// TestParts checks the parts of all numbers of 16 bits to their values.
func TestParts(t *testing.T) {
	for x := range uint32(1 << 16) {
		p := bf16Part(x)
		v := float64(math.Float32frombits(x << 16))
		switch {
		case v != v:
			if p.rare != 2 {
				t.Fatalf("bfloat16 %#x: expected NaN", x)
			}
		case math.IsInf(v, 0):
			if p.rare != 1 || v > 0 != (p.sig > 0) {
				t.Fatalf("bfloat16 %#x: expected %v", x, v)
			}
		case v != 0 && math.Ldexp(float64(p.sig), int(p.exp)-10) != v:
			t.Fatalf("bfloat16 %#x: %v, expected %v", x, p, v)
		}
	}
	for _, c := range []struct {
		bits uint32
		want float64
	}{{0x3c00, 1}, {0xc500, -5}, {1, math.Ldexp(1, -24)}, {0x3ff, math.Ldexp(1023, -24)}, {0x7bff, 65504}, {0x3555, 0.333251953125}} {
		if p := f16Part(c.bits); math.Ldexp(float64(p.sig), int(p.exp)-10) != c.want {
			t.Errorf("float16 %#x: %v, expected %v", c.bits, p, c.want)
		}
	}
	if p := partsOf(f16Part, 0x7c00, 0x7c01, 0); p[0].rare != 1 || p[1].rare != 2 || p[2].exp != nothing {
		t.Errorf("rare float16: %v", p)
	}
}
