package convolution

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "ConvTranspose",
		Tensor: record.TensorKind{Make: convTransposeKernel, Constant: []int{1, 2}}})
}

// spreading is a transposed convolution. A product computes, for each output channel and tap, the contributions of
// the input's positions, which are then added to the output.
type spreading struct {
	c, m, group, kh, kw int            // kh: taps of all axes but the last
	s                   *lowering.Step // weights are its input 1
	bias                []float32
	tiled               bool // weights are packed as tiles
	once                sync.Once
	rows                []float32 // per group: (M·kh·kw, C), the transposed weights, or their tiles
}

func (f *spreading) turn() {
	f.once.Do(func() {
		f.rows = record.Keep(f.s, []int{1}, nil, func() []float32 { return make([]float32, f.c*f.m/f.group*f.kh*f.kw) }, f.fill)
	})
}

// fill packs the weights as rows.
func (f *spreading) fill(all []float32) {
	cg, out := f.c/f.group, f.m/f.group*f.kh*f.kw
	defer f.s.Release(1)
	w := record.Numbers(f.s, 1)
	block := make([]float32, tileUnit*cg)
	for g := range f.group {
		for first := 0; first < out; first += tileUnit {
			n := min(tileUnit, out-first)
			to := all[(g*out+first)*cg:]
			if f.tiled {
				to = block
			}
			for i := range cg {
				for j, v := range w[(g*cg+i)*out+first:][:n] {
					to[j*cg+i] = v
				}
			}
			if f.tiled {
				kernel.Tiles(all[(g*out+first)*cg:], block, cg, n, cg)
			}
		}
	}
}

// tileUnit is a number of rows that is a whole number of tiles on every machine.
const tileUnit = 12

// spreadPass computes some output channels per work item: for all rows of the input or, if their taps share no row
// of the output, for some.
type spreadPass struct {
	*spreading
	n, h, wd, oh, ow int
	sh, sw, dh, dw   int
	top, left        int
	offsets          kernel.Offsets
	channels, items  int  // output channels of a group per work item; number of these parts
	band, bands      int  // rows of the input per work item; number of these bands
	covers           bool // pairs of taps write each output exactly once
	width            int  // width of panels
	x, y             []float32
}

func convTransposeKernel(s *lowering.Step) record.TensorMaker {
	if len(s.ConstShape(1)) < 3 || s.Node.Attrs.Get("output_shape") != nil {
		return nil
	}
	ws := s.ConstShape(1)
	group := int(ops.Int(s.Node, "group"))
	rank := len(ws) - 2
	f := &spreading{c: ws[0], m: ws[1] * group, group: group, kh: tensors.Product(ws[2 : len(ws)-1]), kw: ws[len(ws)-1], s: s,
		bias: record.Numbers(s, 2), tiled: rank <= 2}
	if group < 1 || f.c%group != 0 || s.Fixed(1).Len() == 0 || f.bias != nil && len(f.bias) != f.m {
		return nil
	}
	windows, err := ops.Windows(s.Node, rank)
	if err != nil || slices.ContainsFunc(windows, func(w ops.Window) bool { return w.Same != 0 }) {
		return nil // pads depend on the output's size
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
		size, cg := p.h*p.wd, f.c/group
		if size == 0 || size*f.c > 1<<30 || p.oh*p.ow == 0 {
			return nil
		}
		off := make([]int32, cg)
		for i := range off {
			off[i] = int32(i * size)
		}
		p.offsets = kernel.NewOffsets(off)
		p.share()
		slots := tensors.UnaryOf(d, s)
		return &record.TensorKernel{Scratch: p.panelSize() + p.channels*f.kh*f.kw*p.width + p.ow,
			Run: func(e record.Execution, _ record.Call) error {
				f.turn()
				p.x, p.y = slots.In(e.Frame())
				return e.Parallel(p, p.n*group*p.items*p.bands)
			}}
	}
}

// Limits for the products of a work item: a maximum number of rows and of weights, and a minimum number of rows if
// there are enough.
const (
	spreadRows      = 512
	fewSpreadRows   = 2 * tileUnit
	spreadWeights   = 1 << 16
	spreadPositions = 64 // minimum positions of a band
)

// share divides the work. Parts of channels start with a tile.
func (p *spreadPass) share() {
	cg, mg, taps := p.c/p.group, p.m/p.group, p.kh*p.kw
	p.width = kernel.PanelsWidth()
	apart := p.kh == 1 || p.kh <= p.sh && p.dh == 1 // rows of the input share no row of the output
	p.covers = apart && p.kh == p.sh && p.kw == 2 && p.sw == 2 && p.dw == 1 && p.top == 0 && p.left == 0 &&
		p.oh == p.h*p.sh && p.ow == p.wd*p.sw
	most, wanted := min(spreadRows, spreadWeights/cg), 0
	if !apart || p.h == 1 {
		most, wanted = min(most, int(tensors.ItemFlops/(2*int64(cg)*int64(p.h*p.wd)))), fewSpreadRows
	}
	p.channels = max(1, most/taps, (wanted+taps-1)/taps)
	for p.channels*taps%tileUnit != 0 {
		p.channels++
	}
	p.channels = min(mg, p.channels)
	p.items = (mg + p.channels - 1) / p.channels
	p.band, p.bands = p.h, 1
	if apart {
		p.band = max(int(4*tensors.ItemFlops/(2*int64(cg*taps*p.channels)*int64(p.wd))), (spreadPositions+p.wd-1)/p.wd)
		p.bands = (p.h + p.band - 1) / p.band
		p.band = (p.h + p.bands - 1) / p.bands
		p.bands = (p.h + p.band - 1) / p.band
	}
}

// panelSize returns the size of a panel, including the numbers after it that RunPanel may write.
func (p *spreadPass) panelSize() int { return p.c/p.group*p.width + kernel.PanelWidth }

func (p *spreadPass) Do(w *record.Workspace, k int) {
	part, band, k := k%p.items, k/p.items%p.bands, k/p.items/p.bands
	g, n := k%p.group, k/p.group
	size, places, taps, cg, mg := p.h*p.wd, p.oh*p.ow, p.kh*p.kw, p.c/p.group, p.m/p.group
	from, begin, end := part*p.channels, band*p.band, min(p.h, (band+1)*p.band)
	count := min(p.channels, mg-from)
	top, bottom := 0, p.oh // rows of the output
	if begin > 0 {
		top = min(max(begin*p.sh-p.top, 0), p.oh)
	}
	if end < p.h {
		bottom = min(max(end*p.sh-p.top, 0), p.oh)
	}
	src := p.x[(n*p.c+g*cg)*size : (n*p.c+(g+1)*cg)*size]
	tiles := p.rows[(g*mg+from)*taps*cg : (g*mg+from+count)*taps*cg]
	y := p.y[(n*p.m+g*mg+from)*places : (n*p.m+g*mg+from+count)*places]
	bias := func(c int) float32 {
		if p.bias == nil {
			return 0
		}
		return p.bias[g*mg+from+c]
	}
	for c := 0; c < count && !p.covers; c++ {
		b, rows := bias(c), y[c*places+top*p.ow:c*places+bottom*p.ow]
		for i := range rows {
			rows[i] = b
		}
	}
	panel, sums := w.Scratch[:p.panelSize()], w.Scratch[p.panelSize():][:count*taps*p.width]
	var runs [2]kernel.Run
	for at := begin * p.wd; at < end*p.wd && !w.Stopped(); at += p.width {
		width := min(p.width, end*p.wd-at)
		ld := min(p.width, kernel.PanelsSpan(width))
		few := 0
		for j := 0; j < width; j += kernel.PanelWidth {
			runs[few] = kernel.Run{From: int32(at + j), At: int32(j), N: int32(min(kernel.PanelWidth, width-j))}
			few++
		}
		kernel.RunPanel(panel, ld, src, p.offsets, runs[:few])
		kernel.PanelsProduct(sums, p.width, tiles, count*taps, cg, panel, width)
		for c := range count {
			s, plane := sums[c*taps*p.width:(c+1)*taps*p.width], y[c*places:(c+1)*places]
			if p.covers {
				p.weave(plane, s, bias(c), at, width)
			} else {
				p.add(plane, s, at, width)
			}
		}
	}
	if p.covers || p.sw == 1 {
		return
	}
	line := w.Scratch[p.panelSize()+p.channels*taps*p.width:][:p.ow]
	for c := range count {
		for row := top; row < bottom; row++ {
			p.order(y[c*places+row*p.ow:][:p.ow], line)
		}
	}
}

// weave writes the outputs of some positions of the input to one output channel.
func (p *spreadPass) weave(y, sums []float32, bias float32, at, width int) {
	for i := range p.kh {
		even, odd := sums[2*i*p.width:][:width], sums[(2*i+1)*p.width:][:width]
		kernel.AddS(even, even, bias)
		kernel.AddS(odd, odd, bias)
		r, c := at/p.wd, at%p.wd
		for len(even) > 0 { // positions of one row of the input
			n := min(len(even), p.wd-c)
			kernel.Weave(y[(r*p.sh+i)*p.ow+2*c:][:2*n], even[:n], odd[:n])
			even, odd, r, c = even[n:], odd[n:], r+1, 0
		}
	}
}

// first returns the index in a row at which the columns with remainder phase by the stride start while the row is
// computed: they are consecutive.
func (p *spreadPass) first(phase int) int { return phase*(p.ow/p.sw) + min(phase, p.ow%p.sw) }

// order moves the columns of a row to their final order. line is scratch for a copy.
func (p *spreadPass) order(row, line []float32) {
	copy(line, row)
	n := p.ow / p.sw // columns per phase; some phases have one more
	switch {
	case p.sw == 2:
		kernel.Weave(row[:2*n], line[:n], line[p.first(1):][:n])
		if p.ow%2 != 0 {
			row[p.ow-1] = line[n]
		}
	case p.ow%p.sw == 0:
		kernel.Transpose(row, p.sw, line, n, p.sw, n)
	default:
		for phase := range min(p.sw, p.ow) {
			from := line[p.first(phase):p.first(phase+1)]
			for i, v := range from {
				row[phase+i*p.sw] = v
			}
		}
	}
}

// add adds the contributions of some positions of the input to one output channel.
func (p *spreadPass) add(y, sums []float32, at, width int) {
	for i := range p.kh {
		for j := range p.kw {
			s := sums[(i*p.kw+j)*p.width:][:width]
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
					if from < to {
						col += from * p.sw
						out = out[p.first(col%p.sw)+col/p.sw:][:to-from]
						kernel.Add(out, out, s[from:to])
					}
				}
				s, r, c = s[n:], r+1, 0
			}
		}
	}
}
