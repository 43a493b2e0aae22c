package sequences

import (
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.StateOrZero",
		Tensor: record.TensorKind{Make: record.Shaped(stateOrZeroKernel), Float32: true}})
}

// stateOrZeroKernel copies a state, or writes zeros if there is none.
func stateOrZeroKernel(s *lowering.Step) record.ShapedMaker {
	return func(d *lowering.Binding, in [][]int, out []int) *record.TensorKernel {
		given := len(in) > 1 && in[1] != nil
		if given && !slices.Equal(in[1], out) {
			return nil // the evaluation reports the error
		}
		y, state := lowering.Output[float32](d, s, 0), lowering.Slot[float32]{}
		if given {
			state = lowering.Input[float32](d, s, 1)
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			if given {
				ops.Put(e.Steps(), y.In(f), state.In(f))
			} else {
				ops.Fill(e.Steps(), y.In(f), 0)
			}
			return nil
		}}
	}
}
