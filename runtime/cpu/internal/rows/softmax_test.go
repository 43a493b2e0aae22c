package rows_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestSoftmax tests the row kernels with all names of the last axis.
func TestSoftmax(t *testing.T) {
	r := NewGen(22)
	for _, f := range []int{1, 2, 3, 5, 7, 8, 33, 300} {
		for _, op := range []string{"Softmax", "LogSoftmax"} {
			for _, axis := range []int64{-1, 2} {
				on.Row(t, op, []Operand{Given(r.Floats(20, 2, 5, f))}, ir.A("axis", axis))
			}
			on.Row(t, op, []Operand{Given(r.Floats(20, 701, f))})
			on.Row(t, op, []Operand{Given(With(r.Floats(1, 3, f), 1, math.Inf(-1)))})
		}
	}
}
