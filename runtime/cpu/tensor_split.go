package cpu

import (
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(record{op: "Split", tensor: tensorKind{make: splitKernel, float32: true}, moves: moves{split: axisOf}})
}

// splitKernel cuts a tensor along an axis.
func splitKernel(s *lowering.Step) tensorMaker {
	if !s.Float32Input(0) || slices.Contains(s.Node.Outputs, nil) {
		return nil
	}
	at := s.Node.Attrs.Int("axis", 0)
	parts := s.Constant64(1)
	return func(d *lowering.Binding) *tensorKernel {
		in, _, ok := tensorShapes(d, s)
		if !ok {
			return nil
		}
		axis, err := ops.Axis(at, len(in[0]))
		if err != nil {
			return nil
		}
		if parts != nil {
			sum := 0.0
			for _, n := range parts {
				sum += n
			}
			if sum != float64(in[0][axis]) {
				return nil // refused when it is evaluated
			}
		} else if !s.Absent(1) {
			return nil
		}
		outer, inner := lowering.Runs(in[0], axis)
		return &tensorKernel{run: func(e execution, _ tensorCall) error {
			x, row, from := e.floats(s.In[0]), in[0][axis]*inner, 0
			for _, v := range s.Out {
				n := d.Shapes[v.ID][axis] * inner
				y := e.floats(v)
				for r := range outer {
					copy(y[r*n:(r+1)*n], x[r*row+from:r*row+from+n])
				}
				from += n
			}
			return nil
		}}
	}
}
