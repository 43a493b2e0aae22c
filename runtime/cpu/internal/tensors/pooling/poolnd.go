package pooling

import (
	"math"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// poolND reduces windows over three or more axes, one axis after the other, plane by plane.
type poolND struct {
	tensors.Sliding
	average bool
	shares  [][]float32 // per axis and index of the output: the number of taps in an average
	planes  int
	held    int // maximum size of an intermediate result
	x, y    []float32
}

// mostPoolAxes is the maximum number of axes of a window.
const mostPoolAxes = 8

// newPoolND returns the kernel of a pool, or nil if shapes do not fit. With all, averages include pads.
func newPoolND(d *lowering.Binding, s *lowering.Step, average, all bool) *record.TensorKernel {
	kernelShape := s.Node.Attrs.Ints("kernel_shape", nil)
	taps := make([]int, len(kernelShape))
	for i, k := range kernelShape {
		taps[i] = int(k)
	}
	in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	w, ok := tensors.NewSliding(s.Node, in, out, taps)
	if !ok || len(taps) > mostPoolAxes || in[1] != out[1] || !w.Inside() && (all || ops.Int(s.Node, "ceil_mode") == 0) {
		return nil
	}
	p := &poolND{Sliding: w, average: average, planes: in[0] * in[1]}
	now := append([]int{}, w.In...)
	for a := range taps {
		now[a] = w.Out[a]
		p.held = max(p.held, tensors.Product(now))
		counts := lowering.Make[float32](d, w.Out[a])
		for o := range ops.Each(d.Steps(), len(counts)) {
			lo, hi := span1(o*w.Strides[a]-w.Before[a], taps[a], w.Dilations[a], w.In[a])
			if all {
				lo, hi = 0, taps[a]
			}
			counts[o] = float32(hi - lo)
		}
		p.shares = append(p.shares, counts)
	}
	slots := tensors.UnaryOf(d, s)
	return &record.TensorKernel{Scratch: 2 * p.held, Run: func(e record.Execution, _ record.Call) error {
		p.x, p.y = slots.In(e.Frame())
		return e.Parallel(p, p.planes)
	}}
}

func (p *poolND) Do(w *record.Workspace, k int) {
	n, m := tensors.Product(p.In), tensors.Product(p.Out)
	src, outer, inner := p.x[k*n:(k+1)*n], 1, n
	for a := range p.Taps {
		inner /= p.In[a]
		dst := w.Scratch[a%2*p.held:][:outer*p.Out[a]*inner]
		if a == len(p.Taps)-1 {
			dst = p.y[k*m : (k+1)*m]
		}
		for o := range outer {
			p.reduce(w, dst[o*p.Out[a]*inner:(o+1)*p.Out[a]*inner], src[o*p.In[a]*inner:(o+1)*p.In[a]*inner], a, inner)
		}
		src = dst
		outer *= p.Out[a]
	}
	if !p.average {
		return
	}
	last := len(p.Out) - 1
	var places [mostPoolAxes]int
	index := places[:last]
	for row := src; len(row) > 0; row = row[p.Out[last]:] {
		w.Steps.Step(p.Out[last])
		share := float32(1)
		for a, i := range index {
			share *= p.shares[a][i]
		}
		for i, c := range p.shares[last] {
			if c *= share; c > 0 {
				row[i] /= c
			} else {
				row[i] = 0 // the window is outside the input
			}
		}
		tensors.Next(index, p.Out[:last])
	}
}

// reduce reduces lines of inner numbers along axis a.
func (p *poolND) reduce(w *record.Workspace, y, x []float32, a, inner int) {
	fill := float32(0)
	if !p.average {
		fill = float32(math.Inf(-1))
	}
	for o := range p.Out[a] {
		w.Steps.Step(1 + inner/8*p.Taps[a])
		at := o*p.Strides[a] - p.Before[a]
		lo, hi := span1(at, p.Taps[a], p.Dilations[a], p.In[a])
		row := y[o*inner : (o+1)*inner]
		if lo == hi {
			for i := range row {
				row[i] = fill
			}
			continue
		}
		first, step := (at+lo*p.Dilations[a])*inner, p.Dilations[a]*inner
		if inner == 1 {
			v := x[first]
			for t := 1; t < hi-lo; t++ {
				if p.average {
					v += x[first+t*step]
				} else {
					v = max(v, x[first+t*step])
				}
			}
			row[0] = v
			continue
		}
		copy(row, x[first:])
		for t := 1; t < hi-lo; t++ {
			if line := x[first+t*step:][:inner]; p.average {
				kernel.Add(row, row, line)
			} else {
				kernel.Max(row, row, line)
			}
		}
	}
}
