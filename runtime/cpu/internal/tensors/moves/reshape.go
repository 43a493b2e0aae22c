package moves

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that change only the shape.
func init() {
	kind := record.TensorKind{Make: record.Either(record.Shaped(copyKernel), copyBytesKernel)}
	record.Register(
		record.Record{Op: "Reshape", Tensor: kind},
		record.Record{Op: "Squeeze", Tensor: kind},
		record.Record{Op: "Unsqueeze", Tensor: kind},
		record.Record{Op: "Flatten", Tensor: kind},
	)
}

// copyKernel is the kernel of operators that change only the shape.
func copyKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	return func(d *lowering.Binding, in [][]int, out []int) *record.TensorKernel {
		n, _ := tensor.Size(in[0])
		if m, _ := tensor.Size(out); m != n {
			return nil
		}
		slots := tensors.UnaryOf(d, s)
		return &record.TensorKernel{Renames: true, Run: func(e record.Execution, _ record.Call) error {
			if x, y := slots.In(e.Frame()); len(x) > 0 && &x[0] != &y[0] {
				ops.Put(e.Steps(), y, x)
			}
			return nil
		}}
	}
}

// copyBytesKernel is copyKernel for all element types of whole bytes.
func copyBytesKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		in, out := s.In[0], s.Out[0]
		if out == nil || d.Shape(in) == nil || d.Shape(out) == nil || d.DType(in) != d.DType(out) ||
			d.DType(in) == tensor.String || d.DType(in).Bits() < 8 {
			return nil
		}
		n, _ := tensor.Size(d.Shape(in))
		if m, _ := tensor.Size(d.Shape(out)); m != n {
			return nil
		}
		x, y := lowering.BytesOf(d, in), lowering.BytesOf(d, out)
		return &record.TensorKernel{Renames: true, Run: func(e record.Execution, _ record.Call) error {
			if x, y := x.In(e.Frame()), y.In(e.Frame()); len(x) > 0 && &x[0] != &y[0] {
				ops.Put(e.Steps(), y, x)
			}
			return nil
		}}
	}
}
