package convolution

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// directConv is a panelConv without panels: filters times parts of the rows of the copied input, for too few filters
// to pay for panels.
type directConv struct {
	panelConv
	lines int // rows of the output per work item
	cols  int // and columns
	bands int // work items in a column of them
}

// direct returns the form. It returns nil if panels take less time, or if the input is not copied anyway, because
// products read past the end of its rows.
func (p *panelConv) direct() *record.TensorKernel {
	mg, span := p.m/p.group, kernel.PanelsSpan(p.Ow)
	// Panels take about the time of panelFilters filters. Rows that are not a multiple of panels cost extra columns.
	const panelFilters = 8
	if !p.copies() || span*mg > p.Ow*(mg+panelFilters) {
		return nil
	}
	c := &directConv{panelConv: *p}
	// The parts of the input's rows that an item reads stay in the second-level cache, and so do the filters.
	const inputs = 1 << 15
	c.cols = c.Ow
	if most := max(1, inputs/(c.cg*c.kh)/kernel.PanelsWidth()) * kernel.PanelsWidth(); most < c.Ow {
		c.cols = most
	}
	c.lines = max(1, min(c.Oh, tensors.ItemFlops/(2*c.k()*mg*c.cols)))
	c.bands = (c.Oh + c.lines - 1) / c.lines
	c.parts = c.bands * ((c.Ow + c.cols - 1) / c.cols)
	const results = 1 << 13 // in the first-level cache, until the epilogue has been applied
	c.chunk = max(1, results/(c.cols*c.lines)/tileRows) * tileRows
	return &record.TensorKernel{Fuses: true, Temp: c.N*c.C*c.Hp*c.pitch + kernel.PanelWidth + kernel.PanelsWidth(), Run: c.run}
}

func (p *directConv) run(e record.Execution, call record.Call) error {
	if err := p.begin(e, call); err != nil {
		return err
	}
	return e.Parallel(p, p.N*p.group*p.parts)
}

// Do computes some rows and columns of one sample and group.
func (p *directConv) Do(w *record.Workspace, k int) {
	part, g, n := k%p.parts, k/p.parts%p.group, k/p.parts/p.group
	mg, width, size := p.m/p.group, p.width(), p.Oh*p.Ow
	src := p.padded[(n*p.C+g*p.cg)*p.Hp*p.pitch:]
	row, col := part%p.bands*p.lines, part/p.bands*p.cols
	count, lines := min(p.cols, p.Ow-col), min(p.lines, p.Oh-row)
	for from := 0; from < mg && !w.Stopped(); from += p.chunk {
		rows, m := min(p.chunk, mg-from), g*mg+from
		at := (n*p.m+m)*size + row*p.Ow + col
		for i := range lines { // a few channels at a time, so that the output is written in order
			kernel.ShiftedProduct(p.y[at+i*p.Ow:], size, p.tiles[m*width:], rows, p.bias != nil, src[(row+i)*p.Sh*p.pitch+col:],
				p.offsets, count)
			if count < p.Ow {
				p.after.Apply(p.e, p.y, &record.Block{At: at + i*p.Ow, Channel: m, Rows: rows, N: count, Stride: size})
			}
		}
		if count == p.Ow {
			p.after.Apply(p.e, p.y, &record.Block{At: at, Channel: m, Rows: rows, N: lines * p.Ow, Stride: size})
		}
	}
}
