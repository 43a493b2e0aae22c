package tensors

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// depthwise is the form for groups of one input channel: each output channel is a sum of shifted copies of an input.
// The input is separated into the phases of the strides, so that the inputs of a weight are contiguous. Rows are
// contiguous, too, so that short ones form a long one; the outputs between rows are dropped.
func (c conv2d) depthwise() *record.TensorKernel {
	if k := c.depth(); k != nil {
		return k
	}
	d := &depthPass{conv2d: c}
	d.pw, d.ph = (c.Wp+c.Sw-1)/c.Sw, (c.Hp+c.Sh-1)/c.Sh
	d.plane = d.pw * d.ph
	off := make([]int32, 0, c.k())
	for i := range c.kh {
		for j := range c.kw {
			y, x := i*c.Dh, j*c.Dw
			off = append(off, int32(((y%c.Sh)*c.Sw+x%c.Sw)*d.plane+y/c.Sh*d.pw+x/c.Sw))
		}
	}
	d.offsets = kernel.NewOffsets(off)
	const vector = 8
	d.span = ((c.Oh-1)*d.pw + c.Ow + vector - 1) / vector * vector
	d.phases = c.Sh*c.Sw*d.plane + 2*vector + d.pw // slack: numbers that are read beyond the last position
	d.phases = max(d.phases, int(slices.Max(off))+d.span)
	d.places = max(1, min(c.m, convItemFlops/8/max(1, d.span*c.k())))
	d.parts = (c.m + d.places - 1) / d.places
	return &record.TensorKernel{Fuses: true, Scratch: d.phases + d.span,
		Run: func(e record.Execution, call record.Call) error {
			f := e.Frame()
			d.e, d.x, d.y, d.after = e, d.in.In(f), call.Result.In(f), call.Epilogue
			return e.Parallel(d, d.N*d.parts)
		}}
}

type depthPass struct {
	conv2d
	pw, ph, plane int // width, height and size of one phase
	phases        int // size of all phases
	span          int // size of an output channel, with rows pw apart
}

func (p *depthPass) Do(w *record.Workspace, k int) {
	n, from := k/p.parts, k%p.parts*p.places
	in, out := w.Scratch[:p.phases], w.Scratch[p.phases:p.phases+p.span]
	taps, mg, size := p.kh*p.kw, p.m/p.group, p.Oh*p.Ow
	left := 0 // further output channels of the same input channel
	for m := from; m < min(p.m, from+p.places); m++ {
		if left == 0 {
			ch := m / mg
			left = (ch+1)*mg - m
			p.split(in, p.x[(n*p.C+ch)*p.H*p.Wd:(n*p.C+ch+1)*p.H*p.Wd])
		}
		left--
		var bias float32
		if p.bias != nil {
			bias = p.bias[m]
		}
		kernel.Taps(out, in, p.offsets, p.w[m*taps:(m+1)*taps], bias)
		at := (n*p.m + m) * size
		y := p.y[at : at+size]
		for r := 0; len(y) > 0; r += p.pw {
			y = y[copy(y[:p.Ow], out[r:]):]
		}
		if p.after != nil {
			p.after.Apply(p.e, p.y, &record.Block{At: at, Channel: m, Rows: 1, N: size, Stride: size})
		}
	}
}

// depth is the form for which there is a kernel of whole channels; nil if there is none.
func (c conv2d) depth() *record.TensorKernel {
	if c.kh != c.kw || c.Sh != c.Sw && c.Oh > 1 && c.Ow > 1 || c.Dh != 1 || c.Dw != 1 {
		return nil
	}
	p := &wholePass{conv2d: c, plan: kernel.NewDepth(kernel.Depth{H: c.H, W: c.Wd, Top: c.Top, Left: c.Left, Oh: c.Oh,
		Ow: c.Ow, Size: c.kh, Stride: max(c.Sh, c.Sw)})}
	if p.plan == nil {
		return nil
	}
	p.places = max(1, min(c.m, convItemFlops/8/(c.Oh*c.Ow*c.k())))
	p.parts = (c.m + p.places - 1) / p.places
	return &record.TensorKernel{Fuses: true, Run: func(e record.Execution, call record.Call) error {
		f := e.Frame()
		p.e, p.x, p.y, p.after = e, p.in.In(f), call.Result.In(f), call.Epilogue
		return e.Parallel(p, p.N*p.parts)
	}}
}

// wholePass computes some channels of the output.
type wholePass struct {
	conv2d
	plan *kernel.Depth
}

func (p *wholePass) Do(w *record.Workspace, k int) {
	n, from := k/p.parts, k%p.parts*p.places
	taps, mg, size, plane := p.kh*p.kw, p.m/p.group, p.Oh*p.Ow, p.H*p.Wd
	for m := from; m < min(p.m, from+p.places); m++ {
		var bias float32
		if p.bias != nil {
			bias = p.bias[m]
		}
		at := (n*p.m + m) * size
		p.plan.Run(p.y[at:at+size], p.x[(n*p.C+m/mg)*plane:][:plane], p.w[m*taps:(m+1)*taps], bias)
		p.after.Apply(p.e, p.y, &record.Block{At: at, Channel: m, Rows: 1, N: size, Stride: size})
	}
}

// split pads a channel and separates it into its phases.
func (p *depthPass) split(dst, src []float32) {
	if p.Sh == 1 && p.Sw == 1 {
		pad(dst[:p.plane], src, p.H, p.Wd, p.Wp, p.Top, p.Left)
		clear(dst[p.plane:])
		return
	}
	clear(dst)
	for r := range p.H {
		y := r + p.Top
		row := src[r*p.Wd : (r+1)*p.Wd]
		if p.Sw == 2 {
			at := dst[y%p.Sh*2*p.plane+y/p.Sh*p.pw:]
			even, odd := at[p.Left%2*p.plane+p.Left/2:], at[(p.Left+1)%2*p.plane+(p.Left+1)/2:]
			kernel.Part(even[:p.Wd/2], odd[:p.Wd/2], row)
			if p.Wd%2 == 1 {
				even[p.Wd/2] = row[p.Wd-1]
			}
			continue
		}
		for phase := range p.Sw {
			// The first column of this phase, with the pad.
			first := ((phase-p.Left)%p.Sw + p.Sw) % p.Sw
			to := dst[((y%p.Sh)*p.Sw+phase)*p.plane+y/p.Sh*p.pw+(first+p.Left)/p.Sw:]
			for i, j := 0, first; j < len(row); i, j = i+1, j+p.Sw {
				to[i] = row[j]
			}
		}
	}
}
