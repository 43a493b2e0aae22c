package regions

import (
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// variedBytes is true of weights, by tensors, rows and columns, and of no matrix with constant diagonals.
func TestVariedBytes(t *testing.T) {
	const l = 40
	r := rand.New(rand.NewPCG(1, 2))
	for _, signed := range []bool{false, true} {
		for _, axis := range []int{-1, 0, 1} { // -1: one scale
			for _, toeplitz := range []bool{false, true} {
				count := l
				if axis < 0 {
					count = 1
				}
				scales, zeros := make([]float32, count), make([]byte, count)
				for i := range scales {
					scales[i] = 0.5
					if !toeplitz {
						scales[i], zeros[i] = r.Float32(), byte(r.IntN(9))
					}
				}
				b := make([]byte, l*l)
				for i := range b {
					b[i] = byte(r.IntN(100))
					if toeplitz {
						b[i] = byte((i/l-i%l)*7 + 3)
					}
				}
				b[5*l+9]++ // a few may differ
				q, z := tensor.FromSlice(b, l, l), tensor.FromSlice(zeros, count)
				if signed {
					q, z = must(tensor.FromBytes(tensor.Int8, []int{l, l}, b)), must(tensor.FromBytes(tensor.Int8, []int{count}, zeros))
				}
				scale := tensor.FromSlice(scales, count)
				if axis < 0 {
					scale, z = must(scale.Reshape()), must(z.Reshape())
				}
				e := ir.NewBuilder("g", ops.Default, ops.Opsets())
				v := e.Op("", "DequantizeLinear", []*ir.Value{e.Const("q", q), e.Const("s", scale), e.Const("z", z)},
					ir.A("axis", max(axis, 0)))
				if err := e.Err(); err != nil {
					t.Fatal(err)
				}
				if got := variedBytes(v); got == toeplitz {
					t.Errorf("signed %v, axis %d, constant diagonals %v: %v", signed, axis, toeplitz, got)
				}
			}
		}
	}
	if variedBytes(nil) || variedBytes(&ir.Value{}) {
		t.Error("a value that is not dequantized")
	}
}

func must(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return t
}
