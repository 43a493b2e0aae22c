package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that only change the shape.
func init() {
	streaming, tensor := streamingKind{make: streamingCopy}, tensorKind{make: either(shaped(copyKernel), moveKernel)}
	register(
		record{op: "Reshape", streaming: streaming, tensor: tensor},
		record{op: "Squeeze", streaming: streaming, tensor: tensor},
		record{op: "Unsqueeze", streaming: streaming, tensor: tensor},
		record{op: "Flatten", streaming: streaming, tensor: tensor},
	)
}

// copyKernel serves operators that only change the shape.
func copyKernel(s *lowering.Step) shapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	return func(in [][]int, out []int) *tensorKernel {
		n, _ := tensor.Size(in[0])
		if m, _ := tensor.Size(out); m != n {
			return nil
		}
		return &tensorKernel{run: func(e execution, _ tensorCall) error {
			copy(e.floats(s.Out[0]), e.floats(s.In[0]))
			return nil
		}}
	}
}
