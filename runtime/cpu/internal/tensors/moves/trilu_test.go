package moves_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestTrilu(t *testing.T) {
	r := NewGen(48)
	for _, k := range []int64{0, 1, -2, 100, -100} {
		for _, upper := range []int{0, 1} {
			at := Fixed(tensor.Scalar(k))
			on.Same(t, "Trilu", 1, []Operand{Given(r.Odd(2, 4, 6)), at}, ir.A("upper", upper))
			on.Same(t, "Trilu", 1, []Operand{Given(r.Indices([]int{9}, 6, 4)), at}, ir.A("upper", upper))
			on.Same(t, "Trilu", 1, []Operand{Given(r.Bytes(tensor.Int8, 5, 5)), at}, ir.A("upper", upper))
		}
	}
	on.Same(t, "Trilu", 1, []Operand{Given(r.Odd(2, 4, 6))})
}
