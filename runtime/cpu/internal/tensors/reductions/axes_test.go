package reductions_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestAlongAxes checks softmax and norms along all axes, in float32 and float64.
func TestAlongAxes(t *testing.T) {
	r := NewGen(23)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for _, shape := range [][]int{{1, 1, 1}, {2, 3, 1}, {3, 7, 5}, {2, 65, 300}, {1, 5, 513}, {400, 3, 2}} {
			for axis := range shape {
				in := []Operand{Given(r.Small(d, shape...))}
				for _, op := range []string{"Softmax", "LogSoftmax"} {
					on.Node(t, op, 1, in, ir.A("axis", axis))
				}
				on.Same(t, "Hardmax", 1, in, ir.A("axis", axis))
				for p := range 2 {
					on.Node(t, "LpNormalization", 1, in, ir.A("axis", axis), ir.A("p", p+1))
					on.Node(t, "LpNormalization", 1, []Operand{Given(tensor.New(d, shape...))}, ir.A("axis", axis), ir.A("p", p+1))
				}
			}
		}
		for axis := range 3 { // not all finite
			on.Same(t, "Hardmax", 1, []Operand{Given(r.Typed(d, 3, 5, 7))}, ir.A("axis", axis))
		}
	}
}
