package record

import "github.com/essmc/essmc/runtime/lowering"

// StreamingKernel is the kernel of a streaming operator: it computes steps of time by themselves, or sums them up, and
// can run in time chunks.
type StreamingKernel interface {
	Stage
	Attach(e Execution) // allocates the kernel's memory
	Bytes() int64       // size of that memory
}

// Formed is a streaming kernel that has several forms.
type Formed interface {
	StreamingKernel
	// Forms returns the forms, with the figures from which their time is estimated.
	Forms() []FormWork
	// Form returns the form that was chosen, and Choose chooses one, before Bytes and Attach.
	Form() string
	Choose(form string)
}

// FormWork is the work of a form.
type FormWork struct {
	Form     string
	Scanned  float64 // steps of real states in float64
	Products float64 // floating-point operations of products of matrices
	Moved    float64 // numbers that are written and read again
	Calls    float64 // parts that are computed by themselves
	Bytes    int64
	Why      string // the reason against the form, if there is one
}

// Stage is a computation along time, from the first step to the last. The executor calls Start, then Steps for one time
// chunk after the other, then Finish.
type Stage interface {
	// Grid returns the number of samples, and the number of steps of each.
	Grid() (batch, length int)
	Start() error
	Steps(from, to int) error
	Finish()
}

// StreamingMaker makes the kernel for a binding. It returns nil if the shapes do not fit.
type StreamingMaker func(d *lowering.Binding) StreamingKernel

// StreamingTile is the number of steps of a work item.
const StreamingTile = LargestTile

// StreamingGrid divides samples and steps among work items. Streaming kernels embed it.
type StreamingGrid struct {
	E             Execution
	Batch, Length int
	From, To      int // the steps under way: From…To-1
}

func (g *StreamingGrid) Attach(e Execution) { g.E = e }

func (g *StreamingGrid) Grid() (batch, length int) { return g.Batch, g.Length }

func (g *StreamingGrid) Start() error { return nil }

func (g *StreamingGrid) Finish() {}

func (g *StreamingGrid) Bytes() int64 { return 0 }

// Items returns the number of work items of the steps under way.
func (g *StreamingGrid) Items() int {
	return g.Batch * ((g.To - g.From + StreamingTile - 1) / StreamingTile)
}

// ItemAt returns the sample, the first step and the number of steps of work item k.
func (g *StreamingGrid) ItemAt(k int) (sample, from, n int) {
	from = g.From + k/g.Batch*StreamingTile
	return k % g.Batch, from, min(StreamingTile, g.To-from)
}
