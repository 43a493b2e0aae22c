package elementwise

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// tensor makes the tensor kernel, for operands that do not broadcast as rows.
func (p *program) tensor(s *lowering.Step) record.TensorMaker {
	return func(d *lowering.Binding) *record.TensorKernel {
		if !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		out := d.Shape(s.Out[0])
		shapes, slots := make([][]int, len(p.reads)), make([]lowering.Slot[float32], len(p.reads))
		for k, i := range p.reads {
			if !d.Typed(s, i, tensor.Float32) {
				return nil
			}
			shapes[k], slots[k] = d.ShapeOf(s, i), lowering.Input[float32](d, s, i)
		}
		if shape, err := ops.Broadcast(shapes...); err != nil || !slices.Equal(shape, out) {
			return nil // refused when it is evaluated
		}
		b := &broadcastPass{program: p, step: s, b: NewBroadcast(out, shapes...), x: make([][]float32, len(p.reads))}
		n := 0
		b.per, n = b.b.Items()
		b.one = !slices.Contains(b.b.Unit, true)
		if len(p.code) == 1 && p.code[0].arithmetic != nil {
			in := &p.code[0]
			b.f, b.i, b.j = *in.arithmetic, in.args[0]-p.registers, in.args[1]-p.registers
		}
		y := lowering.Output[float32](d, s, 0)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			b.y = y.In(f)
			for k, x := range slots {
				b.x[k] = x.In(f)
			}
			return e.Parallel(b, n)
		}}
	}
}

// broadcastPass computes a program under broadcasting.
type broadcastPass struct {
	*program
	b    *Broadcast
	per  int
	y    []float32
	x    [][]float32
	step *lowering.Step
	one  bool // all numbers of a row are equal

	// The instruction of a program of one instruction on two operands, and the operands.
	f    record.Arithmetic
	i, j int
}

func (p *broadcastPass) Do(w *record.Workspace, k int) {
	w.Node = p.step.Source
	from, to, n := k*p.per, min(p.b.Rows, (k+1)*p.per), p.b.Inner
	switch {
	case p.f.Rows != nil:
		p.arithmetic(w, from, to)
		return
	case p.one:
		for row := from; row < to; row++ {
			y := p.y[row*n : (row+1)*n]
			p.blocks(w, y[:1], row)
			ops.Fill(w.Steps, y, y[0])
		}
		return
	}
	for row := from; row < to; row++ {
		p.blocks(w, p.y[row*n:(row+1)*n], row)
	}
}

// arithmetic computes rows of a program of one instruction on two operands.
func (p *broadcastPass) arithmetic(w *record.Workspace, from, to int) {
	f, n, xa, xb := p.f, p.b.Inner, p.x[p.i], p.x[p.j]
	right, left := p.b.Unit[p.i], p.b.Unit[p.j]
	for row := from; n <= blockSize && row < to; {
		i, di, end := p.b.run(p.i, row)
		j, dj, _ := p.b.run(p.j, row)
		end = min(end, to)
		w.Steps.Step((end - row) * n)
		for ; row < end; row++ {
			switch y := p.y[row*n : (row+1)*n]; {
			case right && left:
				f.Rows(y, xa[i:i+n], xb[j:j+n])
			case right:
				f.Right(y, xa[i:i+n], xb[j])
			case left:
				f.Left(y, xb[j:j+n], xa[i])
			default:
				f.Rows(y[:1], xa[i:i+1], xb[j:j+1])
				fill(y, y[0])
			}
			i, j = i+di, j+dj
		}
	}
	for row := from; n > blockSize && row < to; row++ {
		y, a, b := p.y[row*n:(row+1)*n], xa[p.b.At(p.i, row):], xb[p.b.At(p.j, row):]
		for lo, hi := range ops.Blocks(w.Steps, n, broadcastItem) {
			switch y := y[lo:hi]; {
			case right && left:
				f.Rows(y, a[lo:hi], b[lo:hi])
			case right:
				f.Right(y, a[lo:hi], b[0])
			case left:
				f.Left(y, b[lo:hi], a[0])
			default:
				f.Rows(y[:1], a[:1], b[:1])
				fill(y, y[0])
			}
		}
	}
}

func fill(y []float32, v float32) {
	for i := range y {
		y[i] = v
	}
}

// blocks computes a row of any program.
func (p *broadcastPass) blocks(w *record.Workspace, y []float32, row int) {
	b := takeBlocks()
	defer b.release()
	for lo := 0; lo < len(y); lo += blockSize {
		n := min(blockSize, len(y)-lo)
		w.Steps.Step(n)
		for i := range p.registers {
			b.v[i] = b.registers[i][:n]
		}
		for i := range p.x {
			at, x := p.registers+i, p.x[i][p.b.At(i, row):]
			if p.b.Unit[i] {
				b.v[at] = x[lo : lo+n]
				continue
			}
			b.v[at] = b.registers[at][:n]
			fill(b.v[at], x[0])
		}
		p.compute(y[lo:lo+n], &b.v, n)
	}
}
