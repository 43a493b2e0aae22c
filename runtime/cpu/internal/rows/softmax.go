package rows

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "Softmax", Row: record.RowKind{Make: rowSoftmax(kernel.Softmax)}},
		record.Record{Op: "LogSoftmax", Row: record.RowKind{Make: rowSoftmax(kernel.LogSoftmax)}},
	)
}

// rowSoftmax applies softmax, which computes one row, along the last axis.
func rowSoftmax(softmax func(y, x []float32)) func(s *lowering.Step) record.RowMaker {
	return func(s *lowering.Step) record.RowMaker { return softmaxMaker(s, softmax) }
}

func softmaxMaker(s *lowering.Step, softmax func(y, x []float32)) record.RowMaker {
	axis := s.Node.Attrs.Int("axis", -1)
	return func(in [][]int, out []int) *record.RowOp {
		if len(out) == 0 || axis != -1 && axis != int64(len(out)-1) || !lowering.SameRows(in[0], out) ||
			in[0][len(out)-1] != out[len(out)-1] {
			return nil
		}
		f := out[len(out)-1]
		return &record.RowOp{Operands: record.First, Run: func(y []float32, x [][]float32, rows int) {
			for r := range rows {
				softmax(y[r*f:(r+1)*f], x[0][r*f:(r+1)*f])
			}
		}}
	}
}
