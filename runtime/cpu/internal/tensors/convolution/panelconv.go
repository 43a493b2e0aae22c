package convolution

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// panelConv is the form of a convolution for most shapes: filters times panels of positions. If columns have a
// stride, the input's rows are separated into its phases, so that the inputs of a weight are consecutive.
type panelConv struct {
	conv2d
	offsets kernel.Offsets // of the inputs of a filter's weights, in the padded input with phases
	phase   int            // size of a phase of a row
	pitch   int            // size of a row with its phases
	rowSpan int            // positions whose inputs are consecutive
	chunk   int            // channels of the output that are computed together
	rows    int            // output channels per work item
	across  int            // work items for the same positions
}

const (
	panelNumbers = 1 << 17 // maximum for the panels of a work item
	panelItems   = 8       // work items, if there is enough work
	leastRows    = 48
	tileRows     = 12 // rows that kernels multiply at once, or a multiple
)

// panels returns the form.
func (c conv2d) panels() *record.TensorKernel {
	p := &panelConv{conv2d: c, phase: (c.Wp + c.Sw - 1) / c.Sw, rowSpan: c.Ow}
	p.pitch = p.phase * c.Sw
	p.offsets = p.weightOffsets()
	if p.pitch == c.Ow && c.Sh == 1 {
		p.rowSpan = c.Oh * c.Ow
	}
	if d := p.direct(); d != nil {
		return d
	}
	width, mg, size := kernel.PanelsWidth(), c.m/c.group, c.Oh*c.Ow
	all, groups := (size+width-1)/width, c.N*c.group
	work := 2 * c.k() * mg * size // per group
	// Each worker makes the panels for consecutive items once, but every worker makes some. This does not pay for
	// fewer filters than leastRows.
	items := min(work/tensors.ItemFlops, (panelItems+groups-1)/groups)
	p.across = max(1, min(mg/leastRows, items))
	p.parts = max((all*width*c.width()+panelNumbers-1)/panelNumbers, (items+p.across-1)/p.across)
	per := (all + min(all, p.parts) - 1) / min(all, p.parts)
	p.parts = (all + per - 1) / per
	p.places = per * width
	p.rows = ((mg+p.across-1)/p.across + tileRows - 1) / tileRows * tileRows
	p.across = (mg + p.rows - 1) / p.rows
	// Results stay in the first-level cache until the epilogue has been applied.
	const results = 1 << 13
	p.chunk = max(2, results/p.places/tileRows) * tileRows
	temp := 0
	if p.copies() {
		temp = c.N*c.C*c.Hp*p.pitch + kernel.PanelWidth
	}
	return &record.TensorKernel{Fuses: true, Temp: temp, Scratch: kernel.PanelsSpan(p.places)*c.width() + kernel.PanelWidth,
		Run: p.run}
}

// copies reports whether the input is copied, for pads or phases.
func (p *panelConv) copies() bool { return p.pads() || p.Sw > 1 }

// weightOffsets returns the offsets of the inputs of a filter's weights.
func (p *panelConv) weightOffsets() kernel.Offsets {
	off := make([]int32, 0, p.k())
	for ch := range p.cg {
		for i := range p.kh {
			for j := range p.kw {
				x := j * p.Dw
				off = append(off, int32((ch*p.Hp+i*p.Dh)*p.pitch+x%p.Sw*p.phase+x/p.Sw))
			}
		}
	}
	return kernel.NewOffsets(off)
}

func (p *panelConv) run(e record.Execution, call record.Call) error {
	if err := p.begin(e, call); err != nil {
		return err
	}
	return e.Parallel(p, p.N*p.group*p.parts*p.across)
}

// begin sets the buffers of a run, copies the input if necessary, and packs the filters.
func (p *panelConv) begin(e record.Execution, call record.Call) error {
	f := e.Frame()
	p.e, p.x, p.y, p.after = e, p.in.In(f), call.Result.In(f), call.Epilogue
	p.padded = p.x
	if p.copies() {
		p.padded = call.Temp
		if err := e.Parallel((*phasePass)(p), p.N*p.C); err != nil {
			return err
		}
	}
	p.asTiles()
	return nil
}

// phasePass copies channels into the padded input.
type phasePass panelConv

func (p *phasePass) Do(_ *record.Workspace, k int) {
	dst, src := p.padded[k*p.Hp*p.pitch:(k+1)*p.Hp*p.pitch], p.x[k*p.H*p.Wd:(k+1)*p.H*p.Wd]
	if p.Sw == 1 {
		pad(dst, src, p.H, p.Wd, p.Wp, p.Top, p.Left)
		return
	}
	if (*conv2d)(&p.conv2d).pads() || p.pitch != p.Wp {
		clear(dst)
	}
	for r := range p.H {
		y := r + p.Top
		if p.kh == 1 && y%p.Sh != 0 {
			continue // no window has this row
		}
		phases(dst[y*p.pitch:], p.phase, src[r*p.Wd:(r+1)*p.Wd], p.Left, p.Sw, min(p.Sw, p.kw*p.Dw))
	}
}

// phases separates a row of numbers, after left zeros, into the first few phases of a stride, which are ld apart in
// dst.
func phases(dst []float32, ld int, row []float32, left, stride, few int) {
	if stride == 2 && few == 2 {
		even, odd := dst[left%2*ld+left/2:], dst[(left+1)%2*ld+(left+1)/2:]
		kernel.Part(even[:len(row)/2], odd[:len(row)/2], row)
		if len(row)%2 == 1 {
			even[len(row)/2] = row[len(row)-1]
		}
		return
	}
	for phase := range few {
		first := ((phase-left)%stride + stride) % stride // column of the row
		to := dst[phase*ld+(first+left)/stride:]
		for i, j := 0, first; j < len(row); i, j = i+1, j+stride {
			to[i] = row[j]
		}
	}
}

// Do computes some positions and channels of one sample and group.
func (p *panelConv) Do(w *record.Workspace, k int) {
	first, k := k%p.across*p.rows, k/p.across
	part, g, n := k%p.parts, k/p.parts%p.group, k/p.parts/p.group
	mg, width, size := p.m/p.group, p.width(), p.Oh*p.Ow
	src := p.padded[(n*p.C+g*p.cg)*p.Hp*p.pitch:]
	begin, end := part*p.places, min(size, (part+1)*p.places)
	count := end - begin
	panels := w.Scratch[:kernel.PanelsSpan(count)*width+kernel.PanelWidth]
	if w.Fresh(k) {
		p.fill(panels, src, begin, count)
	}
	for from, last := first, min(mg, first+p.rows); from < last && !w.Stopped(); from += p.chunk {
		rows, m := min(p.chunk, last-from), g*mg+from
		at := (n*p.m+m)*size + begin
		kernel.PanelsProduct(p.y[at:], size, p.tiles[m*width:], rows, width, panels, count)
		p.after.Apply(p.e, p.y, &record.Block{At: at, Channel: m, Rows: rows, N: count, Stride: size})
	}
}

// fill makes the panels of count positions, starting at begin.
func (p *panelConv) fill(panels, src []float32, begin, count int) {
	weights, width := p.k(), p.width()
	var runs [3 * kernel.PanelWidth]kernel.Run
	for at, step := 0, kernel.PanelsWidth(); at < count; at += step {
		ld := min(step, kernel.PanelsSpan(count)-at)
		panel := panels[at*width:]
		kernel.RunPanel(panel, ld, src, p.offsets, p.runs(runs[:0], begin+at, min(ld, count-at)))
		if p.bias != nil {
			ones := panel[weights*ld : width*ld]
			for i := range ones {
				ones[i] = 1
			}
		}
	}
}

// runs appends the runs of count positions.
func (p *panelConv) runs(runs []kernel.Run, from, count int) []kernel.Run {
	row, col := from/p.rowSpan, from%p.rowSpan
	for at := 0; at < count; {
		n := min(kernel.PanelWidth, count-at, p.rowSpan-col)
		runs = append(runs, kernel.Run{From: int32(row*p.Sh*p.pitch + col), At: int32(at), N: int32(n)})
		at += n
		if col += n; col == p.rowSpan {
			row, col = row+1, 0
		}
	}
	return runs
}
