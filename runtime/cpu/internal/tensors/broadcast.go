package tensors

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// comparePass compares under broadcasting; NaN is in no order.
type comparePass struct {
	b    *elementwise.Broadcast
	per  int
	run  func(p *comparePass, row int)
	y    *tensor.Tensor
	x    [3]*tensor.Tensor
	want int
}

func (p *comparePass) Do(_ *record.Workspace, k int) {
	for row := k * p.per; row < min(p.b.Rows, (k+1)*p.per); row++ {
		p.run(p, row)
	}
}

// steps is how far apart the elements of a row lie in each operand: 0 where there is one for all.
func (p *comparePass) steps() (step [3]int) {
	for i, u := range p.b.Unit {
		if u {
			step[i] = 1
		}
	}
	return step
}

// elementKernel reads some inputs under broadcasting, row by row.
func elementKernel(d *lowering.Binding, s *lowering.Step, run func(p *comparePass, row int), want int, inputs ...int) *record.TensorKernel {
	out := d.Shape(s.Out[0])
	shapes := make([][]int, len(inputs))
	for i, k := range inputs {
		shapes[i] = d.ShapeOf(s, k)
	}
	if shape, err := ops.Broadcast(shapes...); err != nil || !slices.Equal(shape, out) {
		return nil // refused when it is evaluated
	}
	p := &comparePass{b: elementwise.NewBroadcast(out, shapes...), run: run, want: want}
	n := 0
	p.per, n = p.b.Items()
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		p.y = e.Datum(s.Out[0]).(*tensor.Tensor)
		for i, k := range inputs {
			p.x[i] = e.Datum(s.In[k]).(*tensor.Tensor)
		}
		return e.Parallel(p, n)
	}}
}
