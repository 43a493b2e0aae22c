package cpu

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
)

// TestSoftmax tests the row kernels with all names of the last axis.
func TestSoftmax(t *testing.T) {
	r := newGen(22)
	for _, f := range []int{1, 2, 3, 5, 7, 8, 33, 300} {
		for _, op := range []string{"Softmax", "LogSoftmax"} {
			for _, axis := range []int64{-1, 2} {
				checkRow(t, op, []operand{given(r.floats(20, 2, 5, f))}, ir.A("axis", axis))
			}
			checkRow(t, op, []operand{given(r.floats(20, 701, f))})
			checkRow(t, op, []operand{given(with(r.floats(1, 3, f), 1, math.Inf(-1)))})
		}
	}
}
