package record

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// RowFunc computes rows of an output from the same rows of its operands. x has an entry per input of the step, which
// is nil for constant and absent ones, and another one for RowOp.Scratch. Long work ends at c (ops.Each and the like).
type RowFunc func(c *ir.EvalCtx, y []float32, x [][]float32, rows int)

// RowOp is a step of a region, for one set of shapes. Exactly one of Run, Windowed, Sums and Transpose is set.
type RowOp struct {
	Run       RowFunc
	Operands  []int            // indices of the inputs that are read row by row
	Over      []int            // the Operands whose rows the output may overwrite
	Parts     []RowFunc        // Run, divided so that a run can be cancelled between them; nil if it is short
	Windowed  *WindowedOp      // reads rows before and after
	Sums      *Sums            // adds the rows before
	Transpose lowering.RowKind // ToRows or FromRows
	Refill    func()           // computes again what Run keeps of settled inputs; nil: nothing. It runs before a run
	Scratch   int              // float32 numbers of working memory for each worker: the last entry of x, if there are some
}

// Sums is a running sum along time: of all steps up to each one, or, if Exclusive, of all steps before it.
type Sums struct{ Exclusive bool }

// RowMaker makes the kernel for the shapes of the inputs, nil for absent ones, and of the output. It returns nil if the
// shapes do not fit.
type RowMaker func(in [][]int, out []int) *RowOp

// RowBlock is the number of elements that row kernels compute between two checks of the run's context.
const RowBlock = 1 << 14

// Narrow returns v rounded to float32.
func Narrow(v []float64) []float32 {
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(x)
	}
	return w
}

// First is RowOp.Operands for a step that reads only its first input.
var First = []int{0}

// RowByElement returns the row kernel of an elementwise function f of one operand.
func RowByElement(f func(y, x []float32)) RowMaker {
	return func(in [][]int, out []int) *RowOp {
		if !slices.Equal(in[0], out) {
			return nil
		}
		_, width := lowering.Features(out)
		return &RowOp{Operands: First, Over: First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			ByElement(c, f, y[:rows*width], x[0])
		}}
	}
}

// ByElement applies an elementwise function to the first len(y) elements of x.
func ByElement(c *ir.EvalCtx, f func(y, x []float32), y, x []float32) {
	for lo, hi := range ops.Blocks(c, len(y), RowBlock) {
		f(y[lo:hi], x[lo:hi])
	}
}
