package integers

import (
	"math"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors/convolution"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// mostDepth is the maximum number of weights per filter for which sums of products of two numbers within ±255 are
// exact in float32.
const mostDepth = 1 << 24 / (255 * 255)

// integerDepth is a convolution of bytes whose groups have one input channel. It is computed in float32, one channel
// at a time, so that it stays in the first-level cache. Products and sums are exact there.
type integerDepth struct {
	integerConv
	filters       []float32
	channel       convolution.ChannelConv
	scale         kernel.RowScale // without biases and scales
	places, parts int             // output channels per work item, work items per sample
}

// depthKey identifies filters as numbers, which the programs of a model share.
type depthKey struct{ filterKey }

// asDepth returns the filters for integerDepth, or nil if that form does not fit.
func (c *integerConv) asDepth(s *lowering.Step, key filterKey, zeros []int) []float32 {
	k := c.kh * c.kw
	if c.cg != 1 || c.group == 1 || k > mostDepth {
		return nil
	}
	return record.Of(s).Shared.Get(depthKey{key}, func() any {
		w, weights, width := make([]float32, c.m*k), c.differences(key, zeros), 2*kernel.PairsOf(k)
		for i := range c.m {
			for j := range k {
				w[i*k+j] = float32(weights[i*width+j])
			}
		}
		return w
	}).([]float32)
}

func (c integerConv) depthwise(d *lowering.Binding, s *lowering.Step, x *lowering.Value, w []float32) *record.TensorKernel {
	p := &integerDepth{integerConv: c, filters: w, channel: convolution.NewChannelConv(c.PlanarWindow, c.kh, c.kw)}
	p.places = p.channel.ChannelsOf(c.m, c.kh*c.kw)
	p.parts = (c.m + p.places - 1) / p.places
	if r := c.requantize; r != nil {
		p.scale = kernel.RowScale{Zero: r.zero, Exact: true}
		for m, bias := range r.bias {
			most := math.Abs(bias)
			for _, v := range w[m*c.kh*c.kw : (m+1)*c.kh*c.kw] {
				most += math.MaxUint8 * math.Abs(float64(v))
			}
			p.scale.Exact = p.scale.Exact && most <= kernel.MostExact
		}
	}
	in, zero, result := ByteSlotOf(d, x), ByteSlotOf(d, c.zeroIn), newSumSlot(d, s, c.requantize != nil)
	return &record.TensorKernel{Scratch: c.H*c.Wd + c.Oh*c.Ow + p.channel.Scratch(),
		Run: func(e record.Execution, call record.Call) error {
			f := e.Frame()
			p.in, p.zero = in.In(f).Bytes, zero.first(f)
			p.sums, p.out = result.in(f)
			return e.Parallel(p, p.N*p.parts)
		}}
}

func (p *integerDepth) Do(w *record.Workspace, k int) {
	n, from := k/p.parts, k%p.parts*p.places
	taps, mg, size, plane := p.kh*p.kw, p.m/p.group, p.Oh*p.Ow, p.H*p.Wd
	// The numbers have memory on both sides: kernels mask what they read next to them, which is slow at unmapped
	// addresses.
	y, numbers := w.Scratch[:size], w.Scratch[size:size+plane]
	rest := w.Scratch[plane+size:]
	var in []float32
	for m := from; m < min(p.m, from+p.places); m++ {
		if m == from || m%mg == 0 {
			x := p.in.Data[(n*p.C+m/mg)*plane:][:plane]
			kernel.DequantizeBytes(numbers, kernel.Bytes{Data: x, Signed: p.in.Signed}, 1, p.zero)
			in = p.channel.Prepare(rest, numbers)
		}
		p.channel.Convolve(rest, y, in, p.filters[m*taps:(m+1)*taps], 0)
		at := (n*p.m + m) * size
		if p.requantize == nil {
			kernel.IntsOfFloats(p.sums[at:at+size], y)
			continue
		}
		scale := p.scale
		scale.Bias, scale.Scale = p.requantize.bias[m:m+1], p.requantize.scale[m:m+1]
		scale.Floats(kernel.Bytes{Data: p.out.Data[at : at+size], Signed: p.out.Signed}, size, y, size, 1, size)
	}
}
