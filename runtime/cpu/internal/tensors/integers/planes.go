package integers

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// Planes is how a channel of an input is copied for a convolution. There is a plane for each phase of the rows'
// stride and each of some columns. Its number at row y and column x is the padded input at row phase + y·stride and
// column column + x·stride. In a plane, the inputs of a weight at all positions form rows of width pw.
type Planes struct {
	phases, columns []int
	// columns are the weights' columns, and rows are as long as the outputs; otherwise columns are phases
	perWeight      bool
	ph, Pw         int // rows and columns of a plane
	plane, Channel int // sizes
}

// Throughput of machines with products of four bytes, per cycle, for the choice between forms of planes.
const (
	bytesMultiplied = 115
	bytesCopied     = 16
)

// mostPlanes is the maximum total size of planes with one for each column of the weights, because offsets are 32
// bits wide.
const mostPlanes = 1 << 30

// planesOf chooses the form with the least work for the given number of filters per group.
func planesOf(w *windowed.PlanarWindow, kh, kw, filters int) Planes {
	phased := PhasesOf(w, kh, kw)
	tight := Planes{ph: phased.ph, Pw: w.Ow, phases: phased.phases, perWeight: true}
	for j := range kw {
		tight.columns = append(tight.columns, j*w.Dw)
	}
	if int64(tight.ph)*int64(tight.Pw)*int64(len(tight.phases)*kw)*int64(w.N*w.C) > mostPlanes {
		return phased
	}
	tight.setSizes()
	work := func(p *Planes) int64 {
		panels := ((w.Oh-1)*p.Pw + w.Ow + kernel.PanelWidth - 1) / kernel.PanelWidth
		return int64(panels*kernel.PanelWidth)*int64(filters*kh*kw)/bytesMultiplied + int64(p.Channel/bytesCopied)
	}
	if work(&tight) < work(&phased) || kw == 1 {
		return tight
	}
	return phased
}

// PhasesOf returns the planes of the strides' phases.
func PhasesOf(w *windowed.PlanarWindow, kh, kw int) Planes {
	p := Planes{ph: w.Oh + (kh-1)*w.Dh/w.Sh, Pw: w.Ow + (kw-1)*w.Dw/w.Sw}
	for i := range min(kh, w.Sh) {
		if k := i * w.Dh % w.Sh; !slices.Contains(p.phases, k) {
			p.phases = append(p.phases, k)
		}
	}
	for j := range min(kw, w.Sw) {
		if k := j * w.Dw % w.Sw; !slices.Contains(p.columns, k) {
			p.columns = append(p.columns, k)
		}
	}
	slices.Sort(p.phases)
	slices.Sort(p.columns)
	p.setSizes()
	return p
}

func (p *Planes) setSizes() {
	p.plane = p.ph * p.Pw
	p.Channel = p.plane * len(p.phases) * len(p.columns)
}

// At returns the offset of the input of weight (i, j), relative to a channel's first input.
func (p *Planes) At(w *windowed.PlanarWindow, i, j int) int {
	column, shift := j, 0
	if !p.perWeight {
		column, shift = slices.Index(p.columns, j*w.Dw%w.Sw), j*w.Dw/w.Sw
	}
	return (slices.Index(p.phases, i*w.Dh%w.Sh)*len(p.columns)+column)*p.plane + i*w.Dh/w.Sh*p.Pw + shift
}

// asInput reports whether the only plane is the input itself.
func (p *Planes) asInput(w *windowed.PlanarWindow) bool {
	return len(p.phases) == 1 && len(p.columns) == 1 && w.Sh == 1 && w.Sw == 1 && w.Top == 0 && w.Left == 0 &&
		p.ph == w.H && p.Pw == w.Wd
}

// bytePlanes copies a channel.
type bytePlanes integerConv

func (c *bytePlanes) Do(_ *record.Workspace, k int) {
	c.Copy(c.padded[k*c.Channel:(k+1)*c.Channel], c.in.Data[k*c.H*c.Wd:(k+1)*c.H*c.Wd], &c.PlanarWindow, byte(c.zero))
}

// Copy copies a channel to its planes, with pads.
func (p *Planes) Copy(dst, src []byte, w *windowed.PlanarWindow, pad byte) {
	within := func(start, step, n, size int) (from, to int) { // which of n numbers are in an input of a given size
		from = min(max(0, (step-1-start)/step), n)
		return from, max(from, min(n, (size-start+step-1)/step))
	}
	for _, phase := range p.phases {
		row := phase - w.Top
		top, bottom := within(row, w.Sh, p.ph, w.H)
		for _, column := range p.columns {
			start := column - w.Left
			left, right := within(start, w.Sw, p.Pw, w.Wd)
			plane := dst[:p.plane]
			dst = dst[p.plane:]
			kernel.FillBytes(plane[:top*p.Pw], pad)
			kernel.FillBytes(plane[bottom*p.Pw:], pad)
			kernel.CopyByteRows(plane[top*p.Pw:], p.Pw, p.Pw, src, (row+top*w.Sh)*w.Wd+start, w.Sh*w.Wd, w.Sw, bottom-top, left,
				right, pad)
		}
	}
}
