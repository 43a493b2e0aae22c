package cpu

import (
	"cmp"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for name := range comparisons {
		kernels[name] = compareKernel
	}
	kernels["Where"] = whereKernel
	kernels["Cast"] = castKernel
}

// A comparison holds where the operands' order is one of these bits.
const (
	below = 1 << iota
	equal
	above
)

var comparisons = map[string]int{"Equal": equal, "Less": below, "LessOrEqual": below | equal, "Greater": above, "GreaterOrEqual": above | equal}

// comparePass compares under broadcasting; NaN is in no order.
type comparePass struct {
	b    *broadcast
	per  int
	run  func(p *comparePass, row int)
	y    *tensor.Tensor
	x    [3]*tensor.Tensor
	want int
}

func (p *comparePass) ticket(_ *worker, k int) {
	for row := k * p.per; row < min(p.b.rows, (k+1)*p.per); row++ {
		p.run(p, row)
	}
}

// steps is how far apart the elements of a row lie in each operand: 0 where there is one for all.
func (p *comparePass) steps() (step [3]int) {
	for i, u := range p.b.unit {
		if u {
			step[i] = 1
		}
	}
	return step
}

func compareKernel(s *lowering.Step) kernelMaker {
	if len(s.In) != 2 || s.Absent(0) || s.Absent(1) {
		return nil
	}
	want := comparisons[s.Node.Op.Name]
	return func(d *binding) *boundKernel {
		var run func(p *comparePass, row int)
		dtype := d.DTypes[s.In[0].ID]
		switch dtype {
		case tensor.Float32:
			run = compareRow[float32]
		case tensor.Float64:
			run = compareRow[float64]
		case tensor.Int32:
			run = compareRow[int32]
		case tensor.Int64:
			run = compareRow[int64]
		default:
			return nil
		}
		if !d.Typed(s, 0, dtype) || !d.Typed(s, 1, dtype) || !d.Gives(s, 0, tensor.Bool) {
			return nil
		}
		return elementKernel(d, s, run, want, 0, 1)
	}
}

// elementKernel reads some inputs under broadcasting, row by row.
func elementKernel(d *binding, s *lowering.Step, run func(p *comparePass, row int), want int, inputs ...int) *boundKernel {
	out := d.Shapes[s.Out[0].ID]
	shapes := make([][]int, len(inputs))
	for i, k := range inputs {
		shapes[i] = d.ShapeOf(s, k)
	}
	if shape, err := ops.Broadcast(shapes...); err != nil || !slices.Equal(shape, out) {
		return nil // refused when it is evaluated
	}
	p := &comparePass{b: newBroadcast(out, shapes...), run: run, want: want}
	n := 0
	p.per, n = p.b.tickets()
	return &boundKernel{run: func(e *executable, _ *unit) error {
		p.y = e.datum(s.Out[0]).(*tensor.Tensor)
		for i, k := range inputs {
			p.x[i] = e.datum(s.In[k]).(*tensor.Tensor)
		}
		return e.parallel(p, n)
	}}
}

func compareRow[T interface {
	cmp.Ordered
	tensor.Elem
}](p *comparePass, row int) {
	n := p.b.inner
	y := tensor.Data[bool](p.y)[row*n : (row+1)*n]
	a, b := tensor.Data[T](p.x[0])[p.b.at(0, row):], tensor.Data[T](p.x[1])[p.b.at(1, row):]
	lt, eq, gt := p.want&below != 0, p.want&equal != 0, p.want&above != 0
	test := func(a, b T) bool { return lt && a < b || eq && a == b || gt && a > b }
	switch {
	case p.b.unit[0] && p.b.unit[1]:
		for i := range y {
			y[i] = test(a[i], b[i])
		}
	case p.b.unit[0]:
		for i := range y {
			y[i] = test(a[i], b[0])
		}
	case eq && !lt && !gt && p.b.unit[1]:
		for i, s := range b[:n] {
			y[i] = s == a[0]
		}
	case p.b.unit[1]:
		for i := range y {
			y[i] = test(a[0], b[i])
		}
	default:
		v := test(a[0], b[0])
		for i := range y {
			y[i] = v
		}
	}
}

// whereKernel picks from two operands.
func whereKernel(s *lowering.Step) kernelMaker {
	if s.Absent(0) || s.Absent(1) || s.Absent(2) {
		return nil
	}
	return func(d *binding) *boundKernel {
		var run func(p *comparePass, row int)
		dtype := d.DTypes[s.In[1].ID]
		switch dtype {
		case tensor.Float32:
			run = whereRow[float32]
		case tensor.Int64:
			run = whereRow[int64]
		case tensor.Int32:
			run = whereRow[int32]
		default:
			return nil
		}
		if !d.Typed(s, 0, tensor.Bool) || !d.Typed(s, 1, dtype) || !d.Typed(s, 2, dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		return elementKernel(d, s, run, 0, 0, 1, 2)
	}
}

func whereRow[T tensor.Elem](p *comparePass, row int) {
	n := p.b.inner
	y := tensor.Data[T](p.y)[row*n : (row+1)*n]
	c, a, b := tensor.Data[bool](p.x[0])[p.b.at(0, row):], tensor.Data[T](p.x[1])[p.b.at(1, row):], tensor.Data[T](p.x[2])[p.b.at(2, row):]
	step := p.steps()
	for i := range y {
		if c[i*step[0]] {
			y[i] = a[i*step[1]]
		} else {
			y[i] = b[i*step[2]]
		}
	}
}

// castKernel turns bools and whole numbers into float32; other casts have rules of rounding that are not the machine's.
func castKernel(s *lowering.Step) kernelMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *binding) *boundKernel {
		if !d.Gives(s, 0, tensor.Float32) || d.ShapeOf(s, 0) == nil || !slices.Equal(d.ShapeOf(s, 0), d.Shapes[s.Out[0].ID]) {
			return nil
		}
		in, out := s.In[0], s.Out[0]
		var run func(y []float32, x *tensor.Tensor)
		switch d.DTypes[in.ID] {
		case tensor.Float32:
			run = func(y []float32, x *tensor.Tensor) { copy(y, tensor.Data[float32](x)) }
		case tensor.Bool:
			run = func(y []float32, x *tensor.Tensor) {
				for i, b := range tensor.Data[bool](x) {
					y[i] = 0
					if b {
						y[i] = 1
					}
				}
			}
		case tensor.Int32:
			run = func(y []float32, x *tensor.Tensor) { kernel.FloatsOfInts(y, tensor.Data[int32](x)) }
		case tensor.Int64:
			run = func(y []float32, x *tensor.Tensor) {
				for i, v := range tensor.Data[int64](x) {
					y[i] = float32(v)
				}
			}
		default:
			return nil
		}
		return &boundKernel{run: func(e *executable, _ *unit) error {
			run(e.buf[out.ID], e.datum(in).(*tensor.Tensor))
			return nil
		}}
	}
}
