package convolution

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// convND is a convolution over three or more axes for one shape: filters times panels of positions, as in conv2d.
type convND struct {
	*filters
	tensors.Sliding
	n, c          int
	plane         int // size of a padded channel
	padding       bool
	lines         []int   // offsets of a padded channel's lines
	starts        []int32 // per position of the output: the offset of its window in a channel
	offsets       kernel.Offsets
	places, parts int // per work item; work items per sample and group

	// Set during a run:
	x, y, padded []float32
}

// newConvND returns the kernel of a convolution, or nil if shapes do not fit.
func newConvND(d *lowering.Binding, s *lowering.Step, f *filters, taps []int) *record.TensorKernel {
	in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	if len(in) != len(taps)+2 || in[0] == 0 || in[1] != f.cg*f.group || len(out) != len(in) || out[1] != f.m {
		return nil
	}
	w, ok := tensors.NewSliding(s.Node, in, out, taps)
	if !ok || !w.Inside() {
		return nil
	}
	c := &convND{filters: f, Sliding: w, n: in[0], c: in[1]}
	padded, last := make([]int, len(taps)), len(taps)-1
	for i, k := range w.In {
		padded[i] = k + w.Before[i] + w.Behind[i]
		c.padding = c.padding || padded[i] != k
	}
	c.plane = tensors.Product(padded)
	if c.plane > 1<<30/c.c { // offsets are int32
		return nil
	}
	strides, first := ops.Strides(padded), 0
	for i, k := range w.Before {
		first += k * strides[i]
	}
	c.lines = lowering.Offsets[int](d, w.In[:last], strides[:last], first)
	steps := make([]int, len(taps))
	for i := range steps {
		steps[i] = strides[i] * w.Strides[i]
	}
	c.starts = lowering.Offsets[int32](d, w.Out, steps, 0)
	for i := range steps {
		steps[i] = strides[i] * w.Dilations[i]
	}
	var off []int32
	for ch := range c.cg {
		off = append(off, lowering.Offsets[int32](d, taps, steps, ch*c.plane)...)
	}
	c.offsets = kernel.NewOffsets(off)
	panels := (len(c.starts) + kernel.PanelWidth - 1) / kernel.PanelWidth
	per := min(panels, max(1, tensors.ItemFlops/(2*c.k()*kernel.PanelWidth*(c.m/c.group))))
	c.places, c.parts = per*kernel.PanelWidth, (panels+per-1)/per
	temp := 0
	if c.padding {
		temp = c.n * c.c * c.plane
	}
	slots := tensors.UnaryOf(d, s)
	return &record.TensorKernel{Temp: temp, Scratch: kernel.PanelWidth * c.width(),
		Run: func(e record.Execution, call record.Call) error {
			c.x, c.y = slots.In(e.Frame())
			c.padded = c.x
			c.asRows()
			if c.padding {
				c.padded = call.Temp
				if err := e.Parallel((*padNDPass)(c), c.n*c.c); err != nil {
					return err
				}
			}
			return e.Parallel(c, c.n*c.group*c.parts)
		}}
}

// padNDPass copies a channel into the padded input.
type padNDPass convND

func (p *padNDPass) Do(_ *record.Workspace, k int) {
	n := p.In[len(p.In)-1]
	dst, src := p.padded[k*p.plane:(k+1)*p.plane], p.x[k*n*len(p.lines):(k+1)*n*len(p.lines)]
	clear(dst)
	for i, at := range p.lines {
		copy(dst[at:], src[i*n:(i+1)*n])
	}
}

func (c *convND) Do(w *record.Workspace, t int) {
	part, g, n := t%c.parts, t/c.parts%c.group, t/c.parts/c.group
	mg, width, size := c.m/c.group, c.width(), len(c.starts)
	src := c.padded[(n*c.c+g*c.cg)*c.plane : (n*c.c+(g+1)*c.cg)*c.plane]
	rows, y := c.rows[g*mg*width:(g+1)*mg*width], c.y[(n*c.m+g*mg)*size:(n*c.m+(g+1)*mg)*size]
	panel := w.Scratch[:kernel.PanelWidth*width]
	if c.bias != nil {
		ones := panel[kernel.PanelWidth*(width-1):]
		for i := range ones {
			ones[i] = 1
		}
	}
	var index [kernel.PanelWidth]int32
	for from := part * c.places; from < min(size, (part+1)*c.places); from += kernel.PanelWidth {
		count := min(kernel.PanelWidth, size-from)
		for j := range index {
			index[j] = c.starts[from+min(j, count-1)]
		}
		consecutive := index[kernel.PanelWidth-1] == index[0]+kernel.PanelWidth-1 && c.consecutive(from)
		kernel.Panel(panel, src, c.offsets, &index, consecutive)
		kernel.PanelProduct(y[from:], size, rows, width, mg, width, panel, count)
	}
}

// consecutive reports whether the windows of a panel's positions start at consecutive offsets.
func (c *convND) consecutive(from int) bool {
	for j, o := range c.starts[from : from+kernel.PanelWidth] {
		if o != c.starts[from]+int32(j) {
			return false
		}
	}
	return true
}
