package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

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
		if next == nil || of(next).row == nil && of(next).tensor == nil || len(next.Out) != 1 || next.Out[0] == nil || !d.Gives(next, 0, tensor.Float32) ||
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
	w := of(s).element
	switch {
	case w == nil:
		return op, false
	case w.unary != nil:
		op.unary = w.unary(s)
		return op, op.unary != nil && len(s.In) > 0 && s.In[0] == v
	}
	if w.binary == nil || len(s.In) != 2 || s.In[0] == nil || s.In[1] == nil || !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) {
		return op, false
	}
	f, other := *w.binary, s.In[1]
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
