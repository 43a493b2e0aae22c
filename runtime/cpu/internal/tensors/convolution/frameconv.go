package convolution

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// frameConv is the form of a convolution for few positions. First the inputs of each position become a frame. Then
// frames are multiplied by some packed filters at a time, so that each weight is read once.
type frameConv struct {
	conv2d
	channels, blocks int              // input channels that a work item copies, and work items per sample and group
	rows             int              // filters per work item
	cut              []*kernel.Packed // per group and work item
	frames           []float32        // set during a run: for each sample and group, positions of K numbers
}

// fewFrames returns the form.
func (c conv2d) fewFrames() *record.TensorKernel {
	p := &frameConv{conv2d: c}
	size, mg := c.Oh*c.Ow, c.m/c.group
	p.channels = min(c.cg, max(8, (1<<14)/(size*c.kh*c.kw)))
	p.blocks = (c.cg + p.channels - 1) / p.channels
	panels := 32 // a multiple of the panel widths of all variants
	if size == 1 {
		panels = 128 // the number multiplied at once
	}
	p.rows = min((mg+panels-1)/panels*panels, max(1, tensors.ItemFlops/(2*c.k()*size*panels))*panels)
	p.parts = (mg + p.rows - 1) / p.rows
	return &record.TensorKernel{Fuses: true, Temp: c.padBytes() + c.N*c.group*size*c.k(), Scratch: size * p.rows, Run: p.run}
}

func (p *frameConv) run(e record.Execution, call record.Call) error {
	p.frames = call.Temp[p.padBytes():]
	call.Temp = call.Temp[:p.padBytes()]
	if err := p.start(e, call); err != nil {
		return err
	}
	if p.cut == nil {
		for _, w := range p.asPacked() {
			p.cut = append(p.cut, w.Cut(p.rows)...)
		}
	}
	if err := e.Parallel((*frameCopy)(p), p.N*p.group*p.blocks); err != nil {
		return err
	}
	return e.Parallel(p, p.N*p.group*p.parts)
}

// frameCopy copies the inputs of some channels to the frames of all positions.
type frameCopy frameConv

func (p *frameCopy) Do(_ *record.Workspace, i int) {
	from, group := i%p.blocks*p.channels, i/p.blocks
	count, taps, width, size := min(p.channels, p.cg-from), p.kh*p.kw, p.k(), p.Oh*p.Ow
	plane := p.Hp * p.Wp
	src := p.padded[(group*p.cg+from)*plane : (group*p.cg+from+count)*plane]
	dst := p.frames[group*size*width+from*taps:]
	if taps == 1 && plane == size { // all positions have one stride
		kernel.Transpose(dst, width, src, plane, count, size)
		return
	}
	for at := range size {
		p.frame(dst[at*width:][:count*taps], src[at/p.Ow*p.Sh*p.Wp+at%p.Ow*p.Sw:], count)
	}
}

// Do computes the outputs of some filters.
func (p *frameConv) Do(w *record.Workspace, i int) {
	part, group := i%p.parts, i/p.parts
	width, size, mg := p.k(), p.Oh*p.Ow, p.m/p.group
	n, g, from := group/p.group, group%p.group, part*p.rows
	filters := p.cut[g*p.parts+part]
	var bias []float32
	if p.bias != nil {
		bias = p.bias[g*mg+from:][:filters.M]
	}
	m := g*mg + from
	at, x := (n*p.m+m)*size, p.frames[group*size*width:]
	if size == 1 {
		kernel.Gemm(p.y[at:], filters.M, x, width, 1, filters, bias, false)
	} else {
		t := w.Scratch[:size*filters.M]
		kernel.Gemm(t, filters.M, x, width, size, filters, bias, false)
		kernel.Transpose(p.y[at:], size, t, filters.M, size, filters.M)
	}
	p.after.Apply(p.e, p.y, &record.Block{At: at, Channel: m, Rows: filters.M, N: size, Stride: size})
}
