package reductions_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestGroupNorm(t *testing.T) {
	r := NewGen(14)
	for _, shape := range [][]int{{2, 6, 7}, {1, 6, 5, 9}, {3, 6}, {1, 12, 3, 11, 2}} {
		in := []Operand{Given(r.Floats(1, shape...)), Given(r.Floats(1, shape[1])), Fixed(r.Floats(1, shape[1]))}
		if len(shape) > 2 {
			on.Node(t, "InstanceNormalization", 1, in, ir.A("epsilon", 1e-3))
		}
		on.Node(t, "GroupNormalization", 1, in, ir.A("num_groups", 3))
	}
}
