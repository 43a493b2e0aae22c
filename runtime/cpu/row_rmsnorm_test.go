package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

// TestRMSNorm tests the row kernel at all ranks and with all names of the last axis.
func TestRMSNorm(t *testing.T) {
	r := newGen(15)
	for _, f := range []int{1, 7, 20} {
		for _, axis := range []int64{-1, 2} {
			in := []operand{given(r.floats(1, 2, 5, f)), fixed(r.floats(1, f))}
			checkRow(t, "RMSNormalization", in, ir.A("axis", axis), ir.A("epsilon", 1e-3))
		}
	}
}
