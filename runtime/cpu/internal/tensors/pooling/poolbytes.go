package pooling

import (
	"math"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors/integers"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// bytePool finds the greatest byte of each window, one channel at a time. It copies the channel's phases with pads,
// which are the smallest byte, and computes the maximum at all positions; those between rows are dropped.
type bytePool struct {
	integers.Planes
	windowed.PlanarWindow
	taps kernel.Offsets
	span int // number of positions
	pad  byte
	x, y kernel.Bytes
}

func newBytePool(d *lowering.Binding, s *lowering.Step, w windowed.PlanarWindow, kh, kw int) *record.TensorKernel {
	p := &bytePool{PlanarWindow: w, Planes: integers.PhasesOf(&w, kh, kw)}
	if p.Channel > math.MaxInt32/2 {
		return nil
	}
	p.span = (w.Oh-1)*p.Pw + w.Ow
	taps := lowering.Make[int32](d, kh*kw)
	for i := range taps {
		taps[i] = int32(p.At(&w, i/kw, i%kw))
	}
	p.taps = kernel.NewOffsets(taps)
	x, y := integers.ByteSlotOf(d, s.In[0]), integers.ByteSlotOf(d, s.Out[0])
	if x.Signed {
		p.pad = 0x80
	}
	return &record.TensorKernel{Scratch: (p.Channel + p.Pw + p.span + 3) / 4, Run: func(e record.Execution, c record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f).Bytes, y.In(f).Bytes
		return e.Parallel(p, p.N*p.C)
	}}
}

func (p *bytePool) Do(w *record.Workspace, k int) {
	in, out := p.H*p.Wd, p.Oh*p.Ow
	all := tensors.Uint8s(w.Scratch)
	planes, largest := all[:p.Channel+p.Pw], all[p.Channel+p.Pw:][:p.span]
	p.Copy(planes, p.x.Data[k*in:(k+1)*in], &p.PlanarWindow, p.pad)
	y := p.y.Data[k*out : (k+1)*out]
	if p.Pw == p.Ow {
		largest = y
	}
	kernel.LargestTaps(largest, kernel.Bytes{Data: planes, Signed: p.x.Signed}, p.taps, 0)
	if p.Pw != p.Ow {
		kernel.CopyByteRows(y, p.Ow, p.Ow, largest, 0, p.Pw, 1, p.Oh, 0, p.Ow, 0)
	}
}
