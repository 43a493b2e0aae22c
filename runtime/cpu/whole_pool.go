package cpu

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func init() {
	registerKernels(map[string]func(s *step) kernelMaker{"MaxPool": poolKernel, "AveragePool": poolKernel})
}

// poolPass reduces windows of the planes of each channel.
type poolPass struct {
	conv2d
	kh, kw  int
	average bool
	all     bool // pads count
	x, y    []float32
}

func poolKernel(s *step) kernelMaker {
	taps := s.node.Attrs.Ints("kernel_shape", nil)
	if len(taps) != 1 && len(taps) != 2 || len(s.node.Outputs) != 1 || s.absent(0) {
		return nil
	}
	kh, kw := 1, int(taps[len(taps)-1])
	if len(taps) == 2 {
		kh = int(taps[0])
	}
	average := s.node.Op.Name == "AveragePool"
	all := average && ops.Int(s.node, "count_include_pad") != 0
	return func(d *binding) *boundKernel {
		if !d.typed(s, 0, tensor.Float32) || !d.gives(s, 0, tensor.Float32) {
			return nil
		}
		in, out := d.shapeOf(s, 0), d.shapes[s.out[0].id]
		if len(in) != len(taps)+2 {
			return nil
		}
		c, ok := planar(s.node, in, out, kh, kw)
		if !ok && !(ops.Int(s.node, "ceil_mode") != 0 && !all && c.ow > 0 && c.oh > 0) {
			return nil
		}
		p := &poolPass{conv2d: c, kh: kh, kw: kw, average: average, all: all}
		return &boundKernel{scratch: c.wd, run: func(e *executable, _ *unit) error {
			p.x, p.y = e.buf[s.in[0].id], e.buf[s.out[0].id]
			return e.parallel(p, c.n*c.c)
		}}
	}
}

// span gives the taps of a window that meet the input: from, to.
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

// ticket reduces one plane: first the rows of a window to one, then its columns.
func (p *poolPass) ticket(w *worker, k int) {
	x, y, row := p.x[k*p.h*p.wd:(k+1)*p.h*p.wd], p.y[k*p.oh*p.ow:(k+1)*p.oh*p.ow], w.scratch[:p.wd]
	for r := range p.oh {
		top := r*p.sh - p.top
		lo, hi := span1(top, p.kh, p.dh, p.h)
		for i := lo; i < hi; i++ {
			src := x[(top+i*p.dh)*p.wd : (top+i*p.dh+1)*p.wd]
			switch {
			case i == lo:
				copy(row, src)
			case p.average:
				kernel.Add(row, row, src)
			default:
				kernel.Max(row, row, src)
			}
		}
		out := y[r*p.ow : (r+1)*p.ow]
		for c := range out {
			left := c*p.sw - p.left
			from, to := span1(left, p.kw, p.dw, p.wd)
			if p.average {
				out[c] = p.mean(row, left, from, to, hi-lo)
				continue
			}
			best := float32(math.Inf(-1))
			if lo < hi {
				for j := from; j < to; j++ {
					best = max(best, row[left+j*p.dw])
				}
			}
			out[c] = best
		}
	}
}

// mean is the sum of a window's columns, over what counts of it.
func (p *poolPass) mean(row []float32, left, from, to, rows int) float32 {
	count := rows * (to - from)
	if p.all {
		count = p.kh * p.kw
	}
	if count == 0 || rows == 0 {
		return 0
	}
	sum := float32(0)
	for j := from; j < to; j++ {
		sum += row[left+j*p.dw]
	}
	return sum / float32(count)
}
