package std_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/std"
)

// The factors of a product of integers are not rounded, and neither is a part of the sum: 0.25 · 6 + 0.5 · 3 = 3.
func TestGemmOfIntegers(t *testing.T) {
	s := opstest.Of(tensor.FromSlice([]int32{2}, 1, 1), tensor.FromSlice([]int32{3}, 1, 1), tensor.FromSlice([]int32{3}, 1))
	n := opstest.Plain(t, std.Gemm, s.With(ir.A("alpha", 0.25), ir.A("beta", 0.5)))
	want, err := opstest.Eval(n, s.In, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := opstest.EvalBody(&ir.EvalCtx{Node: n}, s.In)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []tensor.Datum{want[0], got[0]} {
		if y := tensor.Data[int32](x.(*tensor.Tensor))[0]; y != 3 {
			t.Errorf("found %d, expected 3", y)
		}
	}
}
