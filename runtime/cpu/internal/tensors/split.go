package tensors

import (
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Split", Tensor: record.TensorKind{Make: splitKernel, Float32: true}})
}

// splitKernel splits a tensor along an axis.
func splitKernel(s *lowering.Step) record.TensorMaker {
	if !s.Float32Input(0) || slices.Contains(s.Node.Outputs, nil) {
		return nil
	}
	at := s.Node.Attrs.Int("axis", 0)
	wanted := s.Constant64(1)
	return func(d *lowering.Binding) *record.TensorKernel {
		in, _, ok := record.TensorShapes(d, s)
		if !ok {
			return nil
		}
		axis, err := ops.Axis(at, len(in[0]))
		if err != nil {
			return nil
		}
		if wanted != nil {
			sum := 0.0
			for _, n := range wanted {
				sum += n
			}
			if sum != float64(in[0][axis]) {
				return nil // refused when it is evaluated
			}
		} else if !s.Absent(1) {
			return nil
		}
		outer, inner := lowering.Runs(in[0], axis)
		whole, parts, sizes := lowering.Input[float32](d, s, 0), []lowering.Slot[float32]{}, []int{}
		for i, v := range s.Out {
			parts, sizes = append(parts, lowering.Output[float32](d, s, i)), append(sizes, d.Shape(v)[axis]*inner)
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			x, row, from := whole.In(f), in[0][axis]*inner, 0
			for i, n := range sizes {
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
