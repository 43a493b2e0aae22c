package record

import (
	"math"

	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// WindowedOp is a step that looks a bounded way back and ahead along time: step t of its output is computed from the steps t+off
// of its input, for each off of offs. It works on rows, one for each step, whatever the layout of the operator that it stands
// for; the region it is in keeps the rows of the input that it looks back on (see ring).
type WindowedOp struct {
	Offs    []int   // ascending
	Edge    float32 // what stands before the first step of the input, and behind the last
	Weights int     // constant numbers that a tile passes through
	Flops   float64 // per step
	Scratch int     // numbers that run needs beside, for each row
	Run     windowedFunc
}

// windowedFunc computes rows of an output, the steps from .. from+rows of length. x has the input from the first offset before
// (or behind) there on, to the last offset of the last row; tmp is scratch.
type windowedFunc func(y, x, tmp []float32, rows, from, length int)

// Back and ahead say how far the operator reaches.
func (w *WindowedOp) Back() int { return max(0, -w.Offs[0]) }

func (w *WindowedOp) Ahead() int { return max(0, w.Offs[len(w.Offs)-1]) }

// Places says where the numbers of a feature lie that an output meets, in rows of width numbers.
func (w *WindowedOp) Places(width int) kernel.Offsets {
	at := make([]int32, len(w.Offs))
	for i, o := range w.Offs {
		at[i] = int32((o - w.Offs[0]) * width)
	}
	return kernel.NewOffsets(at)
}

// WindowedMaker makes the operator for a binding, with the offsets that the operator's own pads give. It gives nil where attributes
// or shapes do not fit.
type WindowedMaker func(d *lowering.Binding) *WindowedOp

// maxTaps bounds the taps of an operator: longer ones are long convolutions, which have forms of their own.
const maxTaps = 64

// Reach gives the offsets of so many taps, and false where they are too many or reach further than int32 counts.
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

// Shifted moves a sequence along time.
func Shifted(by, width int) *WindowedOp {
	return &WindowedOp{Offs: []int{by}, Flops: float64(width), Run: func(y, x, _ []float32, rows, _, _ int) {
		copy(y[:rows*width], x)
	}}
}
