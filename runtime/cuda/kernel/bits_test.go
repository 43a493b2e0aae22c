package kernel_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/runtime/cuda/kernel"
)

// TestBits checks operations on bits of all integers, with broadcasting, against those on bytes.
func TestBits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for _, d := range tensor.DTypes() {
		if !HasBits(d) {
			continue
		}
		size := d.Bits() / 8
		random := func(shape ...int) *tensor.Tensor {
			n, _ := tensor.Size(shape)
			data := make([]byte, n*size)
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			x, err := tensor.FromBytes(d, shape, data)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		for _, shape := range [][]int{{1}, {7, 5}, {3, 8}, {2, 3, 131}, {0, 3}} {
			a, b := random(shape...), random(shape[len(shape)-1])
			row := len(b.Bytes())
			for op, f := range map[BitsOf]func(a, b byte) byte{
				And: func(a, b byte) byte { return a & b },
				Or:  func(a, b byte) byte { return a | b },
				Xor: func(a, b byte) byte { return a ^ b },
				Not: func(a, _ byte) byte { return ^a },
			} {
				want := make([]byte, len(a.Bytes()))
				for i := range want {
					want[i] = f(a.Bytes()[i], b.Bytes()[i%row])
				}
				in := []Operand{Dense(2, d), {Buffer: 3, Type: d, Strides: ops.BroadcastStrides(b.Shape(), shape)}}
				if op == Not {
					in = in[:1]
				}
				calls, ok := Bits(op, shape, Dense(1, d), in...)
				if !ok {
					t.Fatalf("%s of %v: no kernel", op, d)
				}
				if got := run(t, calls, len(want), []*tensor.Tensor{a, b}); !bytes.Equal(got, want) {
					t.Errorf("%s of %v %v: expected %x, found %x", op, d, shape, want, got)
				}
			}
		}
	}
	if _, ok := Bits(And, []int{3}, Dense(1, tensor.Float32), Dense(2, tensor.Float32), Dense(3, tensor.Float32)); ok {
		t.Error("bits of floats are combined")
	}
}
