package kernel_test

import (
	"testing"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	. "github.com/essmc/essmc/runtime/cuda/kernel"
)

// TestMovement checks that kernels on contiguous tensors move only the bytes that they must, and that tiles of
// transposed copies have no bank conflicts.
func TestMovement(t *testing.T) {
	const rows, columns = 96, 256
	const n = rows * columns
	f32 := tensor.Float32
	x := scalar.Inputs(2)
	for _, c := range []struct {
		name        string
		strides     []int // of the second operand
		read, reads int64 // in bytes: distinct ones, and of all sectors
	}{
		{"equal shapes", []int{columns, 1}, 8 * n, 8 * n},
		{"a number per column", []int{0, 1}, 4*n + 4*columns, 8 * n},
		{"one number", []int{0, 0}, 4*n + 4, 4*n + 32*n/128},
	} {
		b := kerneltest.New(t)
		data := make([]float32, n)
		in, other, out := b.In(data), b.In(data), b.Out(4*n)
		calls, ok := Elementwise(scalar.Add(x[0], x[1]), []int{rows, columns}, Dense(out, f32), Dense(in, f32),
			Operand{Buffer: other, Type: f32, Strides: c.strides})
		if !ok || len(calls) != 1 {
			t.Fatalf("%s: %d launches", c.name, len(calls))
		}
		b.ResetCounters()
		b.Run(calls...)
		k := b.Counters().Kernels[0]
		if k.ReadDistinct != c.read || k.ReadMoved > c.reads || k.WrittenMoved != 4*n {
			t.Errorf("%s: %d bytes read, %d with whole sectors, and %d written: expected %d, at most %d, and %d", c.name,
				k.ReadDistinct, k.ReadMoved, k.WrittenMoved, c.read, c.reads, 4*n)
		}
	}
	b := kerneltest.New(t)
	in, out := b.In(make([]float32, n)), b.Out(4*n)
	calls, ok := Move([]int{columns, rows}, Dense(out, f32), Operand{Buffer: in, Type: f32, Strides: []int{1, columns}})
	if !ok {
		t.Fatal("no transposed copy")
	}
	b.ResetCounters()
	b.Run(calls...)
	k := b.Counters().Kernels[0]
	if k.ReadMoved != 4*n || k.WrittenMoved != 4*n || k.Wavefronts != k.LeastWavefronts || k.SharedAccesses == 0 {
		t.Errorf("transposed copy: %d bytes read, %d written, %d of %d passes over banks: expected %d, %d and no more passes",
			k.ReadMoved, k.WrittenMoved, k.Wavefronts, k.LeastWavefronts, 4*n, 4*n)
	}
}
