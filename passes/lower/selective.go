package lower

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// scan adds an ONNX Scan over axis 1 of in, with one state. step returns the state after a step, and its output. The
// results are the state after the last step, and the outputs of all.
func (l *lowerer) scan(state *ir.Value, in []*ir.Value,
	step func(b *ir.Builder, state *ir.Value, in []*ir.Value) (next, y *ir.Value)) (last, y *ir.Value) {
	if l.Err() != nil {
		return failed, failed
	}
	prefix := l.Unique("step")
	b := l.Sub("step")
	s := b.Input(prefix+".state", ir.Tensor(state.Elem(), anyOf(state.Shape())...))
	var parts []*ir.Value
	for i, v := range in {
		shape := slices.Delete(anyOf(v.Shape()), 1, 2)
		parts = append(parts, b.Input(fmt.Sprint(prefix, ".in", i), ir.Tensor(v.Elem(), shape...)))
	}
	next, out := step(b, s, parts)
	b.Output("", next)
	if out == next {
		out = b.Op("", "Identity", []*ir.Value{next})
	}
	b.Output("", out)
	body, err := b.Build()
	if err != nil {
		l.Fail(err)
		return failed, failed
	}
	ones := slices.Repeat([]int64{1}, len(in))
	outs := l.several("Scan", 2, append([]*ir.Value{state}, in...), ir.A("body", body), ir.A("num_scan_inputs", len(in)),
		ir.A("scan_input_axes", ones), ir.A("scan_output_axes", []int64{1}))
	return outs[0], outs[1]
}

// anyOf returns the known sizes of a shape, and unknown ones.
func anyOf(s ir.Shape) []any {
	var all []any
	for _, d := range s {
		if n, ok := d.Known(); ok {
			all = append(all, int(n))
		} else {
			all = append(all, ir.Unknown)
		}
	}
	return all
}

// stateBefore returns a state (samples, numbers) as (samples, sizes…) in float64; zeros without one. x has the samples.
func (l *lowerer) stateBefore(state, x *ir.Value, sizes ...int64) *ir.Value {
	if state != nil {
		return l.op("Reshape", l.wide(state), l.Ints(append([]int64{-1}, sizes...)...))
	}
	samples := l.with("Gather", []*ir.Value{l.op("Shape", x), l.Ints(0)}, ir.A("axis", 0))
	shape := l.with("Concat", []*ir.Value{samples, l.Ints(sizes...)}, ir.A("axis", 0))
	return l.with("ConstantOfShape", []*ir.Value{shape}, ir.A("value", tensor.FromSlice([]float64{0}, 1)))
}

// stepOutputs casts the results of steps to the types of n's outputs. The state becomes (samples, numbers).
func (l *lowerer) stepOutputs(n *ir.Node, last, y *ir.Value) []*ir.Value {
	outs := []*ir.Value{l.with("Cast", []*ir.Value{y}, ir.A("to", int(n.Outputs[0].Elem()))), nil}
	if v := n.Out(1); v != nil {
		outs[1] = l.with("Cast", []*ir.Value{l.op("Reshape", last, l.Ints(0, -1))}, ir.A("to", int(v.Elem())))
	}
	return outs
}

// lowerGatedScan lowers essm.GatedScan to an ONNX Scan, with the state in float64.
func lowerGatedScan(l *lowerer, n *ir.Node) []*ir.Value {
	f, v := l.wide(n.Inputs[0]), l.wide(n.Inputs[1])
	states, ok := v.Shape()[2].Known()
	if !ok {
		l.Fail(fmt.Errorf("expected a known number of features, found %v", v.Shape()))
		return []*ir.Value{failed, failed}
	}
	last, y := l.scan(l.stateBefore(n.In(2), v, states), []*ir.Value{f, v},
		func(b *ir.Builder, state *ir.Value, in []*ir.Value) (next, y *ir.Value) {
			next = b.Op("", "Add", []*ir.Value{b.Op("", "Mul", []*ir.Value{in[0], state}), in[1]})
			return next, next
		})
	return l.stepOutputs(n, last, y)
}

// lowerSelectiveScan lowers essm.SelectiveScan to an ONNX Scan, with the state in float64. It has the shape (samples, groups,
// heads of a group, features of a head, states).
func lowerSelectiveScan(l *lowerer, n *ir.Node) []*ir.Value {
	last := func(i int) int64 {
		s := n.Inputs[i].Shape()
		size, ok := s[len(s)-1].Known()
		if !ok {
			l.Fail(fmt.Errorf("%s: expected a known number of features, found %v", essm.SelectiveScan.In[i].Name, s))
		}
		return size
	}
	features, heads, columns, shared := last(0), last(1), last(2), last(3)
	if l.Err() != nil {
		return []*ir.Value{failed, failed}
	}
	groups := n.Attrs.Int("groups", 1)
	together, per, states := heads/groups, features/heads, shared/groups
	rate, direct := l.as(n.Inputs[2], tensor.Float64), l.as(n.In(5), tensor.Float64)
	if direct != nil {
		direct = l.flattened(direct, int(groups), int(together), 1)
	}
	var in []*ir.Value
	for _, i := range []int{0, 1, 3, 4} {
		in = append(in, l.wide(n.Inputs[i]))
	}
	end, y := l.scan(l.stateBefore(n.In(6), n.Inputs[0], groups, together, per, states), in,
		func(b *ir.Builder, state *ir.Value, in []*ir.Value) (next, y *ir.Value) {
			op := func(name string, in ...*ir.Value) *ir.Value { return b.Op("", name, slices.Clone(in)) }
			as := func(v *ir.Value, sizes ...int64) *ir.Value {
				return op("Reshape", v, b.Ints(append([]int64{0}, sizes...)...))
			}
			decay := op("Exp", op("Mul", as(in[1], heads, 1), rate))
			x, step := as(in[0], groups, together, per), as(in[1], groups, together, 1)
			enter := op("Mul", op("Unsqueeze", op("Mul", step, x), b.Ints(4)), as(in[2], groups, 1, 1, states))
			next = op("Add", op("Mul", as(decay, groups, together, 1, columns), state), enter)
			y = op("ReduceSum", op("Mul", next, as(in[3], groups, 1, 1, states)), b.Ints(4))
			y = as(y, groups, together, per)
			if direct != nil {
				y = op("Add", y, op("Mul", x, direct))
			}
			return next, as(y, features)
		})
	return l.stepOutputs(n, end, y)
}
