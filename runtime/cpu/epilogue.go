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
	if !d.Gives(s, 0, tensor.Float32) || len(d.Shape(s.Out[0])) < 2 {
		return nil
	}
	e := &record.Epilogue{}
	for v := s.Out[0]; len(e.Steps) < maxEpilogue; v = e.Steps[len(e.Steps)-1].Out[0] {
		next := d.Sole(v)
		ops := d.epilogueOps(next, v, s.Out[0])
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

// epilogueOps returns the parts of a step that applies it to v, in the epilogue of the step that computes first. It
// returns nil if the step cannot be part of one.
func (d *binding) epilogueOps(s *lowering.Step, v, first *lowering.Value) (ops []record.EpilogueOp) {
	if s == nil || record.Of(s).Element == nil || !d.Gives(s, 0, tensor.Float32) ||
		!slices.Equal(d.Shape(s.Out[0]), d.Shape(v)) {
		return nil
	}
	c := record.Of(s).Element.Chain(slices.Index(s.In, v))
	if c.Function != nil {
		return []record.EpilogueOp{{Unary: c.Function}}
	}
	for i := range c.Links {
		op, ok := d.epilogueOp(s, &c.Links[i], v, first)
		if !ok {
			return nil
		}
		ops = append(ops, op)
	}
	return ops
}

// epilogueOp returns a link of a step as a part of an epilogue.
func (d *binding) epilogueOp(s *lowering.Step, l *record.Link,
	v, first *lowering.Value) (op record.EpilogueOp, ok bool) {
	if l.Operand < 0 {
		op.Unary = l.Unary
		return op, true
	}
	f, other := l.F, s.In[l.Operand]
	if op.Exchanged = l.Exchanged; other == v || !d.Typed(s, l.Operand, tensor.Float32) {
		return op, false
	}
	shape, k := d.Shape(v), d.Fixed(other)
	spread := lowering.SpreadOf(d.Shape(other), shape)
	switch {
	case k != nil && k.Len() == 1 && spread != lowering.General:
		x := tensor.Data[float32](k) // read in each run: a settled number may change
		if op.Exchanged {
			op.Number = func(y, b []float32) { f.Left(y, b, x[0]) }
		} else {
			op.Number = func(y, a []float32) { f.Right(y, a, x[0]) }
		}
	case k != nil && lowering.PerChannel(d.Shape(other), shape):
		op.Channels, op.F = tensor.Data[float32](k), f
	case k == nil && slices.Equal(d.Shape(other), shape) && d.Before(other, first):
		op.Operand, op.F = lowering.SlotOf[float32](d.Binding, other), f
	default:
		return op, false
	}
	return op, true
}

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
