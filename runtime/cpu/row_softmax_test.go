package cpu

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
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

// TestAlongAxes checks softmax and norms along all axes, in float32 and float64.
func TestAlongAxes(t *testing.T) {
	r := newGen(23)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for _, shape := range [][]int{{1, 1, 1}, {2, 3, 1}, {3, 7, 5}, {2, 65, 300}, {1, 5, 513}, {400, 3, 2}} {
			for axis := range shape {
				in := []operand{given(r.small(d, shape...))}
				for _, op := range []string{"Softmax", "LogSoftmax"} {
					checkNode(t, op, 1, in, ir.A("axis", axis))
				}
				sameNode(t, "Hardmax", 1, in, ir.A("axis", axis))
				for p := range 2 {
					checkNode(t, "LpNormalization", 1, in, ir.A("axis", axis), ir.A("p", p+1))
					checkNode(t, "LpNormalization", 1, []operand{given(tensor.New(d, shape...))}, ir.A("axis", axis), ir.A("p", p+1))
				}
			}
		}
		for axis := range 3 { // not all finite
			sameNode(t, "Hardmax", 1, []operand{given(r.typed(d, 3, 5, 7))}, ir.A("axis", axis))
		}
	}
}
