package tensors

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Concat",
		Tensor: record.TensorKind{Make: record.Shaped(concatKernel), Float32: true}})
}

// concatKernel concatenates tensors along an axis.
func concatKernel(s *lowering.Step) record.ShapedMaker {
	for i := range s.In {
		if !s.Float32Input(i) {
			return nil
		}
	}
	at := s.Node.Attrs.Int("axis", 0)
	return func(in [][]int, out []int) *record.TensorKernel {
		axis, err := ops.Axis(at, len(out))
		if err != nil {
			return nil
		}
		outer, inner := lowering.Runs(out, axis)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			y, row := e.Floats(s.Out[0]), out[axis]*inner
			for i, v := range s.In {
				x, n := e.Floats(v), in[i][axis]*inner
				for r := range outer {
					copy(y[r*row:r*row+n], x[r*n:(r+1)*n])
				}
				y = y[min(n, len(y)):]
			}
			return nil
		}}
	}
}
