package tensors

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.StateOrZero",
		Tensor: record.TensorKind{Make: record.Shaped(stateOrZeroKernel), Float32: true}})
}

// stateOrZeroKernel copies a state, or clears one.
func stateOrZeroKernel(s *lowering.Step) record.ShapedMaker {
	return func(in [][]int, out []int) *record.TensorKernel {
		given := len(in) > 1 && in[1] != nil
		if given && !slices.Equal(in[1], out) {
			return nil // refused when it is evaluated
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			if given {
				copy(e.Floats(s.Out[0]), e.Floats(s.In[1]))
			} else {
				clear(e.Floats(s.Out[0]))
			}
			return nil
		}}
	}
}
