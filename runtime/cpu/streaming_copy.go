package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// copying serves operators that only change the shape, and not where time lies.
type copying struct {
	streamingGrid
	s     *lowering.Step
	width int
}

func streamingCopy(s *lowering.Step) streamingMaker {
	if !s.Float32Input(0) {
		return nil
	}
	return func(d *lowering.Binding) streamingKernel {
		if !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &copying{s: s}
		var ok bool
		if k.batch, k.length, k.width, ok = d.Along(s.In[0]); !ok {
			return nil
		}
		if batch, length, width, ok := d.Along(s.Out[0]); !ok || batch != k.batch || length != k.length || width != k.width {
			return nil
		}
		return k
	}
}

func (k *copying) steps(from, to int) error {
	k.from, k.to = from, to
	return k.e.parallel(k, k.items())
}

func (k *copying) do(_ *workspace, t int) {
	sample, from, n := k.streamingGrid.itemAt(t)
	in, out := k.s.In[0], k.s.Out[0]
	copy(k.e.floats(out)[k.e.at(out, sample, from, k.length)*k.width:][:n*k.width], k.e.floats(in)[k.e.at(in, sample, from, k.length)*k.width:])
}
