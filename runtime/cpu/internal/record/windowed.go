package record

import (
	"math"

	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// WindowedOp is a step that looks a bounded number of steps back and ahead along time: step t of its output is computed
// from the steps t+off of its input, for each off of Offs. It works on rows, one for each step, whatever the layout of
// the node. Its region keeps the earlier rows of the input that it reads.
type WindowedOp struct {
	Offs    []int   // ascending
	Edge    float32 // the value of the input before the first step and after the last
	Weights int     // constant numbers that a tile reads
	Flops   float64 // per step
	Scratch int     // size of tmp per row, in float32
	Run     windowedFunc
}

// windowedFunc computes rows of an output, from step from of length on. x holds the rows of the input from step
// from+Offs[0] to the last offset of the last row. tmp is scratch.
type windowedFunc func(y, x, tmp []float32, rows, from, length int)

// Back returns the number of steps that the operator looks back.
func (w *WindowedOp) Back() int { return max(0, -w.Offs[0]) }

// Ahead returns the number of steps that the operator looks ahead.
func (w *WindowedOp) Ahead() int { return max(0, w.Offs[len(w.Offs)-1]) }

// Places returns the positions, relative to the first, of the inputs that an output reads, in rows of width numbers.
func (w *WindowedOp) Places(width int) kernel.Offsets {
	at := make([]int32, len(w.Offs))
	for i, o := range w.Offs {
		at[i] = int32((o - w.Offs[0]) * width)
	}
	return kernel.NewOffsets(at)
}

// WindowedMaker makes the operator for a binding, with the offsets that follow from the node's own pads. It returns nil
// if attributes or shapes do not fit.
type WindowedMaker func(d *lowering.Binding) *WindowedOp

// maxTaps bounds the taps of an operator. Longer ones are long convolutions, which have forms of their own.
const maxTaps = 64

// Reach returns the offsets of taps from first on, dilation apart; false if there are too many, or if they do not fit
// int32.
func Reach(first, taps, dilation int) ([]int, bool) {
	if taps < 1 || taps > maxTaps || dilation < 1 || dilation > math.MaxInt32/maxTaps {
		return nil, false
	}
	offs := make([]int, taps)
	for j := range offs {
		offs[j] = first + j*dilation
	}
	return offs, true
}

// Shifted returns the operator that shifts a sequence along time: step t of its output is step t+by of its input.
func Shifted(by, width int) *WindowedOp {
	return &WindowedOp{Offs: []int{by}, Flops: float64(width), Run: func(y, x, _ []float32, rows, _, _ int) {
		copy(y[:rows*width], x)
	}}
}
