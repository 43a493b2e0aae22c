package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// maxEpilogue bounds the steps of an epilogue.
const maxEpilogue = 16

// epilogueOf returns the epilogue of s: the elementwise steps after it, each the only reader of the previous one.
// Their other operands must be computed before s. It returns nil if there are none.
func (d *binding) epilogueOf(s *lowering.Step) *record.Epilogue {
	if len(s.Out) == 0 || s.Out[0] == nil || !d.Gives(s, 0, tensor.Float32) {
		return nil
	}
	shape := d.Shape(s.Out[0])
	if len(shape) < 2 {
		return nil
	}
	at := d.Made(s.Out[0])
	e := &record.Epilogue{}
	for v := s.Out[0]; len(e.Steps) < maxEpilogue; v = e.Steps[len(e.Steps)-1].Out[0] {
		if len(d.Readers(v)) == 0 || d.Leaves(v) || d.Given(v) {
			break
		}
		next := d.Readers(v)[0]
		for _, r := range d.Readers(v) {
			if r != next {
				next = nil
				break
			}
		}
		if next == nil || record.Of(next).Row == nil && record.Of(next).Tensor == nil || len(next.Out) != 1 ||
			next.Out[0] == nil || !d.Gives(next, 0, tensor.Float32) ||
			!slices.Equal(d.Shape(next.Out[0]), shape) {
			break
		}
		ops := d.epilogueOps(next, v, shape, at)
		if len(ops) == 0 {
			break
		}
		e.Steps, e.Ops = append(e.Steps, next), append(e.Ops, ops...)
	}
	if len(e.Steps) == 0 {
		return nil
	}
	return e
}

// epilogueOps returns the parts of a step in an epilogue that applies it to v, of the given shape. at is the index of
// the step that has the epilogue. It returns nil if the step cannot be part of one.
func (d *binding) epilogueOps(s *lowering.Step, v *lowering.Value, shape []int, at int) (ops []record.EpilogueOp) {
	e := record.Of(s).Element
	if e == nil {
		return nil
	}
	c := e.Chain(slices.Index(s.In, v))
	if c.Function != nil {
		return []record.EpilogueOp{{Unary: c.Function}}
	}
	for i := range c.Links {
		op, ok := d.epilogueOp(s, &c.Links[i], v, shape, at)
		if !ok {
			return nil
		}
		ops = append(ops, op)
	}
	return ops
}

// epilogueOp returns a link of a step as a part of an epilogue.
func (d *binding) epilogueOp(s *lowering.Step, l *record.Link, v *lowering.Value, shape []int,
	at int) (op record.EpilogueOp, ok bool) {
	if l.Operand < 0 {
		op.Unary = l.Unary
		return op, true
	}
	f, other := l.F, s.In[l.Operand]
	if op.Exchanged = l.Exchanged; other == v || !d.Typed(s, l.Operand, tensor.Float32) {
		return op, false
	}
	os := d.Shape(other)
	k := d.Fixed(other)
	switch {
	case k != nil && k.Len() == 1 && len(os) <= len(shape):
		x := tensor.Data[float32](k) // read in each run: a settled number may change
		if op.Exchanged {
			op.Number = func(y, b []float32) { f.Left(y, b, x[0]) }
		} else {
			op.Number = func(y, a []float32) { f.Right(y, a, x[0]) }
		}
	case k != nil && lowering.PerChannel(os, shape):
		op.Channels, op.F = tensor.Data[float32](k), f
	case k == nil && slices.Equal(os, shape) && d.before(other, at):
		op.Operand, op.F = lowering.SlotOf[float32](d.Binding, other), f
	default:
		return op, false
	}
	return op, true
}

// before reports whether v is computed before step at of the program.
func (d *binding) before(v *lowering.Value, at int) bool { return d.Made(v) < at }

// absorb adds the epilogue of the unit's kernel, if it has one, to the unit.
func (u *unit) absorb(d *binding) {
	if u.kernel == nil || !u.kernel.fuses {
		return
	}
	if e := d.epilogueOf(u.steps[0]); e != nil {
		u.epilogue = e
		u.steps = append(u.steps, e.Steps...)
	}
	u.result = lowering.Output[float32](d.Binding, u.steps[len(u.steps)-1], 0)
}
