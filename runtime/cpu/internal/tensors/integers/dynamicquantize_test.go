package integers_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors/integers"
)

func TestDynamicQuantizeLinear(t *testing.T) {
	r := NewGen(24)
	for _, x := range []*tensor.Tensor{
		r.Floats(1, 3, 5), r.Floats(1e20, 2, 100, 91), r.Floats(1e-30, 40), r.Floats(1, 3, integers.DynamicPart),
		tensor.New(tensor.Float32, 7), With(r.Floats(1, 9), 3, math.NaN()), With(r.Floats(1, 90), 3, math.Inf(1)),
		With(r.Floats(1e38, 90), 0, 3e38), r.Floats(1, 0, 3),
		tensor.FromSlice([]float32{1, 2, 3}, 3), tensor.FromSlice([]float32{-1, -2, -3}, 3),
		tensor.FromSlice([]float32{1e-45, 0, 0}, 3),
	} {
		on.SameAnyhow(t, "DynamicQuantizeLinear", 3, []Operand{Given(x)})
	}
	on.Same(t, "DynamicQuantizeLinear", 3, []Operand{Given(r.Floats(1, 3, 5))})
}
