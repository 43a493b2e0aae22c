package pooling

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "LpPool", Tensor: record.TensorKind{Make: realPool(lpPools)}})
}

// The ways in which a realPoolPass reduces windows.
const (
	maxPools = iota
	averagePools
	lpPools
)

// realPoolPass reduces windows over up to three axes, one plane per work item: float64 windows, windows with the
// indices of greatest elements, and norms.
type realPoolPass[T float32 | float64] struct {
	how     int
	p       float64  // the exponent of norms
	size    [3]int   // of the input; unused leading axes have size 1
	windows [3]int   // along each axis
	spans   [3][]int // the windows along each axis
	step    [3]int   // between taps, in elements of the plane
	columns bool     // indices count the first axis first
	all     bool     // averages count pads
	x, y    []T
	where   []int64
}

// poolSpan is the part of a window along an axis that is in the input: the first element, the number of taps there,
// and the number of taps in the input or its pads.
type poolSpan struct{ from, count, padded int }

func realPool(how int) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.Node.Attrs.Ints("kernel_shape", nil)) == 0 || s.Absent(0) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			if d.Typed(s, 0, tensor.Float64) {
				return newRealPool[float64](d, s, how, tensor.Float64)
			}
			return newRealPool[float32](d, s, how, tensor.Float32)
		}
	}
}

func newRealPool[T float32 | float64](d *lowering.Binding, s *lowering.Step, how int, dtype tensor.DType) *record.TensorKernel {
	kernelShape := s.Node.Attrs.Ints("kernel_shape", nil)
	taps := make([]int, len(kernelShape))
	for i, k := range kernelShape {
		taps[i] = int(k)
	}
	wanted := s.Out[0] // if only indices are wanted, there may be no first output
	for _, v := range s.Out {
		if wanted == nil {
			wanted = v
		}
	}
	if wanted == nil || !d.Typed(s, 0, dtype) || s.Out[0] != nil && !d.Gives(s, 0, dtype) {
		return nil
	}
	in, out := d.ShapeOf(s, 0), d.Shape(wanted)
	v, ok := tensors.NewSliding(s.Node, in, out, taps)
	if !ok || len(taps) > 3 || in[1] != out[1] {
		return nil
	}
	p := &realPoolPass[T]{how: how, p: 2, size: [3]int{1, 1, 1}}
	switch how {
	case maxPools:
		p.columns = ops.Int(s.Node, "storage_order") != 0
	case averagePools:
		p.all = ops.Int(s.Node, "count_include_pad") != 0
	case lpPools:
		p.p = float64(s.Node.Attrs.Int("p", 2))
		if e, ok := s.Node.Attrs.Get("p").(float64); ok {
			p.p = e
		}
		if !(p.p > 0) {
			return nil // the evaluation reports the error
		}
	}
	unused, stride := 3-len(taps), 1
	for a := range unused {
		p.windows[a], p.spans[a] = 1, []int{0, 1, 1}
	}
	for a := len(taps) - 1; a >= 0; a-- {
		p.size[a+unused], p.step[a+unused] = v.In[a], v.Dilations[a]*stride
		spans := lowering.Make[int](d, 3*v.Out[a])
		for o := range ops.Each(d.Steps(), v.Out[a]) {
			at := o*v.Strides[a] - v.Before[a]
			lo, hi := span1(at, taps[a], v.Dilations[a], v.In[a])
			_, padded := span1(at, taps[a], v.Dilations[a], v.In[a]+v.Behind[a])
			copy(spans[3*o:], []int{(at + lo*v.Dilations[a]) * stride, hi - lo, padded})
		}
		p.windows[a+unused], p.spans[a+unused] = v.Out[a], spans
		stride *= v.In[a]
	}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	var where lowering.Slot[int64]
	if how == maxPools {
		where = lowering.Output[int64](d, s, 1)
	}
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y, p.where = x.In(f), nil, nil
		if s.Out[0] != nil {
			p.y = y.In(f)
		}
		if !where.Absent() {
			p.where = where.In(f)
		}
		return e.Parallel(p, in[0]*in[1])
	}}
}

// span returns window o along an axis.
func (p *realPoolPass[T]) span(axis, o int) poolSpan {
	v := p.spans[axis][3*o : 3*o+3]
	return poolSpan{v[0], v[1], v[2]}
}

func (p *realPoolPass[T]) Do(w *record.Workspace, k int) {
	size := p.size[0] * p.size[1] * p.size[2]
	x, at := p.x[k*size:(k+1)*size], k*p.windows[0]*p.windows[1]*p.windows[2]
	for i := range p.windows[0] {
		a := p.span(0, i)
		for j := range p.windows[1] {
			b := p.span(1, j)
			for l := range p.windows[2] {
				c := p.span(2, l)
				w.Steps.Step(2 + a.count*b.count*(2+c.count))
				switch p.how {
				case maxPools:
					p.largest(x, a, b, c, at, k*size)
				case averagePools:
					p.y[at] = p.average(x, a, b, c)
				case lpPools:
					p.y[at] = p.norm(x, a, b, c)
				}
				at++
			}
		}
	}
}

// largest finds the greatest element of a window, the first of several, or the first NaN.
func (p *realPoolPass[T]) largest(x []T, a, b, c poolSpan, at, first int) {
	best, from := T(math.Inf(-1)), -1 // for a window completely in the pads
	for i := range a.count {
		for j := range b.count {
			o := a.from + b.from + c.from + i*p.step[0] + j*p.step[1]
			for range c.count {
				if v := x[o]; v > best || from < 0 || v != v && best == best {
					best, from = v, o
				}
				o += p.step[2]
			}
		}
	}
	if p.y != nil {
		p.y[at] = best
	}
	if p.where == nil {
		return
	}
	if p.columns && from >= 0 {
		w, h := p.size[2], p.size[1]
		from = (from%w*h+from/w%h)*p.size[0] + from/(w*h)
	}
	p.where[at] = int64(first + from)
}

func (p *realPoolPass[T]) average(x []T, a, b, c poolSpan) T {
	sum, n := 0.0, a.count*b.count*c.count
	if p.all {
		n = a.padded * b.padded * c.padded
	}
	for i := range a.count {
		for j := range b.count {
			o := a.from + b.from + c.from + i*p.step[0] + j*p.step[1]
			for range c.count {
				sum += float64(x[o])
				o += p.step[2]
			}
		}
	}
	if n == 0 {
		return 0
	}
	return T(sum / float64(n))
}

func (p *realPoolPass[T]) norm(x []T, a, b, c poolSpan) T {
	sum := 0.0
	for i := range a.count {
		for j := range b.count {
			o := a.from + b.from + c.from + i*p.step[0] + j*p.step[1]
			for range c.count {
				switch v := math.Abs(float64(x[o])); p.p {
				case 1:
					sum += v
				case 2:
					sum += v * v
				default:
					sum += math.Pow(v, p.p)
				}
				o += p.step[2]
			}
		}
	}
	switch p.p {
	case 1:
		return T(sum)
	case 2:
		return T(math.Sqrt(sum))
	}
	return T(math.Pow(sum, 1/p.p))
}
