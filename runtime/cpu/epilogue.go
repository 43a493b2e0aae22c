package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// epilogue is what steps behind a convolution do to each of its numbers: it is done block by block, while the numbers are in
// the cache, and what lies between the steps is never written.
type epilogue struct {
	steps []*lowering.Step
	ops   []epilogueOp
}

// epilogueOp is one of the steps. Exactly one field is set; with exchanged, the numbers are the operator's second operand.
type epilogueOp struct {
	unary     func(y, x []float32)
	number    func(y, x []float32) // the other operand is one number
	channels  []float32            // or one for each channel
	operand   *lowering.Value      // or a tensor of the same shape
	f         arithmetic           // of channels and operand
	exchanged bool
}

// maxEpilogue bounds how many steps one kernel takes along.
const maxEpilogue = 16

// epilogueOf collects the steps behind s that treat its output number by number, each the only reader of the one before. Their
// other operands must have been computed before s. Nil: there are none.
func (d *binding) epilogueOf(s *lowering.Step) *epilogue {
	if len(s.Out) == 0 || !d.Gives(s, 0, tensor.Float32) {
		return nil
	}
	shape := d.Shapes[s.Out[0].ID]
	if len(shape) < 2 {
		return nil
	}
	at := slices.Index(d.p.Steps, s)
	e := &epilogue{}
	for v := s.Out[0]; len(e.steps) < maxEpilogue; v = e.steps[len(e.steps)-1].Out[0] {
		if len(d.Reads[v.ID]) == 0 || d.Last[v.ID] == len(d.p.Steps) || d.Given[v] {
			break
		}
		next := d.Reads[v.ID][0]
		for _, r := range d.Reads[v.ID] {
			if r != next {
				next = nil
				break
			}
		}
		if next == nil || of(next).row == nil && of(next).kernel == nil || len(next.Out) != 1 || next.Out[0] == nil || !d.Gives(next, 0, tensor.Float32) ||
			!slices.Equal(d.Shapes[next.Out[0].ID], shape) {
			break
		}
		op, ok := d.epilogueOp(next, v, shape, at)
		if !ok {
			break
		}
		e.steps, e.ops = append(e.steps, next), append(e.ops, op)
	}
	if len(e.steps) == 0 {
		return nil
	}
	return e
}

// epilogueOp says what a step does to v, which has the given shape; at is where in the program it would be done.
func (d *binding) epilogueOp(s *lowering.Step, v *lowering.Value, shape []int, at int) (op epilogueOp, ok bool) {
	if s.Node.Op.Domain != "" {
		return op, false
	}
	if mk := unaries[s.Node.Op.Name]; mk != nil {
		op.unary = mk(s)
		return op, op.unary != nil && len(s.In) > 0 && s.In[0] == v
	}
	f, ok := arithmetics[s.Node.Op.Name]
	if !ok || len(s.In) != 2 || s.In[0] == nil || s.In[1] == nil || !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) {
		return op, false
	}
	other := s.In[1]
	if op.exchanged = other == v; op.exchanged {
		other = s.In[0]
	}
	if other == v {
		return op, false
	}
	os := d.Shapes[other.ID]
	k := d.Constant(other)
	switch {
	case k != nil && k.Len() == 1 && len(os) <= len(shape):
		x := tensor.Data[float32](k)[0]
		if op.exchanged {
			op.number = func(y, b []float32) { f.left(y, b, x) }
		} else {
			op.number = func(y, a []float32) { f.right(y, a, x) }
		}
	case k != nil && perChannel(os, shape):
		op.channels, op.f = tensor.Data[float32](k), f
	case k == nil && slices.Equal(os, shape) && d.before(other, at):
		op.operand, op.f = other, f
	default:
		return op, false
	}
	return op, true
}

// perChannel reports whether a tensor of the first shape broadcasts to the second with one number for each place of axis 1.
func perChannel(s, to []int) bool {
	at := len(s) - len(to) + 1
	if at < 0 || len(s) > len(to) || s[at] != to[1] {
		return false
	}
	n, _ := tensor.Size(s)
	return n == to[1]
}

// before reports whether v is known before the step at the given place runs.
func (d *binding) before(v *lowering.Value, at int) bool {
	for _, s := range d.p.Steps[at:] {
		if slices.Contains(s.Out, v) {
			return false
		}
	}
	return true
}

// block is the numbers of one sample that a kernel has just computed: of rows channels, from channel on, n numbers each, stride
// apart in y from at on.
type block struct {
	at, channel, rows, n, stride int
}

// apply changes a block of y in place.
func (p *epilogue) apply(e *executable, y []float32, b block) {
	if p == nil || b.rows == 0 || b.n == 0 {
		return
	}
	joined := b
	if b.n == b.stride || b.rows == 1 {
		joined.n, joined.rows = b.n*b.rows, 1
	}
	for i := range p.ops {
		op := &p.ops[i]
		f := op.unary
		if f == nil {
			f = op.number
		}
		switch {
		case f != nil:
			for r := range joined.rows {
				row := y[joined.at+r*joined.stride:][:joined.n]
				f(row, row)
			}
		case op.operand != nil:
			other := e.buf[op.operand.ID]
			for r := range joined.rows {
				at := joined.at + r*joined.stride
				op.join(y[at:at+joined.n], other[at:at+joined.n])
			}
		case b.n == 1 && b.stride == 1:
			op.join(y[b.at:b.at+b.rows], op.channels[b.channel:b.channel+b.rows])
		default:
			for r := range b.rows {
				row := y[b.at+r*b.stride:][:b.n]
				if c := op.channels[b.channel+r]; op.exchanged {
					op.f.left(row, row, c)
				} else {
					op.f.right(row, row, c)
				}
			}
		}
	}
}

// join computes y = f(y, other), or f(other, y).
func (op *epilogueOp) join(y, other []float32) {
	if op.exchanged {
		op.f.rows(y, other, y)
	} else {
		op.f.rows(y, y, other)
	}
}

// epilogueBlock is how many numbers of a channel are computed before the epilogue runs over them, so that all channels
// together stay in the first cache: a multiple of a panel's width.
func epilogueBlock(channels int) int {
	const numbers = 1 << 12
	return max(1, numbers/max(1, channels)/kernel.PanelWidth) * kernel.PanelWidth
}

// absorb lets the kernel of a unit take along what follows it, and gives the steps that then belong to the unit.
func (u *unit) absorb(d *binding) {
	if u.kernel == nil || !u.kernel.fuses {
		return
	}
	if e := d.epilogueOf(u.steps[0]); e != nil {
		u.epilogue = e
		u.steps = append(u.steps, e.steps...)
	}
}

// result is the value that a unit of one kernel computes: behind its epilogue, where it has one.
func (u *unit) result() *lowering.Value { return u.steps[len(u.steps)-1].Out[0] }
