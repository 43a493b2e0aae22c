package rows_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestRMSNorm tests the row kernel at all ranks and with all names of the last axis.
func TestRMSNorm(t *testing.T) {
	r := NewGen(15)
	for _, f := range []int{1, 7, 20} {
		for _, axis := range []int64{-1, 2} {
			in := []Operand{Given(r.Floats(1, 2, 5, f)), Fixed(r.Floats(1, f))}
			on.Row(t, "RMSNormalization", in, ir.A("axis", axis), ir.A("epsilon", 1e-3))
		}
	}
}
