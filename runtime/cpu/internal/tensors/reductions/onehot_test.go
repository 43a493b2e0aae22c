package reductions_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestOneHot(t *testing.T) {
	r := NewGen(49)
	depth, values := Fixed(tensor.Scalar(int64(5))), Fixed(tensor.FromSlice([]float32{-1, 2}, 2))
	for axis := range 3 {
		at := r.Indices([]int{7}, 3, 4)
		on.Same(t, "OneHot", 1, []Operand{Given(at), depth, values}, ir.A("axis", axis-3))
		on.Same(t, "OneHot", 1, []Operand{Given(Narrowed(at)), depth, values}, ir.A("axis", axis))
	}
	on.SameAnyhow(t, "OneHot", 1, []Operand{Given(r.Floats(3, 9)), depth, values})
}
