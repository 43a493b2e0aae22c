package cpu

import "github.com/essmc/essmc/runtime/lowering"

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
var rows = map[string]func(s *lowering.Step) rowMaker{
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
