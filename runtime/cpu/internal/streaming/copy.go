package streaming

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	kind := record.StreamingKind{Make: streamingCopy}
	record.Register(
		record.Record{Op: "Reshape", Streaming: kind},
		record.Record{Op: "Squeeze", Streaming: kind},
		record.Record{Op: "Unsqueeze", Streaming: kind},
		record.Record{Op: "Flatten", Streaming: kind},
	)
}

// copying is the kernel of operators that change only the shape, but not the axis of time.
type copying struct {
	record.StreamingGrid
	s     *lowering.Step
	from  lowering.Slot[float32]
	to    lowering.Slot[float32]
	width int
	x, y  []float32
	whole bool // the steps under way are all of x and y, in the same order
}

func streamingCopy(s *lowering.Step) record.StreamingMaker {
	if !s.Float32Input(0) {
		return nil
	}
	return func(d *lowering.Binding) record.StreamingKernel {
		if !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &copying{s: s}
		var ok bool
		if k.Batch, k.Length, k.width, ok = d.Along(s.In[0]); !ok {
			return nil
		}
		if batch, length, width, ok := d.Along(s.Out[0]); !ok || batch != k.Batch || length != k.Length ||
			width != k.width {
			return nil
		}
		k.from, k.to = lowering.Input[float32](d, s, 0), lowering.Output[float32](d, s, 0)
		return k
	}
}

// wholeItem is the size of a work item, in float32, if whole tensors are copied.
const wholeItem = 1 << 16

func (k *copying) Steps(from, to int) error {
	k.From, k.To = from, to
	f := k.E.Frame()
	k.x, k.y = k.from.In(f), k.to.In(f)
	n := k.Batch * k.Length * k.width
	k.whole = from == 0 && to == k.Length && len(k.x) == n && len(k.y) == n
	if k.whole {
		return k.E.Parallel(k, (n+wholeItem-1)/wholeItem)
	}
	return k.E.Parallel(k, k.Items())
}

func (k *copying) Do(w *record.Workspace, t int) {
	if k.whole {
		lo, hi := t*wholeItem, min((t+1)*wholeItem, len(k.y))
		copy(k.y[lo:hi], k.x[lo:hi])
		return
	}
	sample, from, n := k.ItemAt(t)
	in, out := k.s.In[0], k.s.Out[0]
	y := k.y[k.E.At(out, sample, from, k.Length)*k.width:][:n*k.width]
	ops.Put(w.Steps, y, k.x[k.E.At(in, sample, from, k.Length)*k.width:])
}
