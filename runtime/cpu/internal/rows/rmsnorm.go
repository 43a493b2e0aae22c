package rows

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "RMSNormalization", Row: record.RowKind{Make: rowRMSNorm, Constant: []int{1}},
		Whole: true})
}

// rowRMSNorm computes the norm by the root mean square over the last axis.
func rowRMSNorm(s *lowering.Step) record.RowMaker {
	scale := record.Numbers(s, 1)
	if len(s.ConstShape(1)) != 1 {
		return nil
	}
	axis, eps := s.Node.Attrs.Int("axis", -1), s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))
	return func(in [][]int, out []int) *record.RowOp {
		f := 0
		if len(out) > 0 {
			f = out[len(out)-1]
		}
		if !lowering.SameRows(in[0], out) || axis != -1 && axis != int64(len(out)-1) || len(scale) != f || f == 0 {
			return nil
		}
		return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			if f <= longRow {
				kernel.RMSNorm(y, x[0], rows, f, eps, scale)
				return
			}
			for r := range rows {
				row := x[0][r*f : (r+1)*f]
				inv := 1 / math.Sqrt(longSquares(c, row, 0)/float64(f)+eps)
				longNormalize(c, y[r*f:(r+1)*f], row, 0, inv, scale, nil)
			}
		}}
	}
}
