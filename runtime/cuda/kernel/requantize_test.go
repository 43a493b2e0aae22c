package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// TestRequantization checks results of 8 bits against the definition, whose operations are rounded to float32: with ties, beyond
// the range, and with a scale that makes NaN.
func TestRequantization(t *testing.T) {
	for i, c := range []struct {
		out     tensor.DType
		m, n    int
		toScale float32
	}{{tensor.Int8, 19, 24, 64}, {tensor.Uint8, 19, 23, 50}, {tensor.Int8, 5, 8, 0.001}, {tensor.Uint8, 5, 9, float32(math.NaN())}} {
		r := rand.New(rand.NewPCG(12, uint64(i)))
		b := kerneltest.New(t)
		const k, count = 37, 2
		batch := []int{count}
		x, w := narrows(r, tensor.Int8, c.m, k, false, false, 0, batch), narrows(r, tensor.Int8, c.n, k, true, false, 0, batch)
		scaleA, scaleB := make([]float32, c.m), make([]uint16, c.n)
		for j := range scaleA {
			scaleA[j] = 0.25 * float32(1+r.IntN(4))
		}
		for j := range scaleB {
			scaleB[j] = uint16(tensor.ToF16(0.25 * float64(1+r.IntN(4))))
		}
		zero := narrows(r, c.out, 1, 1, false, true, 0, nil)
		p := kernel.Product{M: c.m, N: c.n, K: x.Words(), Batch: batch, A: x.words(t, b), B: w.words(t, b),
			Precision: kernel.BytesSS, Result: kernel.SumI8, Requantized: &kernel.Requantization{
				A: kernel.Scales{Buffer: b.In(scaleA), Each: true}, B: kernel.Scales{Buffer: b.In(scaleB), Type: kernel.SumF16, Each: true},
				Y: kernel.Scales{Buffer: b.In([]float32{c.toScale})}, Zero: b.In(zero.data), Rows: c.m, Signed: c.out == tensor.Int8}}
		p.C = kernel.Matrix{Buffer: b.Out(count * c.m * c.n), Row: c.n, Inner: 1, Batch: []int{c.m * c.n}}
		b.Run(p.Calls(b.Out)...)
		got := b.Bytes(p.C.Buffer)
		low, high := 0.0, 255.0
		if c.out == tensor.Int8 {
			low, high = -128, 127
		}
		for at := range got {
			row, col, index := at/c.n%c.m, at%c.n, []int{at / (c.m * c.n)}
			sum := 0.0
			for l := range k {
				sum += x.get(index, row, l) * w.get(index, col, l)
			}
			factor := scaleA[row] * tensor.F16(scaleB[col]).Float32()
			want := math.RoundToEven(float64(float32(sum)*(factor/c.toScale))) + zero.values[0]
			if want = min(max(want, low), high); math.IsNaN(want) {
				want = 0
			}
			found := float64(got[at])
			if c.out == tensor.Int8 {
				found = float64(int8(got[at]))
			}
			if found != want {
				t.Fatalf("%v, at %d: found %v, expected %v", c, at, found, want)
			}
		}
	}
}
