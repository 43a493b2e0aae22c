package record

import "github.com/essmc/essmc/runtime/lowering"

// StreamingKernel computes a step over sequences that treats steps of time by themselves, or sums them up, so that it can run
// chunk by chunk beside regions. The executor calls start, then steps for one stretch after the other, then finish.
type StreamingKernel interface {
	Stage
	Attach(e Execution) // makes what the kernel holds
	Bytes() int64       // of that
}

// Stage is what is computed along time, from the first step to the last.
type Stage interface {
	// Grid is the number of samples, and of the steps of each.
	Grid() (batch, length int)
	Start() error
	Steps(from, to int) error
	Finish()
}

// StreamingMaker makes the kernel for a binding, or gives nil where its shapes do not fit.
type StreamingMaker func(d *lowering.Binding) StreamingKernel

// StreamingTile is the steps of a work item.
const StreamingTile = LargestTile

// StreamingGrid is what streaming operators share: samples and steps in work items.
type StreamingGrid struct {
	E             Execution
	Batch, Length int
	From, To      int // under way
}

func (g *StreamingGrid) Attach(e Execution) { g.E = e }

func (g *StreamingGrid) Grid() (batch, length int) { return g.Batch, g.Length }

func (g *StreamingGrid) Start() error { return nil }

func (g *StreamingGrid) Finish() {}

func (g *StreamingGrid) Bytes() int64 { return 0 }

// Items is the number of work items of the steps under way.
func (g *StreamingGrid) Items() int {
	return g.Batch * ((g.To - g.From + StreamingTile - 1) / StreamingTile)
}

// ItemAt gives work item k: its sample, its first step, and the number of its steps.
func (g *StreamingGrid) ItemAt(k int) (sample, from, n int) {
	from = g.From + k/g.Batch*StreamingTile
	return k % g.Batch, from, min(StreamingTile, g.To-from)
}
