package record

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// tensorKernel computes a step from whole tensors, for the shapes and constants of one binding.
type TensorKernel struct {
	Run func(e Execution, c Call) error
	// temp is the float32 numbers of the arena that the kernel has to itself while it runs; scratch those that each
	// worker needs.
	Temp, Scratch int
	Tables        int64  // bytes of constants that the first run makes
	Joins         []int  // per input: its offset in the result, in bytes. Inputs that are there already are not copied.
	Renames       bool   // The result has the elements of input 0, in order, and may share its memory.
	Fuses         bool   // run computes tensorCall.result, and applies tensorCall.epilogue
	Refill        func() // after it the next run computes again what the first one has kept of settled inputs; nil: nothing
}

// tensorMaker makes the kernel for a binding, or gives nil where its shapes or element types do not fit.
type TensorMaker func(d *lowering.Binding) *TensorKernel

// tensorCall is a kernel's data for one step of the program.
type Call struct {
	Temp     []float32
	Result   lowering.Slot[float32] // of a kernel that fuses: its result, after the epilogue if there is one
	Epilogue *Epilogue              // applied to each number of the result; nil for none
}

// Execution is a kernel's view of the run.
type Execution interface {
	// Frame returns the values of the run. Their elements are in the slots that the kernel requested when it was
	// made.
	Frame() *lowering.Frame
	// At finds a step of a sample in the buffer of a sequence that has length steps per sample.
	At(v *lowering.Value, sample, step, length int) int
	// Parallel hands out the work items of a task to the workers, and waits.
	Parallel(t Task, items int) error
	// Halted reports that the run has ended early, for long work outside a task; Failed is the reason.
	Halted() kernel.Stop
	Failed() error
	// Steps ends such work when the run has ended (ops.Each and the like).
	Steps() *ir.EvalCtx
	// Fallback evaluates the step as ops defines it, for kernels that find invalid inputs during the run.
	Fallback(s *lowering.Step) error
}

// task is work that can be done in pieces, in any order. Each worker is handed neighbouring ones.
type Task interface{ Do(w *Workspace, k int) }

// workspace is a kernel's data on one worker.
type Workspace struct {
	Scratch []float32
	made    int         // what Fresh was asked for last, and 1; 0: nothing since the task began
	Node    *ir.Node    // the node being computed, for messages
	Halted  kernel.Stop // whether the run has failed or was cancelled, so that remaining work can be skipped
	Steps   *ir.EvalCtx // ends a work item that takes long when the run has failed or was cancelled (ops.Each and the like)
}

func (w *Workspace) Stopped() bool { return w.Halted() }

// Begin begins a task: scratch has nothing that it needs.
func (w *Workspace) Begin() { w.made = 0 }

// Fresh reports whether part k ≥ 0 of what the items of a task prepare must be made in scratch: false if the worker's last
// item has made the same part.
func (w *Workspace) Fresh(k int) bool {
	old := w.made
	w.made = k + 1
	return old != k+1
}

// FirstOf makes the first kernel that fits.
func FirstOf(a, b TensorMaker) TensorMaker {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(d *lowering.Binding) *TensorKernel {
		mark := d.Charged()
		if k := a(d); k != nil {
			return k
		}
		d.Discharge(mark)
		return b(d)
	}
}

// either makes kernels of two sorts; the first that fits runs.
func Either(a, b func(s *lowering.Step) TensorMaker) func(s *lowering.Step) TensorMaker {
	return func(s *lowering.Step) TensorMaker { return FirstOf(a(s), b(s)) }
}

// shapedMaker makes the kernel for shapes (in: nil where absent), or gives nil where they do not fit.
type ShapedMaker func(d *lowering.Binding, in [][]int, out []int) *TensorKernel

// shaped are kernels that depend only on the shapes of float32 tensors.
func Shaped(of func(s *lowering.Step) ShapedMaker) func(s *lowering.Step) TensorMaker {
	return func(s *lowering.Step) TensorMaker {
		mk := of(s)
		if mk == nil {
			return nil
		}
		return func(d *lowering.Binding) *TensorKernel {
			in, out, ok := TensorShapes(d, s)
			if !ok {
				return nil
			}
			return mk(d, in, out)
		}
	}
}

// tensorShapes gives the shapes of all inputs and of the output, where they are known and outputs, states aside, are
// float32.
func TensorShapes(d *lowering.Binding, s *lowering.Step) (in [][]int, out []int, ok bool) {
	in = make([][]int, len(s.In))
	for i, v := range s.In {
		if v == nil {
			continue
		}
		if d.Shape(v) == nil {
			if v.Fixed() != nil { // a scalar
				in[i] = []int{}
				continue
			}
			if d.Missing(v) {
				continue
			}
			return nil, nil, false
		}
		in[i] = d.Shape(v)
	}
	for i, v := range s.Out {
		if (v == nil || !d.IsFloat32(v)) && (i == 0 || !Of(s).Record.States()) {
			return nil, nil, false
		}
	}
	return in, d.Shape(s.Out[0]), true
}
