package reductions_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestArgExtremeOfTypes(t *testing.T) {
	r := NewGen(182)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64} {
		for _, op := range []string{"ArgMax", "ArgMin"} {
			for axis := range 3 {
				for last := range 2 {
					attrs := []ir.Attr{ir.A("axis", axis), ir.A("select_last_index", last)}
					on.Same(t, op, 1, []Operand{Given(r.Small(d, 5, 4, 300))}, attrs...)
					on.Same(t, op, 1, []Operand{Given(r.Typed(d, 5, 9, 7))}, attrs...)
				}
			}
		}
	}
}

func TestArgExtreme(t *testing.T) {
	r := NewGen(46)
	for axis := range 3 {
		for _, op := range []string{"ArgMax", "ArgMin"} {
			for _, x := range []*tensor.Tensor{r.Floats(1, 4, 5, 6), r.Odd(4, 5, 6),
				tensor.New(tensor.Float32, 4, 5, 6)} {
				on.Same(t, op, 1, []Operand{Given(x)}, ir.A("axis", axis), ir.A("keepdims", 0))
				on.Same(t, op, 1, []Operand{Given(x)}, ir.A("axis", axis-3), ir.A("select_last_index", 1))
			}
		}
	}
}
