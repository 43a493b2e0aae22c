package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// rowAffine is scale·x + shift per feature.
func rowAffine(s *lowering.Step) rowMaker {
	return affine(s.Constant(1), s.Constant(2))
}

func affine(scale, shift []float32) rowMaker {
	if scale == nil || shift == nil {
		return nil
	}
	return func(in [][]int, out []int) *rowOp {
		if !lowering.SameRows(in[0], out) || in[0][len(in[0])-1] != len(scale) || len(shift) != len(scale) {
			return nil
		}
		return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			kernel.Affine(y, x[0], rows, scale, shift)
		}}
	}
}

// rowBatchNorm is a batch norm with fixed statistics, as the affine that it amounts to.
func rowBatchNorm(s *lowering.Step) rowMaker {
	return affine(batchNormAffine(s))
}

// batchNormAffine is the scale and the shift of a batch norm; nil where its statistics are no constants.
func batchNormAffine(s *lowering.Step) (scale, shift []float32) {
	w, b, m, v := s.Constant64(1), s.Constant64(2), s.Constant64(3), s.Constant64(4)
	if w == nil || b == nil || m == nil || v == nil {
		return nil, nil
	}
	a, c := essm.BatchNormAffine(w, b, m, v, s.Node.Attrs.Float("epsilon", 1e-5))
	return narrow(a), narrow(c)
}

// rowScalarNorm is the norm over features with two learnt scalars.
func rowScalarNorm(s *lowering.Step) rowMaker {
	m, sc := s.Constant64(1), s.Constant64(2)
	if len(m) != 1 || len(sc) != 1 {
		return nil
	}
	return func(in [][]int, out []int) *rowOp {
		if !lowering.SameRows(in[0], out) {
			return nil
		}
		f := out[len(out)-1]
		return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			kernel.ScalarNorm(y, x[0], rows, f, m[0], sc[0])
		}}
	}
}

// rowLayerNorm is the norm over the last axis; its statistics are not given out.
func rowLayerNorm(s *lowering.Step) rowMaker {
	scale, shift := s.Constant(1), s.Constant(2)
	if scale == nil || shift == nil && !s.Absent(2) || s.Node.Out(1) != nil || s.Node.Out(2) != nil {
		return nil
	}
	axis, eps := s.Node.Attrs.Int("axis", -1), s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))
	return func(in [][]int, out []int) *rowOp {
		f := 0
		if len(out) > 0 {
			f = out[len(out)-1]
		}
		if !lowering.SameRows(in[0], out) || axis != -1 && axis != int64(len(out)-1) || len(scale) != f || shift != nil && len(shift) != f {
			return nil
		}
		return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			kernel.LayerNorm(y, x[0], rows, f, eps, scale, shift)
		}}
	}
}

// rowRMSNorm is the norm by the root mean square over the last axis.
func rowRMSNorm(s *lowering.Step) rowMaker {
	scale := s.Constant(1)
	if scale == nil || len(s.ConstShape(1)) != 1 {
		return nil
	}
	axis, eps := s.Node.Attrs.Int("axis", -1), s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))
	return func(in [][]int, out []int) *rowOp {
		f := 0
		if len(out) > 0 {
			f = out[len(out)-1]
		}
		if !lowering.SameRows(in[0], out) || axis != -1 && axis != int64(len(out)-1) || len(scale) != f || f == 0 {
			return nil
		}
		return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			kernel.RMSNorm(y, x[0], rows, f, eps, scale)
		}}
	}
}
