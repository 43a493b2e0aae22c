package tensors

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{
		Op:       "Conv",
		Windowed: record.WindowedKind{Make: windowed.WindowedConv, Constant: []int{1, 2}, Pads: true},
		Tensor:   record.TensorKind{Make: convKernel, Constant: []int{1, 2}},
	})
}

// filters are the constant weights of a convolution. They are packed once for each form.
type filters struct {
	w, bias         []float32
	m, cg, kh, kw   int // kh: taps of all axes but the last
	group           int
	onceRows, onceP sync.Once
	rows            []float32        // (M, K) or, with a bias, (M, K+1)
	packed          []*kernel.Packed // per group
}

// k returns the number of weights of a filter.
func (f *filters) k() int { return f.cg * f.kh * f.kw }

// width returns the width of rows: k, and one more with a bias, which is multiplied by 1.
func (f *filters) width() int {
	if f.bias != nil {
		return f.k() + 1
	}
	return f.k()
}

func (f *filters) asRows() []float32 {
	f.onceRows.Do(func() {
		if f.rows = f.w; f.bias == nil {
			return
		}
		k := f.k()
		f.rows = make([]float32, f.m*(k+1))
		for i := range f.m {
			copy(f.rows[i*(k+1):], f.w[i*k:(i+1)*k])
			f.rows[i*(k+1)+k] = f.bias[i]
		}
	})
	return f.rows
}

func (f *filters) asPacked() []*kernel.Packed {
	f.onceP.Do(func() {
		k, mg := f.k(), f.m/f.group
		for g := range f.group {
			f.packed = append(f.packed, kernel.Pack(f.w[g*mg*k:], mg, k, k, 1))
		}
	})
	return f.packed
}

// conv2d is a convolution over one or two axes for one shape. With one axis, the other has size 1.
type conv2d struct {
	*filters
	windowed.PlanarWindow
	in      lowering.Slot[float32]
	offsets kernel.Offsets
	places  int // positions of the output per work item
	parts   int // work items per sample and group

	// While it runs:
	e            record.Execution
	x, y, padded []float32
	after        *record.Epilogue
}

func convKernel(s *lowering.Step) record.TensorMaker {
	ws := s.ConstShape(1)
	if !s.Float32Input(1) || len(ws) < 3 {
		return nil
	}
	f := &filters{w: s.Constant(1), bias: s.Constant(2), m: ws[0], cg: ws[1], kh: product(ws[2 : len(ws)-1]),
		kw: ws[len(ws)-1], group: int(ops.Int(s.Node, "group"))}
	if f.group < 1 || f.m%f.group != 0 || f.m == 0 || f.k() == 0 || f.bias != nil && len(f.bias) != f.m {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		if len(ws) > 4 {
			return newConvND(d, s, f, ws[2:])
		}
		in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
		if len(in) != len(ws) {
			return nil
		}
		p, ok := windowed.Planar(s.Node, in, out, f.kh, f.kw)
		if !ok || p.C != f.cg*f.group {
			return nil
		}
		c := conv2d{filters: f, PlanarWindow: p, in: lowering.Input[float32](d, s, 0)}
		switch {
		case f.cg == 1 && f.group > 1:
			return c.depthwise()
		case c.framed():
			return c.frames()
		}
		return c.panels()
	}
}

// pads reports whether the input must be copied to a padded one.
func (c *conv2d) pads() bool { return c.Hp != c.H || c.Wp != c.Wd }

// weightOffsets returns the positions of the inputs of a filter's weights in the padded input of a group.
func (c *conv2d) weightOffsets() kernel.Offsets {
	off := make([]int32, 0, c.k())
	for ch := range c.cg {
		for i := range c.kh {
			for j := range c.kw {
				off = append(off, int32((ch*c.Hp+i*c.Dh)*c.Wp+j*c.Dw))
			}
		}
	}
	return kernel.NewOffsets(off)
}

// start sets the buffers of a run, and pads the input if necessary.
func (c *conv2d) start(e record.Execution, call record.Call) error {
	f := e.Frame()
	c.e, c.x, c.y, c.after = e, c.in.In(f), call.Result.In(f), call.Epilogue
	c.padded = c.x
	if !c.pads() {
		return nil
	}
	c.padded = call.Temp
	return e.Parallel((*padPass)(c), c.N*c.C)
}

// padPass copies channels into the padded input.
type padPass conv2d

func (p *padPass) Do(_ *record.Workspace, k int) {
	pad(p.padded[k*p.Hp*p.Wp:(k+1)*p.Hp*p.Wp], p.x[k*p.H*p.Wd:(k+1)*p.H*p.Wd], p.H, p.Wd, p.Wp, p.Top, p.Left)
}

// pad copies rows of w numbers into rows of wp numbers, and clears the numbers around them.
func pad(dst, src []float32, h, w, wp, top, left int) {
	if h == 0 {
		clear(dst)
		return
	}
	// The gap between two rows is small, and a call takes longer than a loop.
	at := top*wp + left
	clear(dst[:at])
	for r := range h {
		copy(dst[at:at+w], src[r*w:(r+1)*w])
		end := at + wp
		if r == h-1 {
			end = len(dst)
		}
		for i := at + w; i < end; i++ {
			dst[i] = 0
		}
		at = end
	}
}

func (c *conv2d) padBytes() int {
	if !c.pads() {
		return 0
	}
	return c.N * c.C * c.Hp * c.Wp
}

// convItemFlops is the approximate work of a work item.
const convItemFlops = 1 << 21

// panels is the form for most shapes: filters times panels of positions.
func (c conv2d) panels() *record.TensorKernel {
	c.offsets = c.weightOffsets()
	all := (c.Oh*c.Ow + kernel.PanelWidth - 1) / kernel.PanelWidth
	flops := 2 * c.k() * kernel.PanelWidth * (c.m / c.group)
	per := min(all, max(1, convItemFlops/flops))
	c.places, c.parts = per*kernel.PanelWidth, (all+per-1)/per
	run := (*panelPass)(&c)
	return &record.TensorKernel{Fuses: true, Temp: c.padBytes(), Scratch: kernel.PanelWidth * c.width(),
		Run: func(e record.Execution, call record.Call) error {
			if err := c.start(e, call); err != nil {
				return err
			}
			c.asRows()
			return e.Parallel(run, c.N*c.group*c.parts)
		}}
}

// panelPass computes some panels of one sample and group.
type panelPass conv2d

func (p *panelPass) Do(w *record.Workspace, k int) {
	part, g, n := k%p.parts, k/p.parts%p.group, k/p.parts/p.group
	mg, width, size := p.m/p.group, (*conv2d)(p).filters.width(), p.Oh*p.Ow
	src := p.padded[(n*p.C+g*p.cg)*p.Hp*p.Wp : (n*p.C+(g+1)*p.cg)*p.Hp*p.Wp]
	rows := p.rows[g*mg*width : (g+1)*mg*width]
	y := p.y[(n*p.m+g*mg)*size : (n*p.m+(g+1)*mg)*size]
	panel := w.Scratch[:kernel.PanelWidth*width]
	if p.bias != nil {
		ones := panel[kernel.PanelWidth*(width-1):]
		for i := range ones {
			ones[i] = 1
		}
	}
	var index [kernel.PanelWidth]int32
	begin, end, ready := part*p.places, min(size, (part+1)*p.places), record.EpilogueBlock(mg)
	for from := begin; from < end; from += kernel.PanelWidth {
		count := min(kernel.PanelWidth, size-from)
		r, col := from/p.Ow, from%p.Ow
		contiguous := count == kernel.PanelWidth && p.Sw == 1 &&
			(col+kernel.PanelWidth <= p.Ow || p.Wp == p.Ow && p.Sh == 1)
		for j := range index {
			if j < count {
				index[j] = int32(r*p.Sh*p.Wp + col*p.Sw)
			} else {
				index[j] = index[count-1]
			}
			if col++; col == p.Ow {
				r, col = r+1, 0
			}
		}
		kernel.Panel(panel, src, p.offsets, &index, contiguous)
		kernel.PanelProduct(y[from:], size, rows, width, mg, width, panel, count)
		if next := from + count; next == end || next-begin >= ready {
			p.after.Apply(p.e, p.y, &record.Block{At: (n*p.m+g*mg)*size + begin, Channel: g * mg, Rows: mg,
				N: next - begin, Stride: size})
			begin = next
		}
	}
}

// framed reports whether the form frames is faster: if there are few positions, or if the inputs of a position are
// contiguous.
func (c *conv2d) framed() bool {
	places, mg := c.Oh*c.Ow, c.m/c.group
	if c.cg == 1 && c.kh == 1 && c.Dw == 1 && c.kw >= 32 {
		return true
	}
	// Estimates in units of a row of the kernel for one panel, with the time of gathering: a panel by quarters or by
	// numbers, a frame by numbers.
	const row, latency, quarters, gather, frame = 6, 4, 3, 16, 4
	panel := (mg+row-1)/row*row + gather
	if c.Sw == 1 && c.Ow%4 == 0 {
		panel += quarters - gather
	}
	byPanels := (places + kernel.PanelWidth - 1) / kernel.PanelWidth * panel
	full, rest := places/row*row, places%row
	if rest > 0 {
		full += max(rest, latency)
	}
	byFrames := (mg+kernel.PanelWidth-1)/kernel.PanelWidth*full + frame*places
	return places <= 96 && byFrames < byPanels
}

// maxFrames is the largest number of positions of a work item.
const maxFrames = 48

// frames is the form for few positions: each is a row of K numbers, times the packed filters.
func (c conv2d) frames() *record.TensorKernel {
	size := c.Oh * c.Ow
	c.places = min(size, maxFrames)
	c.parts = (size + c.places - 1) / c.places
	run := (*framePass)(&c)
	return &record.TensorKernel{Fuses: true, Temp: c.padBytes(), Scratch: c.places * (c.k() + c.m/c.group),
		Run: func(e record.Execution, call record.Call) error {
			if err := c.start(e, call); err != nil {
				return err
			}
			c.asPacked()
			return e.Parallel(run, c.N*c.group*c.parts)
		}}
}

// framePass computes some positions of one sample and group.
type framePass conv2d

func (p *framePass) Do(w *record.Workspace, k int) {
	part, g, n := k%p.parts, k/p.parts%p.group, k/p.parts/p.group
	mg, size, width := p.m/p.group, p.Oh*p.Ow, p.cg*p.kh*p.kw
	src := p.padded[(n*p.C+g*p.cg)*p.Hp*p.Wp : (n*p.C+(g+1)*p.cg)*p.Hp*p.Wp]
	from := part * p.places
	count := min(p.places, size-from)
	var bias []float32
	if p.bias != nil {
		bias = p.bias[g*mg : (g+1)*mg]
	}
	x, ldx := w.Scratch[:count*width], width
	if p.cg == 1 && p.kh == 1 && p.Dw == 1 && p.Oh == 1 {
		x, ldx = src[from*p.Sw:], p.Sw // frames are contiguous in the input
	} else {
		for i := range count {
			r, col := (from+i)/p.Ow, (from+i)%p.Ow
			p.frame(x[i*width:(i+1)*width], src[r*p.Sh*p.Wp+col*p.Sw:])
		}
	}
	y := p.y[(n*p.m+g*mg)*size : (n*p.m+(g+1)*mg)*size]
	if size == 1 {
		kernel.Gemm(y, mg, x, ldx, 1, p.packed[g], bias, false)
		p.after.Apply(p.e, p.y, &record.Block{At: (n*p.m + g*mg) * size, Channel: g * mg, Rows: mg, N: 1, Stride: 1})
		return
	}
	t := w.Scratch[p.places*width : p.places*width+count*mg]
	kernel.Gemm(t, mg, x, ldx, count, p.packed[g], bias, false)
	for i := range mg {
		row := y[i*size+from : i*size+from+count]
		for j := range row {
			row[j] = t[j*mg+i]
		}
	}
	p.after.Apply(p.e, p.y, &record.Block{At: (n*p.m+g*mg)*size + from, Channel: g * mg, Rows: mg, N: count, Stride: size})
}

// frame copies the inputs of one position.
func (p *framePass) frame(dst, src []float32) {
	for ch := range p.cg {
		for i := range p.kh {
			row := src[(ch*p.Hp+i*p.Dh)*p.Wp:]
			to := dst[:p.kw]
			dst = dst[p.kw:]
			switch {
			case p.Dw > 1:
				for j := range to {
					to[j] = row[j*p.Dw]
				}
			case len(to) < 8: // a call takes longer
				for j, v := range row[:len(to)] {
					to[j] = v
				}
			default:
				copy(to, row)
			}
		}
	}
}

// depthwise is the form for groups of one input channel: each output channel is a sum of shifted copies of an input.
// The input is separated into the phases of the strides, so that the inputs of a weight are contiguous. Rows are
// contiguous, too, so that short ones form a long one; the outputs between rows are dropped.
func (c conv2d) depthwise() *record.TensorKernel {
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
