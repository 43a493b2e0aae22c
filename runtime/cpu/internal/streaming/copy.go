package streaming

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// copying serves operators that only change the shape, and not where time lies.
type copying struct {
	record.StreamingGrid
	s     *lowering.Step
	width int
}

func StreamingCopy(s *lowering.Step) record.StreamingMaker {
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
		if batch, length, width, ok := d.Along(s.Out[0]); !ok || batch != k.Batch || length != k.Length || width != k.width {
			return nil
		}
		return k
	}
}

func (k *copying) Steps(from, to int) error {
	k.From, k.To = from, to
	return k.E.Parallel(k, k.Items())
}

func (k *copying) Do(_ *record.Workspace, t int) {
	sample, from, n := k.StreamingGrid.ItemAt(t)
	in, out := k.s.In[0], k.s.Out[0]
	copy(k.E.Floats(out)[k.E.At(out, sample, from, k.Length)*k.width:][:n*k.width], k.E.Floats(in)[k.E.At(in, sample, from, k.Length)*k.width:])
}
