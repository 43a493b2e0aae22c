package elementwise

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Wide makes the tensor kernel of a step that computes float64 by an expression: the primitives of package scalar, block
// by block, as its evaluation does. It returns nil for other steps.
func Wide(s *lowering.Step) record.TensorMaker {
	if !Of(s.Node.Op) || s.Node.Out(0) == nil || s.Node.Out(0).Elem() != tensor.Float64 {
		return nil
	}
	e := lowering.Expression(s, func(*lowering.Value) *tensor.Tensor { return nil })
	if !e.Valid() || slices.ContainsFunc(s.Node.Inputs, func(v *ir.Value) bool { return moreAxes(v, s.Node.Out(0)) }) {
		return nil
	}
	e = scalar.Simplify(scalar.Expand(e, nil))
	reads := e.Reads()
	if len(reads) == 0 {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel { return newWide(d, s, e, reads) }
}

// widePass computes an expression in float64 under broadcasting, some rows per work item.
type widePass struct {
	b        *Broadcast
	per      int
	work     int   // operations per number
	reads    []int // the inputs
	x        [][]float64
	y        []float64
	machines sync.Pool // of *wideMachine
	step     *lowering.Step
}

// wideMachine computes blocks on one worker.
type wideMachine struct {
	*scalar.Machine
	in  [][]float64
	out [1][]float64
}

func newWide(d *lowering.Binding, s *lowering.Step, e scalar.Expr, reads []int) *record.TensorKernel {
	if !d.Gives(s, 0, tensor.Float64) {
		return nil
	}
	out := d.Shape(s.Out[0])
	var shapes [][]int
	var slots []lowering.Slot[float64]
	for _, i := range reads {
		if !d.Typed(s, i, tensor.Float64) {
			return nil
		}
		shapes, slots = append(shapes, d.ShapeOf(s, i)), append(slots, lowering.Input[float64](d, s, i))
	}
	if shape, err := ops.Broadcast(shapes...); err != nil || !slices.Equal(shape, out) {
		return nil // refused when it is evaluated
	}
	code := scalar.Linearize(nil, e)
	p := &widePass{b: NewBroadcast(out, shapes...), reads: reads, step: s, work: len(code.Code) + 1}
	p.x = operands(len(reads))
	p.machines.New = func() any {
		return &wideMachine{Machine: scalar.NewMachine(code, scalar.BlockSize), in: operands(code.Inputs)}
	}
	n := 0
	p.per, n = p.b.Items()
	y := lowering.Output[float64](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.y = y.In(f)
		for k, x := range slots {
			p.x[k] = x.In(f)
		}
		return e.Parallel(p, n)
	}}
}

// operands makes a list of n operands: no more than a node has inputs.
func operands(n int) (list [][]float64) {
	for range n {
		list = append(list, nil)
	}
	return list
}

func (p *widePass) Do(w *record.Workspace, k int) {
	w.Node = p.step.Source
	m := p.machines.Get().(*wideMachine)
	defer p.put(m)
	n := p.b.Inner
	single := !slices.Contains(p.b.Unit, true)
	for row := k * p.per; row < min(p.b.Rows, (k+1)*p.per); row++ {
		y := p.y[row*n : (row+1)*n]
		if single {
			p.part(w.Steps, m, y[:1], row, 0)
			ops.Fill(w.Steps, y, y[0])
			continue
		}
		for lo := 0; lo < n; lo += scalar.BlockSize {
			p.part(w.Steps, m, y[lo:min(n, lo+scalar.BlockSize)], row, lo)
		}
	}
}

// part computes the part of a row that begins at lo.
func (p *widePass) part(c *ir.EvalCtx, m *wideMachine, y []float64, row, lo int) {
	c.Step(len(y) * p.work)
	for k, i := range p.reads {
		x := p.x[k][p.b.At(k, row):]
		if p.b.Unit[k] {
			m.in[i] = x[lo : lo+len(y)]
		} else {
			m.in[i] = x[:1]
		}
	}
	m.out[0] = y
	m.Run(len(y), m.out[:], m.in)
}

func (p *widePass) put(m *wideMachine) {
	clear(m.in)
	m.out[0] = nil
	p.machines.Put(m)
}
