package cpu

import (
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(
		record{op: "Softmax", row: rowKind{make: rowSoftmax(kernel.Softmax)}},
		record{op: "LogSoftmax", row: rowKind{make: rowSoftmax(kernel.LogSoftmax)}},
	)
}

// rowSoftmax is over the last axis; softmax computes one row.
func rowSoftmax(softmax func(y, x []float32)) func(s *lowering.Step) rowMaker {
	return func(s *lowering.Step) rowMaker { return softmaxMaker(s, softmax) }
}

func softmaxMaker(s *lowering.Step, softmax func(y, x []float32)) rowMaker {
	axis := s.Node.Attrs.Int("axis", -1)
	return func(in [][]int, out []int) *rowOp {
		if len(out) == 0 || axis != -1 && axis != int64(len(out)-1) || !lowering.SameRows(in[0], out) || in[0][len(out)-1] != out[len(out)-1] {
			return nil
		}
		f := out[len(out)-1]
		return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			for r := range rows {
				softmax(y[r*f:(r+1)*f], x[0][r*f:(r+1)*f])
			}
		}}
	}
}
