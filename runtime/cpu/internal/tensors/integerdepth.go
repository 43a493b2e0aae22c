package tensors

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// mostDepth is the largest number of weights of a filter whose sums are integers that float32 holds: products of two
// numbers within ±255.
const mostDepth = 1 << 24 / (255 * 255)

// integerDepth is a convolution of bytes whose groups have one input channel. It is computed in float32, a channel at a time,
// which stays in the nearest cache; products and sums are exact there.
type integerDepth struct {
	integerConv
	filters       []float32
	channel       channelConv
	size          int // of an output channel, so that it is whole vectors
	places, parts int // channels of the output per work item, work items per sample
}

// depthVector is a multiple of the number of elements that kernels take at a time. They take longer for a rest.
const depthVector = 32

// depthKey identifies filters as numbers, which the programs of a model share.
type depthKey struct{ filterKey }

// asDepth returns the filters for integerDepth, or nil if that is not the form for them.
func (c *integerConv) asDepth(s *lowering.Step, key filterKey) []float32 {
	k := c.kh * c.kw
	if c.cg != 1 || c.group == 1 || k > mostDepth {
		return nil
	}
	return record.Of(s).Shared.Get(depthKey{key}, func() any {
		w, width := make([]float32, c.m*k), 2*kernel.PairsOf(k)
		for i := range c.m {
			for j := range k {
				w[i*k+j] = float32(c.weights[i*width+j])
			}
		}
		return w
	}).([]float32)
}

func (c integerConv) depthwise(d *lowering.Binding, s *lowering.Step, x *lowering.Value, w []float32) *record.TensorKernel {
	p := &integerDepth{integerConv: c, filters: w, channel: newChannelConv(c.PlanarWindow, c.kh, c.kw)}
	p.size = (c.Oh*c.Ow + depthVector - 1) / depthVector * depthVector
	p.places = p.channel.channelsOf(c.m, c.kh*c.kw)
	p.parts = (c.m + p.places - 1) / p.places
	in, zero, result := byteSlotOf(d, x), byteSlotOf(d, c.zeroIn), newSumSlot(d, s, c.requantize != nil)
	return &record.TensorKernel{Scratch: c.H*c.Wd + p.size + p.size/4 + p.channel.scratch(),
		Run: func(e record.Execution, call record.Call) error {
			f := e.Frame()
			p.in, p.zero = in.in(f).Bytes, zero.first(f)
			p.sums, p.out = result.in(f)
			return e.Parallel(p, p.N*p.parts)
		}}
}

func (p *integerDepth) Do(w *record.Workspace, k int) {
	n, from := k/p.parts, k%p.parts*p.places
	taps, mg, size, plane := p.kh*p.kw, p.m/p.group, p.Oh*p.Ow, p.H*p.Wd
	// The numbers lie between others: kernels mask what they read beside them, which is slow where no memory is.
	y, numbers := w.Scratch[:p.size], w.Scratch[p.size:p.size+plane]
	line, rest := uint8s(w.Scratch[plane+p.size:][:p.size/4]), w.Scratch[plane+p.size+p.size/4:]
	var in []float32
	for m := from; m < min(p.m, from+p.places); m++ {
		if m == from || m%mg == 0 {
			x := p.in.Data[(n*p.C+m/mg)*plane:][:plane]
			kernel.DequantizeBytes(numbers, kernel.Bytes{Data: x, Signed: p.in.Signed}, 1, p.zero)
			in = p.channel.prepare(rest, numbers)
		}
		p.channel.convolve(rest, y[:size], in, p.filters[m*taps:(m+1)*taps], 0)
		at := (n*p.m + m) * size
		r := p.requantize
		if r == nil {
			kernel.IntsOfFloats(p.sums[at:at+size], y[:size])
			continue
		}
		sums := int32s(y)
		kernel.IntsOfFloats(sums, y)
		kernel.ScaleBytes(kernel.Bytes{Data: line, Signed: p.out.Signed}, sums, r.bias[m], r.scale[m], r.zero)
		copy(p.out.Data[at:at+size], line)
	}
}
