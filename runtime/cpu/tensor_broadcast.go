package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// broadcast is how operands of an elementwise operator are read: the output as rows of inner numbers, and for each row where
// it begins in each operand. Axes along which all operands go on alike are one.
type broadcast struct {
	dims  []int   // outer axes
	steps [][]int // per operand and outer axis: how far apart
	inner int
	unit  []bool // per operand: whether it goes along the row, or is one number for it
	rows  int
}

func newBroadcast(out []int, in ...[]int) *broadcast {
	b := &broadcast{rows: 1, inner: 1}
	strides := make([][]int, len(in))
	for i, s := range in {
		strides[i] = ops.BroadcastStrides(s, out)
	}
	var dims []int
	steps := make([][]int, len(in))
	for a, d := range out {
		if d == 1 {
			continue
		}
		last := len(dims) - 1
		joins := last >= 0
		for i := range in {
			joins = joins && steps[i][last] == strides[i][a]*d
		}
		if joins {
			dims[last] *= d
			for i := range in {
				steps[i][last] = strides[i][a]
			}
			continue
		}
		dims = append(dims, d)
		for i := range in {
			steps[i] = append(steps[i], strides[i][a])
		}
	}
	if n := len(dims) - 1; n >= 0 {
		b.inner = dims[n]
		for i := range in {
			b.unit = append(b.unit, steps[i][n] != 0)
			steps[i] = steps[i][:n]
		}
		dims = dims[:n]
	} else {
		b.unit = make([]bool, len(in))
	}
	b.dims, b.steps = dims, steps
	for _, d := range dims {
		b.rows *= d
	}
	if slices.Contains(out, 0) {
		b.rows = 0
	}
	return b
}

// at gives where a row begins in operand i.
func (b *broadcast) at(i, row int) int {
	off := 0
	for a := len(b.dims) - 1; a >= 0; a-- {
		off += row % b.dims[a] * b.steps[i][a]
		row /= b.dims[a]
	}
	return off
}

// broadcastItem is how many numbers of the output a work item computes.
const broadcastItem = 1 << 15

// work items says how many rows a work item takes, and how many work items there are.
func (b *broadcast) items() (rows, n int) {
	rows = max(1, broadcastItem/max(1, b.inner))
	return rows, (b.rows + rows - 1) / rows
}

// comparePass compares under broadcasting; NaN is in no order.
type comparePass struct {
	b    *broadcast
	per  int
	run  func(p *comparePass, row int)
	y    *tensor.Tensor
	x    [3]*tensor.Tensor
	want int
}

func (p *comparePass) Do(_ *record.Workspace, k int) {
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

// elementKernel reads some inputs under broadcasting, row by row.
func elementKernel(d *lowering.Binding, s *lowering.Step, run func(p *comparePass, row int), want int, inputs ...int) *record.TensorKernel {
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
	p.per, n = p.b.items()
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		p.y = e.Datum(s.Out[0]).(*tensor.Tensor)
		for i, k := range inputs {
			p.x[i] = e.Datum(s.In[k]).(*tensor.Tensor)
		}
		return e.Parallel(p, n)
	}}
}
