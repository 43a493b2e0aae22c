package emu

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFiniteBlock checks the sums by float64 to those by integers, bit by bit.
func TestFiniteBlock(t *testing.T) {
	forms := []struct {
		part   func(uint32) part
		number func(uint32) (float64, int32)
		random func(r *rand.Rand) uint32
	}{
		{tf32Part, tf32Number, func(r *rand.Rand) uint32 { return r.Uint32() }},
		{bf16Part, bf16Number, func(r *rand.Rand) uint32 { return r.Uint32() >> 16 }},
		{f16Part, f16Number, func(r *rand.Rand) uint32 { return r.Uint32() >> 16 }},
	}
	r := rand.New(rand.NewPCG(3, 4))
	tried := 0
	for range 200000 {
		f := forms[r.IntN(3)]
		n, extra := 1+r.IntN(8), int32(r.IntN(4))
		c := math.Float32frombits(r.Uint32())
		if r.IntN(8) == 0 {
			c = math.Float32frombits(r.Uint32() >> 9)
		}
		var pa, pb []part
		var va, vb []float64
		var ea, eb []int32
		rare := math.IsNaN(float64(c)) || math.IsInf(float64(c), 0)
		near := r.IntN(2) == 0
		for range n {
			x, y := f.random(r), f.random(r)
			switch r.IntN(10) {
			case 0:
				x = 0
			case 1:
				y &= 0x83ff // small numbers of each format
			}
			if near { // close exponents, so that all products contribute to the sums
				x = x&^(0x7<<12) | 0x3<<12
			}
			v, e := f.number(x)
			u, d := f.number(y)
			rare = rare || e == rareExponent || d == rareExponent
			pa, pb, va, vb, ea, eb = append(pa, f.part(x)), append(pb, f.part(y)), append(va, v), append(vb, u), append(ea, e), append(eb, d)
		}
		if rare {
			continue
		}
		tried++
		want, got := tensorBlock(c, pa, pb, uint(extra)), finiteBlock(c, va, vb, ea, eb, extra)
		if math.Float32bits(want) != math.Float32bits(got) {
			t.Fatalf("%v + %v · %v with %d more bits: found %v, expected %v", c, va, vb, extra, got, want)
		}
	}
	if tried < 50000 {
		t.Errorf("%d sums were tried", tried)
	}
}
