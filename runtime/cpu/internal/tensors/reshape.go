package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/streaming"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that change the shape alone.
func init() {
	streaming, tensor := record.StreamingKind{Make: streaming.StreamingCopy},
		record.TensorKind{Make: record.Either(record.Shaped(copyKernel), moveKernel)}
	record.Register(
		record.Record{Op: "Reshape", Streaming: streaming, Tensor: tensor},
		record.Record{Op: "Squeeze", Streaming: streaming, Tensor: tensor},
		record.Record{Op: "Unsqueeze", Streaming: streaming, Tensor: tensor},
		record.Record{Op: "Flatten", Streaming: streaming, Tensor: tensor},
	)
}

// copyKernel is the kernel of operators that change the shape alone.
func copyKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	return func(d *lowering.Binding, in [][]int, out []int) *record.TensorKernel {
		n, _ := tensor.Size(in[0])
		if m, _ := tensor.Size(out); m != n {
			return nil
		}
		slots := unaryOf(d, s)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			x, y := slots.in(e.Frame())
			ops.Put(e.Steps(), y, x)
			return nil
		}}
	}
}
