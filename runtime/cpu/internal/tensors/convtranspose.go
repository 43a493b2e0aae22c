package tensors

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "ConvTranspose",
		Tensor: record.TensorKind{Make: convTransposeKernel, Constant: []int{1, 2}}})
}

// spreading is a transposed convolution. A product computes, for each output channel and tap, the contributions of the
// input's positions, which are then added to the output.
type spreading struct {
	c, m, group, kh, kw int            // kh: taps of all axes but the last
	s                   *lowering.Step // weights are its input 1
	bias                []float32
	once                sync.Once
	rows                []float32 // per group: (M·kh·kw, C), the transposed weights
}

func (f *spreading) turn() {
	f.once.Do(func() {
		cg, out := f.c/f.group, f.m/f.group*f.kh*f.kw
		defer f.s.Release(1)
		w := f.s.Constant(1)
		f.rows = make([]float32, f.c*out)
		for g := range f.group {
			for i := range cg {
				for j := range out {
					f.rows[(g*out+j)*cg+i] = w[(g*cg+i)*out+j]
				}
			}
		}
	})
}

// spreadPass computes some output channels of a sample per work item.
type spreadPass struct {
	*spreading
	n, h, wd, oh, ow int
	sh, sw, dh, dw   int
	top, left        int
	offsets          kernel.Offsets
	channels, items  int // output channels of a group per work item; work items per sample and group
	x, y             []float32
}

func convTransposeKernel(s *lowering.Step) record.TensorMaker {
	if len(s.ConstShape(1)) < 3 || s.Node.Attrs.Get("output_shape") != nil {
		return nil
	}
	ws := s.ConstShape(1)
	group := int(ops.Int(s.Node, "group"))
	f := &spreading{c: ws[0], m: ws[1] * group, group: group, kh: product(ws[2 : len(ws)-1]), kw: ws[len(ws)-1], s: s,
		bias: s.Constant(2)}
	if group < 1 || f.c%group != 0 || s.In[1].Const.Len() == 0 || f.bias != nil && len(f.bias) != f.m {
		return nil
	}
	rank := len(ws) - 2
	windows, err := ops.Windows(s.Node, rank)
	if err != nil || slices.ContainsFunc(windows, func(w ops.Window) bool { return w.Same != 0 }) {
		return nil // pads that follow from the output's size
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		if rank > 2 {
			return newSpreadND(d, s, f, ws[2:])
		}
		in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
		if len(in) != rank+2 || len(out) != rank+2 || in[1] != f.c || out[1] != f.m {
			return nil
		}
		col := windows[rank-1]
		p := &spreadPass{spreading: f, n: in[0], h: 1, wd: in[rank+1], oh: 1, ow: out[rank+1], sh: 1, dh: 1,
			sw: int(col.Stride), dw: int(col.Dilation), left: int(col.Begin)}
		if rank == 2 {
			row := windows[0]
			p.h, p.oh, p.sh, p.dh, p.top = in[2], out[2], int(row.Stride), int(row.Dilation), int(row.Begin)
		}
		size, cg, mg := p.h*p.wd, f.c/group, f.m/group
		if size == 0 || size*f.c > 1<<30 {
			return nil
		}
		off := make([]int32, cg)
		for i := range off {
			off[i] = int32(i * size)
		}
		p.offsets = kernel.NewOffsets(off)
		taps := f.kh * f.kw
		p.channels = min(mg, max(1, itemFlops/(2*cg*taps*size)))
		p.items = (mg + p.channels - 1) / p.channels
		slots := unaryOf(d, s)
		return &record.TensorKernel{Scratch: kernel.PanelWidth * (cg + p.channels*taps),
			Run: func(e record.Execution, _ record.Call) error {
				f.turn()
				p.x, p.y = slots.in(e.Frame())
				return e.Parallel(p, p.n*group*p.items)
			}}
	}
}

func (p *spreadPass) Do(w *record.Workspace, k int) {
	part, g, n := k%p.items, k/p.items%p.group, k/p.items/p.group
	size, places, taps, cg, mg := p.h*p.wd, p.oh*p.ow, p.kh*p.kw, p.c/p.group, p.m/p.group
	from := part * p.channels
	count := min(p.channels, mg-from)
	src := p.x[(n*p.c+g*cg)*size : (n*p.c+(g+1)*cg)*size]
	rows := p.rows[(g*mg+from)*taps*cg : (g*mg+from+count)*taps*cg]
	y := p.y[(n*p.m+g*mg+from)*places : (n*p.m+g*mg+from+count)*places]
	for c := range count {
		b := float32(0)
		if p.bias != nil {
			b = p.bias[g*mg+from+c]
		}
		plane := y[c*places : (c+1)*places]
		for i := range plane {
			plane[i] = b
		}
	}
	panel, sums := w.Scratch[:kernel.PanelWidth*cg], w.Scratch[kernel.PanelWidth*cg:kernel.PanelWidth*(cg+count*taps)]
	var index [kernel.PanelWidth]int32
	for at := 0; at < size; at += kernel.PanelWidth {
		width := min(kernel.PanelWidth, size-at)
		for j := range index {
			index[j] = int32(min(at+j, size-1))
		}
		kernel.Panel(panel, src, p.offsets, &index, width == kernel.PanelWidth)
		kernel.PanelProduct(sums, kernel.PanelWidth, rows, cg, count*taps, cg, panel, kernel.PanelWidth)
		for c := range count {
			p.add(y[c*places:(c+1)*places], sums[c*taps*kernel.PanelWidth:], at, width)
		}
	}
}

// add adds the contributions of some positions of the input to one output channel.
func (p *spreadPass) add(y, sums []float32, at, width int) {
	for i := range p.kh {
		for j := range p.kw {
			s := sums[(i*p.kw+j)*kernel.PanelWidth:][:width]
			r, c := at/p.wd, at%p.wd
			for len(s) > 0 { // positions of one row of the input
				n := min(len(s), p.wd-c)
				if row := r*p.sh - p.top + i*p.dh; row >= 0 && row < p.oh {
					out, col := y[row*p.ow:(row+1)*p.ow], c*p.sw-p.left+j*p.dw
					from, to := 0, 0 // positions whose column is in the output
					if col < 0 {
						from = min(n, (-col+p.sw-1)/p.sw)
					}
					if last := p.ow - 1 - col; last >= 0 {
						to = min(n, last/p.sw+1)
					}
					for i := from; i < to; i++ {
						out[col+i*p.sw] += s[i]
					}
				}
				s, r, c = s[n:], r+1, 0
			}
		}
	}
}
