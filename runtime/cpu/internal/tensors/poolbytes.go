package tensors

import (
	"math"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// bytePool finds the greatest byte of each window, one channel at a time. It copies the channel's phases with pads,
// which are the smallest byte, and computes the maximum at all positions; those between rows are dropped.
type bytePool struct {
	planes
	windowed.PlanarWindow
	taps kernel.Offsets
	span int // number of positions
	pad  byte
	x, y kernel.Bytes
}

func newBytePool(d *lowering.Binding, s *lowering.Step, w windowed.PlanarWindow, kh, kw int) *record.TensorKernel {
	p := &bytePool{PlanarWindow: w, planes: phasesOf(&w, kh, kw)}
	if p.channel > math.MaxInt32/2 {
		return nil
	}
	p.span = (w.Oh-1)*p.pw + w.Ow
	taps := lowering.Make[int32](d, kh*kw)
	for i := range taps {
		taps[i] = int32(p.at(&w, i/kw, i%kw))
	}
	p.taps = kernel.NewOffsets(taps)
	x, y := byteSlotOf(d, s.In[0]), byteSlotOf(d, s.Out[0])
	if x.signed {
		p.pad = 0x80
	}
	return &record.TensorKernel{Scratch: (p.channel + p.pw + p.span + 3) / 4, Run: func(e record.Execution, c record.Call) error {
		f := e.Frame()
		p.x, p.y = x.in(f).Bytes, y.in(f).Bytes
		return e.Parallel(p, p.N*p.C)
	}}
}

func (p *bytePool) Do(w *record.Workspace, k int) {
	in, out := p.H*p.Wd, p.Oh*p.Ow
	all := uint8s(w.Scratch)
	planes, largest := all[:p.channel+p.pw], all[p.channel+p.pw:][:p.span]
	p.copy(planes, p.x.Data[k*in:(k+1)*in], &p.PlanarWindow, p.pad)
	y := p.y.Data[k*out : (k+1)*out]
	if p.pw == p.Ow {
		largest = y
	}
	kernel.LargestTaps(largest, kernel.Bytes{Data: planes, Signed: p.x.Signed}, p.taps, 0)
	if p.pw != p.Ow {
		kernel.CopyByteRows(y, p.Ow, p.Ow, largest, 0, p.pw, 1, p.Oh, 0, p.Ow, 0)
	}
}
