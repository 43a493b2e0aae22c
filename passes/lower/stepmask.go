package lower

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// stepNumbers returns the vector 0, 1, … below the size of an axis of x.
func (l *lowerer) stepNumbers(x *ir.Value, axis int64) *ir.Value {
	steps := l.op("Squeeze", l.with("Gather", []*ir.Value{l.op("Shape", x), l.Ints(axis)}, ir.A("axis", 0)), l.Ints(0))
	return l.op("Range", l.Const("zero", tensor.Scalar(int64(0))), steps, l.Const("one", tensor.Scalar(int64(1))))
}

// lowerStepMask lowers essm.StepMask to a comparison of step numbers and a Where.
func lowerStepMask(l *lowerer, n *ir.Node) []*ir.Value {
	x, steps, end := n.Inputs[0], n.Inputs[1], n.In(2)
	rank := len(x.Shape())
	axis, err := ops.Axis(ops.Int(n, "axis"), rank)
	if err != nil {
		l.Fail(err)
		return one(failed)
	}
	batch := int(ops.Int(n, "batch_axis"))
	rate, offset, delay := ops.Int(n, "rate"), ops.Int(n, "offset"), ops.Int(n, "delay")
	numbers := l.stepNumbers(x, int64(axis))
	if delay != 0 {
		numbers = l.op("Sub", numbers, l.Ints(delay))
	}
	first, constant := ops.ConstInts(steps)
	if whole := constant && len(first) == 1 && first[0] == 0; !whole {
		if rate != 1 {
			steps = l.op("Div", steps, l.Ints(rate))
		}
		numbers = l.op("Add", numbers, l.op("Unsqueeze", steps, l.Ints(1))) // samples, steps
	}
	var mask *ir.Value
	if end != nil {
		if offset != 0 {
			end = l.op("Add", end, l.Ints(offset))
		}
		if rate != 1 {
			end = l.op("Div", end, l.Ints(rate)) // toward 0: no step is below either way
		}
		mask = l.op("Less", numbers, l.op("Unsqueeze", end, l.Ints(1)))
	}
	if delay != 0 || mask == nil {
		after := l.op("Not", l.op("Less", numbers, l.Ints(0)))
		if mask != nil {
			after = l.op("And", after, mask)
		}
		mask = after
	}
	// mask is (steps), or (samples, steps) with samples 1 if they share it
	if len(mask.Shape()) == 2 && batch < 0 {
		mask = l.op("Squeeze", mask, l.Ints(0))
	}
	if len(mask.Shape()) == 2 && batch > axis {
		mask = l.with("Transpose", []*ir.Value{mask}, ir.A("perm", []int64{1, 0}))
	}
	var others []int64
	for i := range rank {
		if i != axis && (i != batch || len(mask.Shape()) == 1) {
			others = append(others, int64(i))
		}
	}
	if len(others) > 0 {
		mask = l.op("Unsqueeze", mask, l.Ints(others...))
	}
	return one(l.op("Where", mask, x, l.number("value", x.Elem(), []float64{n.Attrs.Float("value", 0)})))
}
