package cpu

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "MaxPool", Windowed: record.WindowedKind{Make: windowedPool(false)}, Tensor: record.TensorKind{Make: poolKernel(false)}},
		record.Record{Op: "AveragePool", Windowed: record.WindowedKind{Make: windowedPool(true)}, Tensor: record.TensorKind{Make: poolKernel(true)}},
	)
}

// poolPass reduces windows of the planes of each channel: some rows of the output at a time, first the rows of the windows to
// one, then its columns. Rows are padded, and parted into the phases of the stride, so that what meets a tap is always
// consecutive; the rows of a block follow each other without a gap, so that short ones make a long one.
type poolPass struct {
	planarWindow
	kh, kw  int
	average bool
	all     bool // pads count
	pw      int  // of a row of one phase
	rows    int  // of the output at a time
	counts  []float32
	uniform bool // all counts are the same
	x, y    []float32
}

// poolBlock is how many numbers of a plane are reduced at a time.
const poolBlock = 1 << 11

// poolKernel gives the greatest numbers of windows, or their averages.
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
	if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
		return nil
	}
	if len(taps) > 2 {
		return newPoolND(d, s, average, all)
	}
	in, out := d.ShapeOf(s, 0), d.Shapes[s.Out[0].ID]
	if len(in) != len(taps)+2 {
		return nil
	}
	c, ok := planar(s.Node, in, out, kh, kw)
	if !ok && !(ops.Int(s.Node, "ceil_mode") != 0 && !all && c.ow > 0 && c.oh > 0) {
		return nil
	}
	p := &poolPass{planarWindow: c, kh: kh, kw: kw, average: average, all: all}
	p.plan()
	return &record.TensorKernel{Scratch: (p.rows + 1) * p.pw * (2*p.sw + 1), Run: func(e record.Execution, _ record.Call) error {
		p.x, p.y = e.Floats(s.In[0]), e.Floats(s.Out[0])
		return e.Parallel(p, c.n*c.c)
	}}
}

// plan sizes the blocks, and counts the columns of windows that meet the input.
func (p *poolPass) plan() {
	width := max(p.left+p.wd, (p.ow-1)*p.sw+(p.kw-1)*p.dw+1)
	p.pw = (width + p.sw - 1) / p.sw
	p.rows = min(p.oh, max(1, poolBlock/(p.pw*p.sw)))
	p.counts, p.uniform = make([]float32, p.ow), true
	for i := range p.counts {
		from, to := span1(i*p.sw-p.left, p.kw, p.dw, p.wd)
		if p.all {
			from, to = 0, p.kw
		}
		p.counts[i] = float32(to - from)
		p.uniform = p.uniform && p.counts[i] == p.counts[0]
	}
}

// span1 gives the taps of a window that meet the input: from, to.
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

// work item reduces one plane.
func (p *poolPass) Do(w *record.Workspace, k int) {
	x, y := p.x[k*p.h*p.wd:(k+1)*p.h*p.wd], p.y[k*p.oh*p.ow:(k+1)*p.oh*p.ow]
	fill, join := float32(math.Inf(-1)), kernel.Max
	if p.average {
		fill, join = 0, kernel.Add
	}
	width, size := p.pw*p.sw, (p.rows+1)*p.pw
	padded, phases, out := w.Scratch[:size*p.sw], w.Scratch[size*p.sw:2*size*p.sw], w.Scratch[2*size*p.sw:2*size*p.sw+size]
	if p.sw == 1 {
		phases = padded
	}
	for first := 0; first < p.oh; first += p.rows {
		n := min(p.rows, p.oh-first)
		for r := range n {
			row := padded[r*width : (r+1)*width]
			for i := range p.left {
				row[i] = fill
			}
			for i := p.left + p.wd; i < width; i++ {
				row[i] = fill
			}
			p.column(row[p.left:p.left+p.wd], x, first+r, fill, join)
		}
		if p.pw == p.ow {
			out = y[first*p.ow:]
		}
		span := n * p.pw
		switch {
		case p.sw == 2:
			kernel.Part(phases[:span], phases[size:size+span], padded)
		case p.sw > 2:
			for q := range p.sw {
				for i := range phases[q*size : q*size+span] {
					phases[q*size+i] = padded[i*p.sw+q]
				}
			}
		}
		for j := range p.kw { // what lies behind the last place of a row is dropped
			at := j * p.dw
			src := phases[at%p.sw*size+at/p.sw:]
			if j == 0 {
				copy(out[:span], src)
			} else {
				m := min(span, size-at/p.sw)
				join(out[:m], out[:m], src[:m])
			}
		}
		for r := range n {
			dst := y[(first+r)*p.ow : (first+r+1)*p.ow]
			if p.pw != p.ow {
				copy(dst, out[r*p.pw:])
			}
			if p.average {
				p.divide(dst, first+r)
			}
		}
	}
}

// column joins the rows of the windows of row r of the output.
func (p *poolPass) column(row, x []float32, r int, fill float32, join func(y, a, b []float32)) {
	top := r*p.sh - p.top
	lo, hi := span1(top, p.kh, p.dh, p.h)
	if lo == hi {
		for i := range row {
			row[i] = fill
		}
		return
	}
	x, step := x[(top+lo*p.dh)*p.wd:], p.dh*p.wd
	if hi == lo+1 {
		copy(row, x)
		return
	}
	join(row, x[:p.wd], x[step:step+p.wd])
	for at := 2 * step; at < (hi-lo)*step; at += step {
		join(row, row, x[at:at+p.wd])
	}
}

// divide makes the sums of a row of the output means. Windows that meet nothing are 0.
func (p *poolPass) divide(y []float32, r int) {
	lo, hi := span1(r*p.sh-p.top, p.kh, p.dh, p.h)
	if p.all {
		lo, hi = 0, p.kh
	}
	rows := float32(hi - lo)
	if p.uniform && rows*p.counts[0] > 0 {
		kernel.DivS(y, y, rows*p.counts[0])
		return
	}
	for i, c := range p.counts {
		if c *= rows; c > 0 {
			y[i] /= c
		} else {
			y[i] = 0
		}
	}
}
