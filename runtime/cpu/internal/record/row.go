package record

import (
	"slices"

	"github.com/essmc/essmc/runtime/lowering"
)

// RowFunc computes rows of an output from the same rows of its operands; x has one entry per input of the step, nil where
// that is a constant or absent.
type RowFunc func(y []float32, x [][]float32, rows int)

// RowOp is a step that treats each row by itself, for one set of shapes.
type RowOp struct {
	Run       RowFunc
	Operands  []int       // the inputs that are read row by row
	Over      []int       // of them, those whose rows the output's may be written over
	Parts     []RowFunc   // run in parts, between which it may be cancelled; nil where it is short
	Windowed  *WindowedOp // in place of run: not each row by itself
	Sums      *Sums       // in place of run: adds the rows before
	Transpose Transpose   // in place of run: rows that lie in another layout
}

// Sums is a running sum along time: each step adds to those before it, or, where it is exclusive, shows those before it only.
type Sums struct{ Exclusive bool }

// Transpose says how a step brings sequences between (samples, features, steps), which exported graphs have around convolutions, and
// rows of features for each step.
type Transpose int8

const (
	NoTranspose Transpose = iota
	ToRows
	FromRows
)

// RowMaker makes the kernel for shapes: in of the inputs (nil where absent), out of the output. It gives nil where the
// shapes do not fit.
type RowMaker func(in [][]int, out []int) *RowOp

// Narrow rounds to float32.
func Narrow(v []float64) []float32 {
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(x)
	}
	return w
}

// First is the operands of a step that reads only its first input row by row.
var First = []int{0}

// RowByElement is a row kernel for a function of one operand.
func RowByElement(f func(y, x []float32)) RowMaker {
	return func(in [][]int, out []int) *RowOp {
		if !slices.Equal(in[0], out) {
			return nil
		}
		_, width := lowering.Features(out)
		return &RowOp{Operands: First, Over: First, Run: func(y []float32, x [][]float32, rows int) { f(y[:rows*width], x[0][:rows*width]) }}
	}
}
