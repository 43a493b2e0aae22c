package rows

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "Softmax", Row: record.RowKind{Make: rowSoftmax}},
		record.Record{Op: "LogSoftmax", Row: record.RowKind{Make: rowLogSoftmax}},
	)
}

// rowSoftmax is the row kernel of Softmax.
func rowSoftmax(s *lowering.Step) record.RowMaker {
	return softmaxMaker(s, kernel.Softmax, longSoftmax, kernel.ShortSoftmax)
}

// rowLogSoftmax is the row kernel of LogSoftmax.
func rowLogSoftmax(s *lowering.Step) record.RowMaker {
	return softmaxMaker(s, kernel.LogSoftmax, longLogSoftmax, nil)
}

// softmaxMaker applies softmax, which computes one row, along the last axis; or short, if it is not nil, to short rows.
func softmaxMaker(s *lowering.Step, softmax func(y, x []float32), long func(c *ir.EvalCtx, y, x []float32),
	short func(y, x []float32, f int)) record.RowMaker {
	axis := s.Node.Attrs.Int("axis", -1)
	return func(in [][]int, out []int) *record.RowOp {
		if len(out) == 0 || axis != -1 && axis != int64(len(out)-1) || !lowering.SameRows(in[0], out) ||
			in[0][len(out)-1] != out[len(out)-1] {
			return nil
		}
		f := out[len(out)-1]
		if short != nil && f > 0 && f <= kernel.ShortRow {
			return &record.RowOp{Operands: record.First, Run: func(_ *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				for n, all := record.RowBlock/f*f, rows*f; all > 0; all -= n {
					n = min(n, all)
					short(y[rows*f-all:][:n], x[0][rows*f-all:][:n], f)
				}
			}}
		}
		return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			for r := range rows {
				if f > record.RowBlock {
					long(c, y[r*f:(r+1)*f], x[0][r*f:(r+1)*f])
					continue
				}
				softmax(y[r*f:(r+1)*f], x[0][r*f:(r+1)*f])
			}
		}}
	}
}

// longSoftmax is kernel.Softmax in parts.
func longSoftmax(c *ir.EvalCtx, y, x []float32) {
	top, sum := greatest(c, x), 0.0
	for lo, hi := range ops.Blocks(c, len(x), record.RowBlock) {
		kernel.SubS(y[lo:hi], x[lo:hi], top)
		kernel.Exp(y[lo:hi], y[lo:hi])
		sum = kernel.AddSum(sum, y[lo:hi])
	}
	for lo, hi := range ops.Blocks(c, len(x), record.RowBlock) {
		kernel.MulS(y[lo:hi], y[lo:hi], float32(1/sum))
	}
}

// longLogSoftmax is kernel.LogSoftmax in parts.
func longLogSoftmax(c *ir.EvalCtx, y, x []float32) {
	top, sum := greatest(c, x), 0.0
	var part [256]float32 // sums are computed over parts of this size
	for lo, hi := range ops.Blocks(c, len(x), record.RowBlock) {
		kernel.SubS(y[lo:hi], x[lo:hi], top)
		for rest := y[lo:hi]; len(rest) > 0; {
			n := min(len(rest), len(part))
			kernel.Exp(part[:n], rest[:n])
			sum += kernel.Sum(part[:n])
			rest = rest[n:]
		}
	}
	for lo, hi := range ops.Blocks(c, len(x), record.RowBlock) {
		kernel.SubS(y[lo:hi], y[lo:hi], float32(math.Log(sum)))
	}
}

func greatest(c *ir.EvalCtx, x []float32) float32 {
	top := float32(math.Inf(-1))
	for lo, hi := range ops.Blocks(c, len(x), record.RowBlock) {
		top = max(top, kernel.Greatest(x[lo:hi]))
	}
	return top
}
