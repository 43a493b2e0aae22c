package convolution

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// ChannelConv convolves one channel with one filter. If there is no kernel for whole channels, an output channel is
// a sum of shifted copies of its input. The input is separated into the phases of the strides, so that the inputs of
// a weight are contiguous. Rows are contiguous too, so short ones form a long one; the outputs between rows are
// dropped.
type ChannelConv struct {
	windowed.PlanarWindow
	whole         *kernel.Depth // nil if it is computed by phases
	offsets       kernel.Offsets
	pw, ph, plane int // width, height and size of one phase
	phases        int // size of all phases
	span          int // size of an output channel, with rows pw apart
}

func NewChannelConv(c windowed.PlanarWindow, kh, kw int) ChannelConv {
	d := ChannelConv{PlanarWindow: c}
	if kh == kw && (c.Sh == c.Sw || c.Oh == 1 || c.Ow == 1) && c.Dh == 1 && c.Dw == 1 {
		d.whole = kernel.NewDepth(kernel.Depth{H: c.H, W: c.Wd, Top: c.Top, Left: c.Left, Oh: c.Oh, Ow: c.Ow, Size: kh,
			Stride: max(c.Sh, c.Sw)})
		if d.whole != nil {
			return d
		}
	}
	d.pw, d.ph = (c.Wp+c.Sw-1)/c.Sw, (c.Hp+c.Sh-1)/c.Sh
	d.plane = d.pw * d.ph
	off := make([]int32, 0, kh*kw)
	for i := range kh {
		for j := range kw {
			y, x := i*c.Dh, j*c.Dw
			off = append(off, int32(((y%c.Sh)*c.Sw+x%c.Sw)*d.plane+y/c.Sh*d.pw+x/c.Sw))
		}
	}
	d.offsets = kernel.NewOffsets(off)
	const vector = 8
	d.span = ((c.Oh-1)*d.pw + c.Ow + vector - 1) / vector * vector
	d.phases = c.Sh*c.Sw*d.plane + 2*vector + d.pw // slack: numbers that are read past the last position
	d.phases = max(d.phases, int(slices.Max(off))+d.span)
	return d
}

// Scratch returns the number of words that prepare and convolve need.
func (d *ChannelConv) Scratch() int { return d.phases + d.span }

// Prepare returns an input channel in the layout for convolve.
func (d *ChannelConv) Prepare(scratch, x []float32) []float32 {
	if d.whole != nil {
		return x
	}
	d.split(scratch[:d.phases], x)
	return scratch[:d.phases]
}

// Convolve computes an output channel of a prepared input.
func (d *ChannelConv) Convolve(scratch, y, x, w []float32, bias float32) {
	if d.whole != nil {
		d.whole.Run(y, x, w, bias)
		return
	}
	out := scratch[d.phases : d.phases+d.span]
	kernel.Taps(out, x, d.offsets, w, bias)
	for r := 0; len(y) > 0; r += d.pw {
		y = y[copy(y[:d.Ow], out[r:]):]
	}
}

// split pads a channel and separates it into its phases.
func (d *ChannelConv) split(dst, src []float32) {
	if d.Sh == 1 && d.Sw == 1 {
		pad(dst[:d.plane], src, d.H, d.Wd, d.Wp, d.Top, d.Left)
		clear(dst[d.plane:])
		return
	}
	clear(dst)
	for r := range d.H {
		y := r + d.Top
		row := src[r*d.Wd : (r+1)*d.Wd]
		if d.Sw == 2 {
			at := dst[y%d.Sh*2*d.plane+y/d.Sh*d.pw:]
			even, odd := at[d.Left%2*d.plane+d.Left/2:], at[(d.Left+1)%2*d.plane+(d.Left+1)/2:]
			kernel.Part(even[:d.Wd/2], odd[:d.Wd/2], row)
			if d.Wd%2 == 1 {
				even[d.Wd/2] = row[d.Wd-1]
			}
			continue
		}
		for phase := range d.Sw {
			// The first column of this phase, including the pad.
			first := ((phase-d.Left)%d.Sw + d.Sw) % d.Sw
			to := dst[((y%d.Sh)*d.Sw+phase)*d.plane+y/d.Sh*d.pw+(first+d.Left)/d.Sw:]
			for i, j := 0, first; j < len(row); i, j = i+1, j+d.Sw {
				to[i] = row[j]
			}
		}
	}
}

// ChannelsOf returns the number of output channels of a work item, for m channels with k weights each.
func (d *ChannelConv) ChannelsOf(m, k int) int {
	const most, least, items = 1 << 18, 1 << 15, 8 // maximum and minimum products per item, number of items
	per := max(1, max(d.span, d.Oh*d.Ow)*k)
	return max(1, min(m, most/per, max((m+items-1)/items, least/per)))
}

// depthwise returns the form for groups of one input channel.
func (c conv2d) depthwise() *record.TensorKernel {
	p := &depthPass{conv2d: c, channel: NewChannelConv(c.PlanarWindow, c.kh, c.kw)}
	p.places = p.channel.ChannelsOf(c.m, c.k())
	p.parts = (c.m + p.places - 1) / p.places
	return &record.TensorKernel{Fuses: true, Scratch: p.channel.Scratch(),
		Run: func(e record.Execution, call record.Call) error {
			p.asGiven()
			f := e.Frame()
			p.e, p.x, p.y, p.after = e, p.in.In(f), call.Result.In(f), call.Epilogue
			return e.Parallel(p, p.N*p.parts)
		}}
}

// depthBlock is the number of outputs, in whole channels, after which the epilogue is applied. They are then still
// in the first-level cache.
const depthBlock = 1 << 12

// depthPass computes some channels of the output.
type depthPass struct {
	conv2d
	channel ChannelConv
}

func (p *depthPass) Do(w *record.Workspace, k int) {
	n, from := k/p.parts, k%p.parts*p.places
	taps, mg, size, plane := p.kh*p.kw, p.m/p.group, p.Oh*p.Ow, p.H*p.Wd
	var in []float32
	first, end := from, min(p.m, from+p.places)
	for m := from; m < end; m++ {
		if m == from || m%mg == 0 {
			in = p.channel.Prepare(w.Scratch, p.x[(n*p.C+m/mg)*plane:][:plane])
		}
		var bias float32
		if p.bias != nil {
			bias = p.bias[m]
		}
		at := (n*p.m + m) * size
		p.channel.Convolve(w.Scratch, p.y[at:at+size], in, p.w[m*taps:(m+1)*taps], bias)
		if count := m + 1 - first; m+1 == end || (count+1)*size > depthBlock {
			p.after.Apply(p.e, p.y, &record.Block{At: at - (count-1)*size, Channel: first, Rows: count, N: size, Stride: size})
			first = m + 1
		}
	}
}
