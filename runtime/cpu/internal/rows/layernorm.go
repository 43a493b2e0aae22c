package rows

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "LayerNormalization",
		Row: record.RowKind{Make: rowLayerNorm, Constant: []int{1, 2}}, Whole: true})
}

// rowLayerNorm computes the norm over the last axis, without its statistics as outputs.
func rowLayerNorm(s *lowering.Step) record.RowMaker {
	scale, shift := record.Numbers(s, 1), record.Numbers(s, 2)
	if s.Node.Out(1) != nil || s.Node.Out(2) != nil {
		return nil
	}
	axis, eps := s.Node.Attrs.Int("axis", -1), s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))
	return func(in [][]int, out []int) *record.RowOp {
		f := 0
		if len(out) > 0 {
			f = out[len(out)-1]
		}
		if !lowering.SameRows(in[0], out) || axis != -1 && axis != int64(len(out)-1) || len(scale) != f ||
			shift != nil && len(shift) != f {
			return nil
		}
		return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			if f <= longRow {
				kernel.LayerNorm(y, x[0], rows, f, eps, scale, shift)
				return
			}
			for r := range rows {
				row := x[0][r*f : (r+1)*f]
				mean, variance := longMoments(c, row)
				longNormalize(c, y[r*f:(r+1)*f], row, mean, 1/math.Sqrt(variance+eps), scale, shift)
			}
		}}
	}
}
