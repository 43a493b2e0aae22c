package pooling

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "MaxPool",
			Tensor: record.TensorKind{Make: record.Either(poolKernel(false), realPool(maxPools))}},
		record.Record{Op: "AveragePool",
			Tensor: record.TensorKind{Make: record.Either(poolKernel(true), realPool(averagePools))}},
	)
}

// poolPass reduces windows of each channel, a block of output rows at a time: first the rows of the windows, then
// the columns. Rows are padded and separated into the phases of the stride, so that the inputs of a tap are
// contiguous. The rows of a block are contiguous too, so short ones form a long one.
type poolPass struct {
	windowed.PlanarWindow
	kh, kw  int
	average bool
	all     bool // pads count
	pw      int  // of one phase of a row
	rows    int  // output rows at a time
	lines   int  // input rows of one phase for a block; 0 if windows are reduced row by row
	counts  []float32
	full    []float32 // the numbers of elements in windows with all rows
	uniform bool      // all counts are the same
	x, y    []float32
}

// poolBlock is the approximate number of elements of a block.
const poolBlock = 1 << 11

// poolKernel computes the maximum or the average of each window.
func poolKernel(average bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.Node.Attrs.Ints("kernel_shape", nil)) == 0 || len(s.Node.Outputs) != 1 || s.Absent(0) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel { return newPool(d, s, average) }
	}
}

func newPool(d *lowering.Binding, s *lowering.Step, average bool) *record.TensorKernel {
	taps := s.Node.Attrs.Ints("kernel_shape", nil)
	kh, kw := 1, int(taps[len(taps)-1])
	if len(taps) == 2 {
		kh = int(taps[0])
	}
	all := average && ops.Int(s.Node, "count_include_pad") != 0
	bytes := !average && record.ByteTyped(s, 0)
	if !bytes && (!d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32)) {
		return nil
	}
	if len(taps) > 2 {
		if bytes {
			return nil
		}
		return newPoolND(d, s, average, all)
	}
	in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	if len(in) != len(taps)+2 {
		return nil
	}
	c, ok := windowed.Planar(s.Node, in, out, kh, kw)
	if !ok && !(ops.Int(s.Node, "ceil_mode") != 0 && !all && c.Ow > 0 && c.Oh > 0) {
		return nil
	}
	if bytes {
		return newBytePool(d, s, c, kh, kw)
	}
	p := &poolPass{PlanarWindow: c, kh: kh, kw: kw, average: average, all: all}
	if k := p.whole(d, s); k != nil {
		return k
	}
	p.plan(d)
	scratch := (p.rows+1)*p.pw*(2*p.Sw+1) + p.Sh*p.lines*p.pw*p.Sw
	slots := tensors.UnaryOf(d, s)
	return &record.TensorKernel{Scratch: scratch,
		Run: func(e record.Execution, _ record.Call) error {
			p.x, p.y = slots.In(e.Frame())
			return e.Parallel(p, c.N*c.C)
		}}
}

// plan sets the size of blocks, and the number of columns of each window that are in the input.
func (p *poolPass) plan(d *lowering.Binding) {
	width := max(p.Left+p.Wd, (p.Ow-1)*p.Sw+(p.kw-1)*p.Dw+1)
	p.pw = (width + p.Sw - 1) / p.Sw
	p.rows = min(p.Oh, max(1, poolBlock/(p.pw*p.Sw)))
	p.counts, p.uniform = lowering.Make[float32](d, p.Ow), true
	for i := range ops.Each(d.Steps(), len(p.counts)) {
		from, to := span1(i*p.Sw-p.Left, p.kw, p.Dw, p.Wd)
		if p.all {
			from, to = 0, p.kw
		}
		p.counts[i] = float32(to - from)
		p.uniform = p.uniform && p.counts[i] == p.counts[0]
	}
	if p.average && !p.uniform && slices.Min(p.counts) > 0 {
		p.full = lowering.Make[float32](d, p.Ow)
		for i, n := range ops.All(d.Steps(), p.counts) {
			p.full[i] = n * float32(p.kh)
		}
	}
	if p.kh > 1 && p.Sh <= 2 && p.Dh == 1 {
		p.lines = p.rows + (p.kh-1)/p.Sh
	}
}

// span1 returns the taps of a window that are in the input: lo…hi-1.
func span1(at, taps, dilation, size int) (lo, hi int) {
	if at < 0 {
		lo = (-at + dilation - 1) / dilation
	}
	hi = taps
	if last := size - 1 - at; last < (taps-1)*dilation {
		hi = 0
		if last >= 0 {
			hi = last/dilation + 1
		}
	}
	return lo, max(lo, hi)
}

// Do reduces one plane.
func (p *poolPass) Do(w *record.Workspace, k int) {
	x, y := p.x[k*p.H*p.Wd:(k+1)*p.H*p.Wd], p.y[k*p.Oh*p.Ow:(k+1)*p.Oh*p.Ow]
	fill, join := float32(math.Inf(-1)), kernel.Max
	if p.average {
		fill, join = 0, kernel.Add
	}
	width, size := p.pw*p.Sw, (p.rows+1)*p.pw
	padded, phases, out := w.Scratch[:size*p.Sw], w.Scratch[size*p.Sw:2*size*p.Sw], w.Scratch[2*size*p.Sw:2*size*p.Sw+size]
	lines := w.Scratch[size*(2*p.Sw+1):]
	if p.Sw == 1 {
		phases = padded
	}
	for first := 0; first < p.Oh; first += p.rows {
		n := min(p.rows, p.Oh-first)
		if p.lines > 0 {
			p.stack(w.Steps, lines, x, first, n, fill)
			p.columns(w.Steps, padded[:n*width], lines, join)
		} else {
			for r := range n {
				row := padded[r*width : (r+1)*width]
				w.Steps.Step(width)
				p.sides(row, fill)
				p.column(w.Steps, row[p.Left:p.Left+p.Wd], x, first+r, fill, join)
			}
		}
		if p.pw == p.Ow {
			out = y[first*p.Ow:]
		}
		span := n * p.pw
		switch {
		case p.Sw == 2:
			kernel.Part(phases[:span], phases[size:size+span], padded)
		case p.Sw == 4:
			// The phases overwrite the rows that they come from.
			even, odd := phases[:2*span], phases[2*size:2*(size+span)]
			kernel.Part(even, odd, padded)
			kernel.Part(padded[:span], padded[2*size:2*size+span], even)
			kernel.Part(padded[size:size+span], padded[3*size:3*size+span], odd)
			phases, padded = padded, phases
		case p.Sw > 2:
			for q := range p.Sw {
				for i := range ops.Each(w.Steps, span) {
					phases[q*size+i] = padded[i*p.Sw+q]
				}
			}
		}
		for j := range p.kw { // outputs past the end of a row are dropped
			at := j * p.Dw
			src := phases[at%p.Sw*size+at/p.Sw:]
			if j == 0 {
				ops.Put(w.Steps, out[:span], src)
			} else {
				m := min(span, size-at/p.Sw)
				inParts(w.Steps, join, out[:m], out[:m], src)
			}
		}
		joint := p.average && p.all && p.uniform // all windows have the same number of elements
		if joint {
			kernel.DivS(out[:span], out[:span], float32(p.kh)*p.counts[0])
		}
		if p.pw == p.Ow && (joint || !p.average) {
			continue
		}
		for r := range n {
			dst := y[(first+r)*p.Ow : (first+r+1)*p.Ow]
			if p.pw != p.Ow {
				ops.Put(w.Steps, dst, out[r*p.pw:])
			}
			if p.average && !joint {
				p.divide(w.Steps, dst, first+r)
			}
		}
	}
}

// inParts combines as many numbers of a and b as y has.
func inParts(c *ir.EvalCtx, join func(y, a, b []float32), y, a, b []float32) {
	for lo, hi := range ops.Blocks(c, len(y), tensors.ItemNumbers) {
		join(y[lo:hi], a[lo:hi], b[lo:hi])
	}
}

// sides fills the pads of a row.
func (p *poolPass) sides(row []float32, fill float32) {
	for i := range p.Left {
		row[i] = fill
	}
	for i := p.Left + p.Wd; i < len(row); i++ {
		row[i] = fill
	}
}

// stack copies the padded input rows for n output rows, starting at the first one, grouped by phase of the vertical
// stride.
func (p *poolPass) stack(c *ir.EvalCtx, lines, x []float32, first, n int, fill float32) {
	width := p.pw * p.Sw
	for i := range (n-1)*p.Sh + p.kh {
		c.Step(width)
		row := lines[(i%p.Sh*p.lines+i/p.Sh)*width:][:width]
		r := first*p.Sh + i - p.Top
		if r < 0 || r >= p.H {
			for j := range row {
				row[j] = fill
			}
			continue
		}
		p.sides(row, fill)
		copy(row[p.Left:], x[r*p.Wd:(r+1)*p.Wd])
	}
}

// columns reduces the rows of the windows of all rows of a block.
func (p *poolPass) columns(c *ir.EvalCtx, y, lines []float32, join func(y, a, b []float32)) {
	width, a := p.pw*p.Sw, lines
	for i := 1; i < p.kh; i++ {
		inParts(c, join, y, a, lines[(i%p.Sh*p.lines+i/p.Sh)*width:])
		a = y
	}
}

// column reduces the rows of the windows of row r of the output.
func (p *poolPass) column(c *ir.EvalCtx, row, x []float32, r int, fill float32, join func(y, a, b []float32)) {
	top := r*p.Sh - p.Top
	lo, hi := span1(top, p.kh, p.Dh, p.H)
	if lo == hi {
		for i := range row {
			row[i] = fill
		}
		return
	}
	x, step := x[(top+lo*p.Dh)*p.Wd:], p.Dh*p.Wd
	if hi == lo+1 {
		ops.Put(c, row, x)
		return
	}
	inParts(c, join, row, x, x[step:])
	for at := 2 * step; at < (hi-lo)*step; at += step {
		inParts(c, join, row, row, x[at:])
	}
}

// divide turns the sums of a row of the output into means; 0 for windows outside of the input.
func (p *poolPass) divide(c *ir.EvalCtx, y []float32, r int) {
	lo, hi := span1(r*p.Sh-p.Top, p.kh, p.Dh, p.H)
	if p.all {
		lo, hi = 0, p.kh
	}
	rows := float32(hi - lo)
	if p.uniform && rows*p.counts[0] > 0 {
		kernel.DivS(y, y, rows*p.counts[0])
		return
	}
	if p.full != nil && hi-lo == p.kh {
		kernel.Div(y, y, p.full)
		return
	}
	for i, n := range ops.All(c, p.counts) {
		if n *= rows; n > 0 {
			y[i] /= n
		} else {
			y[i] = 0
		}
	}
}
