package kernel_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cuda/kernel"
)

// TestTranspose checks copies by tiles.
func TestTranspose(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, d := range []tensor.DType{tensor.Int8, tensor.Float16, tensor.Float32, tensor.Int64} {
		for _, c := range []struct{ shape, strides []int }{
			{[]int{33, 65}, []int{1, 33}}, {[]int{8, 8}, []int{1, 8}}, {[]int{3, 31, 2, 40}, []int{31 * 2 * 40, 1, 31 * 40, 31}},
			{[]int{40, 3, 9}, []int{1, 40 * 9, 40}}, {[]int{9, 70}, []int{1, -11}},
		} {
			size, n := d.Bits()/8, 1
			for _, k := range c.shape {
				n *= k
			}
			x := tensor.New(d, 1+2*n)
			for i := range x.Bytes() {
				x.Bytes()[i] = byte(r.Uint32())
			}
			list := []Operand{Dense(1, d), {Buffer: 2, Type: d, Offset: n + 200, Strides: c.strides}}
			if c.strides[1] > 0 {
				list[1].Offset = 1
			}
			calls, ok := Move(c.shape, list[0], list[1])
			if !ok || len(calls) != 1 || calls[0].Code.Name != "transpose" {
				t.Fatalf("%v of strides %v is not copied by tiles", c.shape, c.strides)
			}
			got, want := run(t, calls, n*size, []*tensor.Tensor{x}), make([]byte, n*size)
			walk(c.shape, list, func(at []int) { copy(want[at[0]*size:][:size], x.Bytes()[at[1]*size:][:size]) })
			if !bytes.Equal(got, want) {
				t.Errorf("%v of shape %v and strides %v: wrong", d, c.shape, c.strides)
			}
		}
	}
}
