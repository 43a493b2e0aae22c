package rows

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
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
	return affine(record.Numbers(s, 1), record.Numbers(s, 2))
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

// affineKey identifies the scale and the shift of a batch norm.
type affineKey struct {
	of      [4]*tensor.Tensor
	epsilon float64
}

// batchNormAffine returns the scale and the shift of a batch norm, or nil if its statistics are not fixed.
func batchNormAffine(s *lowering.Step) (scale, shift []float32) {
	var in [4][]float64
	key := affineKey{epsilon: s.Node.Attrs.Float("epsilon", 1e-5)}
	for i := range in {
		if in[i], key.of[i] = record.Numbers64(s, 1+i), s.Fixed(1+i); in[i] == nil {
			return nil, nil
		}
	}
	k := record.Keep(s, []int{1, 2, 3, 4}, key,
		func() [2][]float32 { return [2][]float32{make([]float32, len(in[0])), make([]float32, len(in[0]))} },
		func(k [2][]float32) {
			a, c := essm.BatchNormAffine(in[0], in[1], in[2], in[3], key.epsilon)
			for i := range a {
				k[0][i], k[1][i] = float32(a[i]), float32(c[i])
			}
		})
	return k[0], k[1]
}

func fusedAffine(_ *lowering.Binding, s *lowering.Step, at, _, width int) (kernel.FusedStep, bool) {
	return fusedScaleShift(record.Numbers(s, 1), record.Numbers(s, 2), at, width)
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
