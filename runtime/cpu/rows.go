package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// rowFunc computes rows of an output from the same rows of its operands; x has one entry per input of the step, nil where
// that is a constant or absent.
type rowFunc func(y []float32, x [][]float32, rows int)

// rowOp is a step that treats each row by itself, for one set of shapes.
type rowOp struct {
	run      rowFunc
	operands []int     // the inputs that are read row by row
	over     []int     // of them, those whose rows the output's may be written over
	parts    []rowFunc // run in parts, between which it may be cancelled; nil where it is short
	window   *window   // in place of run: not each row by itself
	sums     *sums     // in place of run: adds the rows before
	turn     turn      // in place of run: rows that lie in another layout
}

// rowMaker makes the kernel for shapes: in of the inputs (nil where absent), out of the output. It gives nil where the
// shapes do not fit.
type rowMaker func(in [][]int, out []int) *rowOp

// rows is the table of operators that have a row kernel. An entry gives nil where attributes or inputs do not fit: weights
// must be constants.
var rows = map[string]func(s *step) rowMaker{
	"essm.Linear":        rowLinear,
	"essm.Affine":        rowAffine,
	"essm.BatchNorm":     rowBatchNorm,
	"essm.ScalarNorm":    rowScalarNorm,
	"essm.HeadLinear":    rowHeadLinear,
	"essm.HeadScale":     rowHeadScale,
	"LayerNormalization": rowLayerNorm,
	"RMSNormalization":   rowRMSNorm,
	"MatMul":             rowMatMul,
	"Gemm":               rowGemm,
	"Add":                rowBinary,
	"Sub":                rowBinary,
	"Mul":                rowBinary,
	"Div":                rowBinary,
	"Max":                rowBinary,
	"Min":                rowBinary,
	"Sum":                rowBinary,
}

// features splits a shape into rows and features per row.
func features(shape []int) (rows, f int) {
	if len(shape) == 0 {
		return 1, 1
	}
	rows = 1
	for _, d := range shape[:len(shape)-1] {
		rows *= d
	}
	return rows, shape[len(shape)-1]
}

// sameRows reports whether a and b have the same leading dimensions.
func sameRows(a, b []int) bool {
	return len(a) == len(b) && len(a) > 0 && slices.Equal(a[:len(a)-1], b[:len(b)-1])
}

// constant gives input i as float32 numbers, when it is a constant.
func (s *step) constant(i int) []float32 {
	if i >= len(s.in) || s.in[i] == nil || s.in[i].konst == nil {
		return nil
	}
	return float32s(s.in[i].konst)
}

// constant64 gives input i as float64 numbers, when it is a constant.
func (s *step) constant64(i int) []float64 {
	if i >= len(s.in) || s.in[i] == nil || s.in[i].konst == nil {
		return nil
	}
	v, err := s.in[i].konst.Float64s()
	if err != nil {
		return nil
	}
	return v
}

func (s *step) constShape(i int) []int { return s.in[i].konst.Shape() }

// absent reports whether input i is not there.
func (s *step) absent(i int) bool { return i >= len(s.in) || s.in[i] == nil }

// float32s gives a tensor's elements as float32, never nil.
func float32s(t *tensor.Tensor) []float32 {
	if t.DType() == tensor.Float32 {
		if v := tensor.Data[float32](t); v != nil {
			return v
		}
		return []float32{}
	}
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(x)
	}
	return w
}

// narrow rounds to float32.
func narrow(v []float64) []float32 {
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(x)
	}
	return w
}

// first is the operands of a step that reads only its first input row by row.
var first = []int{0}
