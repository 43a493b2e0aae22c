package reductions_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestCumSum(t *testing.T) {
	r := NewGen(42)
	for axis := range int64(3) {
		for _, attrs := range [][]ir.Attr{nil, {ir.A("exclusive", 1)}, {ir.A("reverse", 1)},
			{ir.A("exclusive", 1), ir.A("reverse", 1)}} {
			on.Same(t, "CumSum", 1, []Operand{Given(r.Floats(1, 3, 50, 7)), Fixed(tensor.Scalar(axis - 3))}, attrs...)
		}
	}
}
