package cpu

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(record{op: "Concat", tensor: tensorKind{make: shaped(concatKernel), float32: true}, moves: moves{join: axisOf}})
}

// concatKernel joins tensors along an axis.
func concatKernel(s *lowering.Step) shapedMaker {
	for i := range s.In {
		if !s.Float32Input(i) {
			return nil
		}
	}
	at := s.Node.Attrs.Int("axis", 0)
	return func(in [][]int, out []int) *tensorKernel {
		axis, err := ops.Axis(at, len(out))
		if err != nil {
			return nil
		}
		outer, inner := lowering.Runs(out, axis)
		return &tensorKernel{run: func(e execution, _ tensorCall) error {
			y, row := e.floats(s.Out[0]), out[axis]*inner
			for i, v := range s.In {
				x, n := e.floats(v), in[i][axis]*inner
				for r := range outer {
					copy(y[r*row:r*row+n], x[r*n:(r+1)*n])
				}
				y = y[min(n, len(y)):]
			}
			return nil
		}}
	}
}
