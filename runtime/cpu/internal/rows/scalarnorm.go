package rows

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.ScalarNorm",
		Row: record.RowKind{Make: rowScalarNorm, Constant: []int{1, 2}}})
}

// rowScalarNorm computes the norm over features with two learnt scalars.
func rowScalarNorm(s *lowering.Step) record.RowMaker {
	m, sc := record.Numbers64(s, 1), record.Numbers64(s, 2)
	if len(m) != 1 || len(sc) != 1 {
		return nil
	}
	return func(in [][]int, out []int) *record.RowOp {
		if !lowering.SameRows(in[0], out) {
			return nil
		}
		f := out[len(out)-1]
		return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			if f <= longRow {
				kernel.ScalarNorm(y, x[0], rows, f, m[0], sc[0])
				return
			}
			for r := range rows {
				row := x[0][r*f : (r+1)*f]
				mean, variance := longMoments(c, row)
				longNormalize(c, y[r*f:(r+1)*f], row, mean-m[0], sc[0]/math.Sqrt(variance), nil, nil)
			}
		}}
	}
}
