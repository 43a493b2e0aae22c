package convolution

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// spreadND is a transposed convolution over three or more axes for one shape. It computes like spreadPass.
type spreadND struct {
	*spreading
	tensors.Sliding     // out and in as in the operator
	n, size, places int // samples; positions of the input and of the output
	offsets         kernel.Offsets
	channels, items int   // output channels of a group per work item; work items per sample and group
	lines           []int // strides of the output
	x, y            []float32
}

// mostSpreadAxes is the maximum number of axes of a transposed convolution.
const mostSpreadAxes = 8

// newSpreadND returns the kernel of a transposed convolution, or nil if shapes do not fit.
func newSpreadND(d *lowering.Binding, s *lowering.Step, f *spreading, taps []int) *record.TensorKernel {
	in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	if len(in) != len(taps)+2 || len(out) != len(in) || in[1] != f.c || out[1] != f.m || len(taps) > mostSpreadAxes {
		return nil
	}
	w, ok := tensors.NewSliding(s.Node, in, out, taps)
	if !ok {
		return nil
	}
	p := &spreadND{spreading: f, Sliding: w, n: in[0], size: tensors.Product(w.In), places: tensors.Product(w.Out),
		lines: ops.Strides(w.Out)}
	if p.size > 1<<30/f.c || p.n == 0 {
		return nil
	}
	cg, mg, all := f.c/f.group, f.m/f.group, f.kh*f.kw
	off := make([]int32, cg)
	for i := range off {
		off[i] = int32(i * p.size)
	}
	p.offsets = kernel.NewOffsets(off)
	p.channels = min(mg, max(1, tensors.ItemFlops/(2*cg*all*p.size)))
	p.items = (mg + p.channels - 1) / p.channels
	slots := tensors.UnaryOf(d, s)
	return &record.TensorKernel{Scratch: kernel.PanelWidth * (cg + p.channels*all),
		Run: func(e record.Execution, _ record.Call) error {
			f.turn()
			p.x, p.y = slots.In(e.Frame())
			return e.Parallel(p, p.n*f.group*p.items)
		}}
}

func (p *spreadND) Do(w *record.Workspace, k int) {
	part, g, n := k%p.items, k/p.items%p.group, k/p.items/p.group
	all, cg, mg := p.kh*p.kw, p.c/p.group, p.m/p.group
	from := part * p.channels
	count := min(p.channels, mg-from)
	src := p.x[(n*p.c+g*cg)*p.size : (n*p.c+(g+1)*cg)*p.size]
	rows := p.rows[(g*mg+from)*all*cg : (g*mg+from+count)*all*cg]
	y := p.y[(n*p.m+g*mg+from)*p.places : (n*p.m+g*mg+from+count)*p.places]
	for c := range count {
		b := float32(0)
		if p.bias != nil {
			b = p.bias[g*mg+from+c]
		}
		plane := y[c*p.places : (c+1)*p.places]
		for i := range plane {
			plane[i] = b
		}
	}
	panel, sums := w.Scratch[:kernel.PanelWidth*cg], w.Scratch[kernel.PanelWidth*cg:kernel.PanelWidth*(cg+count*all)]
	var index [kernel.PanelWidth]int32
	for at := 0; at < p.size; at += kernel.PanelWidth {
		width := min(kernel.PanelWidth, p.size-at)
		for j := range index {
			index[j] = int32(min(at+j, p.size-1))
		}
		kernel.Panel(panel, src, p.offsets, &index, width == kernel.PanelWidth)
		kernel.PanelProduct(sums, kernel.PanelWidth, rows, cg, count*all, cg, panel, kernel.PanelWidth)
		for c := range count {
			p.add(y[c*p.places:(c+1)*p.places], sums[c*all*kernel.PanelWidth:], at, width)
		}
	}
}

// add adds the contributions of some positions of the input to one output channel.
func (p *spreadND) add(y, sums []float32, at, width int) {
	last := len(p.In) - 1
	var outer, tap [mostSpreadAxes]int
	line := p.In[last]
	for from := 0; from < width; { // positions of one line of the input
		row, col := (at+from)/line, (at+from)%line
		n := min(width-from, line-col)
		for a := last - 1; a >= 0; a-- {
			outer[a], row = row%p.In[a], row/p.In[a]
		}
		clear(tap[:])
		for t := 0; ; t++ {
			base, ok := 0, true
			for a := range last {
				i := outer[a]*p.Strides[a] - p.Before[a] + tap[a]*p.Dilations[a]
				ok = ok && i >= 0 && i < p.Out[a]
				base += i * p.lines[a]
			}
			if ok {
				stride := p.Strides[last]
				spread(y[base:base+p.Out[last]], sums[t*kernel.PanelWidth+from:][:n],
					col*stride-p.Before[last]+tap[last]*p.Dilations[last], stride)
			}
			if !tensors.Next(tap[:last+1], p.Taps) {
				break
			}
		}
		from += n
	}
}

// spread adds x to every stride-th number of y, starting at index at, as far as the indices are in y.
func spread(y, x []float32, at, stride int) {
	from := 0
	if at < 0 {
		from = (-at + stride - 1) / stride
	}
	for i := from; i < len(x); i++ {
		k := at + i*stride
		if k >= len(y) {
			return
		}
		y[k] += x[i]
	}
}
