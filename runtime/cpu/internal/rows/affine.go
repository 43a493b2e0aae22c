package rows

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "essm.Affine", Row: record.RowKind{Make: rowAffine, Constant: []int{1, 2}},
			Fused: fusedAffine},
		record.Record{Op: "essm.BatchNorm", Row: record.RowKind{Make: rowBatchNorm, Constant: []int{1, 2, 3, 4}},
			Fused: fusedBatchNorm},
	)
}

// rowAffine computes scale·x + shift, per feature.
func rowAffine(s *lowering.Step) record.RowMaker {
	return affine(s.Constant(1), s.Constant(2))
}

func affine(scale, shift []float32) record.RowMaker {
	if scale == nil || shift == nil {
		return nil
	}
	return func(in [][]int, out []int) *record.RowOp {
		if !lowering.SameRows(in[0], out) || in[0][len(in[0])-1] != len(scale) || len(shift) != len(scale) {
			return nil
		}
		return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			if len(scale) <= record.RowBlock {
				kernel.Affine(y, x[0], rows, scale, shift)
				return
			}
			longAffine(c, y, x[0], rows, scale, shift)
		}}
	}
}

// rowBatchNorm computes a batch norm with fixed statistics, as a scale and a shift per feature.
func rowBatchNorm(s *lowering.Step) record.RowMaker {
	return affine(batchNormAffine(s))
}

// batchNormAffine returns the scale and the shift of a batch norm, or nil if its statistics are not constant.
func batchNormAffine(s *lowering.Step) (scale, shift []float32) {
	w, b, m, v := s.Constant64(1), s.Constant64(2), s.Constant64(3), s.Constant64(4)
	if w == nil || b == nil || m == nil || v == nil {
		return nil, nil
	}
	a, c := essm.BatchNormAffine(w, b, m, v, s.Node.Attrs.Float("epsilon", 1e-5))
	return record.Narrow(a), record.Narrow(c)
}

func fusedAffine(_ *lowering.Binding, s *lowering.Step, at, _, width int) (kernel.FusedStep, bool) {
	return fusedScaleShift(s.Constant(1), s.Constant(2), at, width)
}

func fusedBatchNorm(_ *lowering.Binding, s *lowering.Step, at, _, width int) (kernel.FusedStep, bool) {
	scale, shift := batchNormAffine(s)
	return fusedScaleShift(scale, shift, at, width)
}

func fusedScaleShift(scale, shift []float32, at, width int) (kernel.FusedStep, bool) {
	fits := at == 0 && len(scale) == width && len(shift) == width
	return kernel.FusedStep{Op: kernel.FusedAffine, X: -1, A: scale, B: shift}, fits
}

// longAffine is kernel.Affine for long rows, in parts.
func longAffine(c *ir.EvalCtx, y, x []float32, rows int, scale, shift []float32) {
	for at := 0; at < rows*len(scale); at += len(scale) {
		for lo, hi := range ops.Blocks(c, len(scale), record.RowBlock) {
			kernel.Affine(y[at+lo:], x[at+lo:], 1, scale[lo:hi], shift[lo:hi])
		}
	}
}
