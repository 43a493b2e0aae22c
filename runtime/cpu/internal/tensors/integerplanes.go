package tensors

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// planes is how a channel of an input is copied for a convolution: for each phase of the rows' stride, and for each of some
// columns, a plane whose number at row y and column x is that of the padded input at row phase + y·stride and column
// column + x·stride. In a plane, the inputs of a weight at all positions are in rows of pw.
type planes struct {
	phases, columns []int
	perWeight       bool // columns are those of the weights, and rows have no more than the outputs; else they are phases
	ph, pw          int  // rows and columns of a plane
	plane, channel  int  // sizes
}

// Work of machines with products of four bytes, per cycle: for the choice among forms of planes.
const (
	bytesMultiplied = 115
	bytesCopied     = 16
)

// planesOf chooses the form with the least work for filters per group.
func (planes) planesOf(w *windowed.PlanarWindow, kh, kw, filters int) planes {
	phased := planes{ph: w.Oh + (kh-1)*w.Dh/w.Sh, pw: w.Ow + (kw-1)*w.Dw/w.Sw}
	for i := range kh {
		if p := i * w.Dh % w.Sh; !slices.Contains(phased.phases, p) {
			phased.phases = append(phased.phases, p)
		}
	}
	tight := planes{ph: phased.ph, pw: w.Ow, phases: phased.phases, perWeight: true}
	for j := range kw {
		if p := j * w.Dw % w.Sw; !slices.Contains(phased.columns, p) {
			phased.columns = append(phased.columns, p)
		}
		tight.columns = append(tight.columns, j*w.Dw)
	}
	slices.Sort(phased.phases)
	slices.Sort(phased.columns)
	for _, p := range []*planes{&phased, &tight} {
		p.plane = p.ph * p.pw
		p.channel = p.plane * len(p.phases) * len(p.columns)
	}
	work := func(p *planes) int {
		panels := ((w.Oh-1)*p.pw + w.Ow + kernel.PanelWidth - 1) / kernel.PanelWidth
		return panels*kernel.PanelWidth*filters*kh*kw/bytesMultiplied + p.channel/bytesCopied
	}
	if work(&tight) < work(&phased) || kw == 1 {
		return tight
	}
	return phased
}

// at returns the distance of the weight in row i and column j from the first input of a channel.
func (p *planes) at(w *windowed.PlanarWindow, i, j int) int {
	column, shift := j, 0
	if !p.perWeight {
		column, shift = slices.Index(p.columns, j*w.Dw%w.Sw), j*w.Dw/w.Sw
	}
	return (slices.Index(p.phases, i*w.Dh%w.Sh)*len(p.columns)+column)*p.plane + i*w.Dh/w.Sh*p.pw + shift
}

// asInput reports whether the only plane is the input itself.
func (p *planes) asInput(w *windowed.PlanarWindow) bool {
	return len(p.phases) == 1 && len(p.columns) == 1 && w.Sh == 1 && w.Sw == 1 && w.Top == 0 && w.Left == 0 &&
		p.ph == w.H && p.pw == w.Wd
}

// bytePlanes copies a channel.
type bytePlanes integerConv

func (c *bytePlanes) Do(_ *record.Workspace, k int) {
	dst, src, pad := c.padded[k*c.channel:(k+1)*c.channel], c.in.Data[k*c.H*c.Wd:(k+1)*c.H*c.Wd], byte(c.zero)
	within := func(start, step, n, size int) (from, to int) { // which of n numbers lie in an input of a size
		from = min(max(0, (step-1-start)/step), n)
		return from, max(from, min(n, (size-start+step-1)/step))
	}
	for _, phase := range c.phases {
		row := phase - c.Top
		top, bottom := within(row, c.Sh, c.ph, c.H)
		for _, column := range c.columns {
			start := column - c.Left
			left, right := within(start, c.Sw, c.pw, c.Wd)
			plane := dst[:c.plane]
			dst = dst[c.plane:]
			kernel.FillBytes(plane[:top*c.pw], pad)
			kernel.FillBytes(plane[bottom*c.pw:], pad)
			kernel.CopyByteRows(plane[top*c.pw:], c.pw, c.pw, src, (row+top*c.Sh)*c.Wd+start, c.Sh*c.Wd, c.Sw, bottom-top, left,
				right, pad)
		}
	}
}
