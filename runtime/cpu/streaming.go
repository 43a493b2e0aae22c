package cpu

import (
	"github.com/essmc/essmc/runtime/lowering"
)

// streamingKernel computes a step over sequences that treats steps of time by themselves, or sums them up, so that it can run
// chunk by chunk beside regions. The executor calls start, then steps for one stretch after the other, then finish.
type streamingKernel interface {
	stage
	attach(e execution) // makes what the kernel holds
	bytes() int64       // of that
}

// stage is what is computed along time, from the first step to the last.
type stage interface {
	// grid is the number of samples, and of the steps of each.
	grid() (batch, length int)
	start() error
	steps(from, to int) error
	finish()
}

// streamingMaker makes the kernel for a binding, or gives nil where its shapes do not fit.
type streamingMaker func(d *lowering.Binding) streamingKernel

// streamingTile is the steps of a work item.
const streamingTile = largestTile

// streamingGrid is what streaming operators share: samples and steps in work items.
type streamingGrid struct {
	e             execution
	batch, length int
	from, to      int // under way
}

func (g *streamingGrid) attach(e execution)        { g.e = e }
func (g *streamingGrid) grid() (batch, length int) { return g.batch, g.length }
func (g *streamingGrid) start() error              { return nil }
func (g *streamingGrid) finish()                   {}
func (g *streamingGrid) bytes() int64              { return 0 }

// work items of the steps under way.
func (g *streamingGrid) items() int {
	return g.batch * ((g.to - g.from + streamingTile - 1) / streamingTile)
}

// work item k's sample and steps.
func (g *streamingGrid) itemAt(k int) (sample, from, n int) {
	from = g.from + k/g.batch*streamingTile
	return k % g.batch, from, min(streamingTile, g.to-from)
}
