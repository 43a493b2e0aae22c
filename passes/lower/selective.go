package lower

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// overSteps is a recurrence that becomes an ONNX Scan over axis 1 of in.
type overSteps struct {
	states, in []*ir.Value
	backward   bool
	// step returns the states after a step, and its output.
	step func(b *ir.Builder, states, in []*ir.Value) (next []*ir.Value, y *ir.Value)
}

// scan adds the Scan of a recurrence. The results are the states after the last step, and the outputs of all.
func (l *lowerer) scan(r overSteps) (last []*ir.Value, y *ir.Value) {
	if l.Err() != nil {
		return slices.Repeat([]*ir.Value{failed}, len(r.states)), failed
	}
	prefix := l.Unique("step")
	b := l.Sub("step")
	var states, in []*ir.Value
	for i, v := range r.states {
		states = append(states, b.Input(fmt.Sprint(prefix, ".state", i), ir.Tensor(v.Elem(), anyOf(v.Shape())...)))
	}
	for i, v := range r.in {
		shape := slices.Delete(anyOf(v.Shape()), 1, 2)
		in = append(in, b.Input(fmt.Sprint(prefix, ".in", i), ir.Tensor(v.Elem(), shape...)))
	}
	next, out := r.step(b, states, in)
	for _, v := range next {
		b.Output("", v)
	}
	if slices.Contains(next, out) || slices.Contains(states, out) {
		out = b.Op("", "Identity", []*ir.Value{out})
	}
	b.Output("", out)
	body, err := b.Build()
	if err != nil {
		l.Fail(err)
		return slices.Repeat([]*ir.Value{failed}, len(r.states)), failed
	}
	attrs := []ir.Attr{ir.A("body", body), ir.A("num_scan_inputs", len(r.in)),
		ir.A("scan_input_axes", slices.Repeat([]int64{1}, len(r.in))), ir.A("scan_output_axes", []int64{1})}
	if r.backward {
		attrs = append(attrs, ir.A("scan_input_directions", slices.Repeat([]int64{1}, len(r.in))),
			ir.A("scan_output_directions", []int64{1}))
	}
	outs := l.several("Scan", len(r.states)+1, slices.Concat(r.states, r.in), attrs...)
	return outs[:len(r.states)], outs[len(r.states)]
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
	last, y := l.scan(overSteps{states: []*ir.Value{l.stateBefore(n.In(2), v, states)}, in: []*ir.Value{f, v},
		step: func(b *ir.Builder, states, in []*ir.Value) (next []*ir.Value, y *ir.Value) {
			y = b.Op("", "Add", []*ir.Value{b.Op("", "Mul", []*ir.Value{in[0], states[0]}), in[1]})
			return []*ir.Value{y}, y
		}})
	return l.stepOutputs(n, last[0], y)
}

// lowerSelectiveScan lowers essm.SelectiveScan to an ONNX Scan, with the state in float64. It has the shape (samples,
// groups, heads of a group, features of a head, states).
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
	before := l.stateBefore(n.In(6), n.Inputs[0], groups, together, per, states)
	end, y := l.scan(overSteps{states: []*ir.Value{before}, in: in,
		step: func(b *ir.Builder, before, in []*ir.Value) (after []*ir.Value, y *ir.Value) {
			op := func(name string, in ...*ir.Value) *ir.Value { return b.Op("", name, slices.Clone(in)) }
			as := func(v *ir.Value, sizes ...int64) *ir.Value {
				return op("Reshape", v, b.Ints(append([]int64{0}, sizes...)...))
			}
			decay := op("Exp", op("Mul", as(in[1], heads, 1), rate))
			x, step := as(in[0], groups, together, per), as(in[1], groups, together, 1)
			enter := op("Mul", op("Unsqueeze", op("Mul", step, x), b.Ints(4)), as(in[2], groups, 1, 1, states))
			next := op("Add", op("Mul", as(decay, groups, together, 1, columns), before[0]), enter)
			y = op("ReduceSum", op("Mul", next, as(in[3], groups, 1, 1, states)), b.Ints(4))
			y = as(y, groups, together, per)
			if direct != nil {
				y = op("Add", y, op("Mul", x, direct))
			}
			return []*ir.Value{next}, as(y, features)
		}})
	return l.stepOutputs(n, end[0], y)
}
