package tensors

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() { record.Register(record.Record{Op: "Cast", Tensor: record.TensorKind{Make: castKernel}}) }

// castKernel casts bools and integers to float32. Other casts have rounding rules that differ from the machine's.
func castKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if !d.Gives(s, 0, tensor.Float32) || d.ShapeOf(s, 0) == nil ||
			!slices.Equal(d.ShapeOf(s, 0), d.Shape(s.Out[0])) {
			return nil
		}
		in, out := s.In[0], s.Out[0]
		var run func(y []float32, x *tensor.Tensor)
		switch d.DType(in) {
		case tensor.Float32:
			run = func(y []float32, x *tensor.Tensor) { copy(y, tensor.Data[float32](x)) }
		case tensor.Bool:
			run = func(y []float32, x *tensor.Tensor) {
				for i, b := range tensor.Data[bool](x) {
					y[i] = 0
					if b {
						y[i] = 1
					}
				}
			}
		case tensor.Int32:
			run = func(y []float32, x *tensor.Tensor) { kernel.FloatsOfInts(y, tensor.Data[int32](x)) }
		case tensor.Int64:
			run = func(y []float32, x *tensor.Tensor) {
				for i, v := range tensor.Data[int64](x) {
					y[i] = float32(v)
				}
			}
		default:
			return nil
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			run(e.Floats(out), e.Datum(in).(*tensor.Tensor))
			return nil
		}}
	}
}
