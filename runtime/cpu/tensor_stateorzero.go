package cpu

import (
	"slices"

	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(record{op: "essm.StateOrZero", tensor: tensorKind{make: shaped(stateOrZeroKernel), float32: true}})
}

// stateOrZeroKernel copies a state, or clears one.
func stateOrZeroKernel(s *lowering.Step) shapedMaker {
	return func(in [][]int, out []int) *tensorKernel {
		given := len(in) > 1 && in[1] != nil
		if given && !slices.Equal(in[1], out) {
			return nil // refused when it is evaluated
		}
		return &tensorKernel{run: func(e execution, _ tensorCall) error {
			if given {
				copy(e.floats(s.Out[0]), e.floats(s.In[1]))
			} else {
				clear(e.floats(s.Out[0]))
			}
			return nil
		}}
	}
}
