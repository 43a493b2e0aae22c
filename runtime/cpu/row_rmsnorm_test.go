package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

// The norm is a row kernel, whatever the rank and however the axis is named.
func TestRMSNorm(t *testing.T) {
	r := newGen(15)
	for _, f := range []int{1, 7, 20} {
		for _, axis := range []int64{-1, 2} {
			in := []operand{given(r.floats(1, 2, 5, f)), fixed(r.floats(1, f))}
			checkRow(t, "RMSNormalization", in, ir.A("axis", axis), ir.A("epsilon", 1e-3))
		}
	}
}
