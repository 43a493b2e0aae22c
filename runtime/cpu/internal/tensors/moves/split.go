package moves

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Split", Tensor: record.TensorKind{Make: splitKernel}})
}

// splitKernel splits a tensor of any type of whole bytes along an axis.
func splitKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || slices.Contains(s.Node.Outputs, nil) {
		return nil
	}
	at := s.Node.Attrs.Int("axis", 0)
	wanted := s.Constant64(1)
	return func(d *lowering.Binding) *record.TensorKernel {
		shape, dtype := d.ShapeOf(s, 0), d.DType(s.In[0])
		axis, err := ops.Axis(at, len(shape))
		if err != nil || shape == nil || !tensors.Cut(dtype) {
			return nil
		}
		if wanted != nil {
			sum := 0.0
			for _, n := range wanted {
				sum += n
			}
			if sum != float64(shape[axis]) {
				return nil // the evaluation reports the error
			}
		} else if !s.Absent(1) {
			return nil
		}
		outer, inner := lowering.Runs(shape, axis)
		inner = tensor.ByteSize(dtype, inner)
		whole, parts, sizes := lowering.BytesOf(d, s.In[0]), []lowering.Bytes{}, []int{}
		for i, v := range s.Out {
			d.Steps().Step(100)
			if d.Shape(v) == nil || !d.Gives(s, i, dtype) {
				return nil
			}
			parts, sizes = append(parts, lowering.BytesOf(d, v)), append(sizes, d.Shape(v)[axis]*inner)
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			x, row, from := whole.In(f), shape[axis]*inner, 0
			for i, n := range sizes {
				e.Steps().Step(20)
				y := parts[i].In(f)
				for r := range outer {
					ops.Put(e.Steps(), y[r*n:(r+1)*n], x[r*row+from:r*row+from+n])
				}
				from += n
			}
			return nil
		}}
	}
}
