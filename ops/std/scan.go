package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Scan runs a subgraph over the steps of its inputs.
var Scan = ops.Register(&ir.Op{
	Name: "Scan", Since: 24,
	Doc: "Runs body(states…, one step of each scan input…) → (states…, scan elements…) for each step. The outputs " +
		"are the last states, and the scan elements of all steps, stacked. A direction of 1 starts at the end.",
	In:  []ir.Param{{Name: "initial_state_and_scan_inputs", Elem: "V", Variadic: true}},
	Out: []ir.Param{{Name: "final_state_and_scan_outputs", Elem: "V", Variadic: true}}, Elems: elems("V", ops.Any),
	Attrs: []ir.AttrSpec{
		graphAttr("body", "graph of a step"), {Name: "num_scan_inputs", Kind: ir.AttrInt, Required: true,
			Doc: "number of scanned inputs, which are the last ones"},
		intsAttr("scan_input_axes", "the axis of each scan input (default 0)"),
		intsAttr("scan_input_directions", "0 forward, 1 backward, of each scan input (default 0)"),
		intsAttr("scan_output_axes", "the new axis of each scan output (default 0)"),
		intsAttr("scan_output_directions", "0 append, 1 prepend, of each scan output (default 0)"),
	},
	Infer: inferScan, Eval: evalScan, Along: alongScan, NoGradient: subgraphs, Tol: ir.Exact,
})

type scanPlan struct {
	body                   *ir.Graph
	states, ins, outs      int
	inAxes, inDirs         []int64
	outAxes, outDirections []int64
}

func planScan(n *ir.Node) (p scanPlan, err error) {
	p.body = n.Attrs.Graph("body")
	k := n.Attrs.Int("num_scan_inputs", 0)
	if k < 1 || k > int64(len(n.Inputs)) {
		return p, fmt.Errorf("num_scan_inputs is %d, the node has %d inputs", k, len(n.Inputs))
	}
	p.ins = int(k)
	p.states = len(n.Inputs) - p.ins
	p.outs = len(p.body.Outputs) - p.states
	if len(p.body.Inputs) != len(n.Inputs) || p.outs < 0 {
		return p, fmt.Errorf(
			"the body has %d inputs and %d outputs, the node %d inputs of which %d are states, which do not match",
			len(p.body.Inputs), len(p.body.Outputs), len(n.Inputs), p.states)
	}
	for _, l := range []struct {
		name string
		n    int
		to   *[]int64
	}{{"scan_input_axes", p.ins, &p.inAxes}, {"scan_input_directions", p.ins, &p.inDirs},
		{"scan_output_axes", p.outs, &p.outAxes}, {"scan_output_directions", p.outs, &p.outDirections}} {
		if *l.to = n.Attrs.Ints(l.name, make([]int64, l.n)); len(*l.to) != l.n {
			return p, fmt.Errorf("%s: expected %d numbers, found %v", l.name, l.n, *l.to)
		}
	}
	return p, nil
}

func inferScan(n *ir.Node) ([]ir.Type, error) {
	p, err := planScan(n)
	if err != nil {
		return nil, err
	}
	steps := ir.Unknown
	for i := range p.ins {
		t := tensorIn(n, p.states+i)
		if t == nil {
			return nil, fmt.Errorf("input %d is not a tensor", p.states+i)
		}
		if t.NoRank {
			continue
		}
		a, err := ops.Axis(p.inAxes[i], len(t.Shape))
		if err != nil {
			return nil, err
		}
		if steps.IsUnknown() {
			steps = t.Shape[a]
		}
	}
	out := make([]ir.Type, p.states+p.outs)
	for i := range out {
		n.Step(4)
		t, ok := ir.AsTensor(p.body.Outputs[i].Type)
		if !ok {
			return nil, fmt.Errorf("output %d of the body is not a tensor", i)
		}
		if i < p.states {
			init := tensorIn(n, i)
			if init == nil {
				return nil, fmt.Errorf("input %d is not a tensor", i)
			}
			if t, err = ops.UnionShape(init, t); err != nil {
				return nil, fmt.Errorf("state %d: %w", i, err)
			}
			out[i] = t
			continue
		}
		if out[i] = noRank(t.Elem); t.NoRank {
			continue
		}
		a, err := ops.Axis(p.outAxes[i-p.states], len(t.Shape)+1)
		if err != nil {
			return nil, err
		}
		s := append(append(append(ir.Shape{}, t.Shape[:a]...), steps), t.Shape[a:]...)
		out[i] = typed(t.Elem, s)
	}
	return out, nil
}

// alongScan returns the facts of a Scan: along a scanned axis, the states are a summary of the past. Any other axis
// moves as in the body, if the states end with it where they started.
func alongScan(n *ir.Node, in []ir.Fact) []ir.Fact {
	p, err := planScan(n)
	if err != nil {
		return spread(n, ops.Global(n, in))
	}
	var f ir.Fact
	scanned, other := false, false
	for i, g := range in {
		n.Step(1)
		switch {
		case g.Constant():
			continue
		case g.Global || g.Axis < 0 || !f.Constant() && f.Stride != g.Stride:
			return spread(n, ops.Global(n, in))
		case i >= p.states:
			a, err := ops.Axis(p.inAxes[i-p.states], len(n.In(i).Shape()))
			if err != nil {
				return spread(n, ops.Global(n, in))
			}
			scanned, other = scanned || a == g.Axis, other || a != g.Axis
		default:
			other = true
		}
		if f.Constant() {
			f = g
		}
		f.Back, f.Ahead = max(f.Back, g.Back), max(f.Ahead, g.Ahead)
	}
	switch {
	case f.Constant():
		return spread(n, f)
	case other && scanned:
		return spread(n, ops.Global(n, in))
	case other:
		return alongScanBody(n, in, p)
	}
	f.State = 0
	for i, g := range in[p.states:] {
		if p.inDirs[i] != 0 || g.Constant() {
			return spread(n, ops.Global(n, in))
		}
	}
	f.Back, f.Summary, f.Cause = ir.Unbounded, true, n
	out := spread(n, f)
	for i := range out {
		if n.Step(4); i < p.states {
			out[i].Axis = -1
			out[0].State += stateSize(n.In(i).Shape())
			continue
		}
		t, ok := ir.AsTensor(p.body.Outputs[i].Type)
		if !ok || t.NoRank || p.outDirections[i-p.states] != 0 {
			return spread(n, ops.Global(n, in))
		}
		if out[i].Axis, err = ops.Axis(p.outAxes[i-p.states], len(t.Shape)+1); err != nil {
			return spread(n, ops.Global(n, in))
		}
	}
	return out
}

func alongScanBody(n *ir.Node, in []ir.Fact, p scanPlan) []ir.Fact {
	seed := map[*ir.Value]ir.Fact{}
	for i, f := range in {
		n.Step(2)
		f.State = 0
		if i >= p.states && !f.Constant() {
			if a, err := ops.Axis(p.inAxes[i-p.states], len(n.In(i).Shape())); err == nil && a < f.Axis {
				f.Axis--
			}
		}
		seed[p.body.Inputs[i]] = f
	}
	of := func(v *ir.Value) ir.Fact { return seed[v] }
	for range 2 { // a state that starts as a constant may have the body's axis after the first step
		facts := ops.Propagate(p.body, seed)
		of = func(v *ir.Value) ir.Fact { return facts[v] }
		for i := range p.states {
			n.Step(4)
			if v := p.body.Inputs[i]; seed[v].Constant() {
				seed[v] = facts[p.body.Outputs[i]]
			}
		}
	}
	out := make([]ir.Fact, len(n.Outputs))
	for i := range out {
		n.Step(4)
		f := of(p.body.Outputs[i])
		if i < p.states && (f.Axis != seed[p.body.Inputs[i]].Axis ||
			f.Constant() != seed[p.body.Inputs[i]].Constant()) || f.Global || f.Axis < 0 && !f.Constant() {
			return spread(n, ops.Global(n, in))
		}
		if i >= p.states && !f.Constant() {
			a, err := ops.Axis(p.outAxes[i-p.states], len(p.body.Outputs[i].Shape())+1)
			if err != nil {
				return spread(n, ops.Global(n, in))
			}
			if f.Axis >= a {
				f.Axis++
			}
		}
		out[i] = f
	}
	return out
}

func evalScan(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	p, err := planScan(c.Node)
	if err != nil {
		return nil, err
	}
	if len(in) != p.states+p.ins {
		return nil, fmt.Errorf("expected %d inputs, found %d", p.states+p.ins, len(in))
	}
	axes, steps := ops.Make[int](c, p.ins), -1
	for i := range axes {
		x, err := need(in, p.states+i, "scan input")
		if err != nil {
			return nil, err
		}
		if axes[i], err = ops.Axis(p.inAxes[i], x.Rank()); err != nil {
			return nil, err
		}
		if d := x.Dim(axes[i]); steps >= 0 && d != steps {
			return nil, fmt.Errorf("scan inputs have %d and %d steps", steps, d)
		}
		steps = x.Dim(axes[i])
	}
	state := append([]tensor.Datum{}, in[:p.states]...)
	results := newStacks(p.outs)
	for t := range steps {
		c.Step(1)
		mark := c.Charged()
		args := append([]tensor.Datum{}, state...)
		for i, a := range axes {
			at := t
			if p.inDirs[i] != 0 {
				at = steps - 1 - t
			}
			args = append(args, step(c, ops.Tensor(in, p.states+i), a, at))
		}
		out, err := call(c, p.body, args)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
		c.Discharge(mark)
		state = out[:p.states:p.states]
		if err := results.push(c, out[p.states:]); err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
	}
	for i := range p.outs {
		t, err := results.join(c, i, p.outAxes[i], p.outDirections[i] != 0, p.body.Outputs[p.states+i].Type)
		if err != nil {
			return nil, err
		}
		state = append(state, t)
	}
	return state, nil
}

// step returns the slice of x at an index of an axis, without that axis. The index is in range.
func step(c *ir.EvalCtx, x *tensor.Tensor, axis, at int) *tensor.Tensor {
	s := x.Shape()
	out := ops.New(c, x.DType(), append(s[:axis:axis], s[axis+1:]...)...)
	outer, n, inner := splitAt(s, axis)
	m := newMover(c, out, x)
	for o := range ops.Each(c, outer) {
		m.copy(o*inner, (o*n+at)*inner, inner)
	}
	return out
}
