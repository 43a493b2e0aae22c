package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Scan8 is the first version of Scan. The first axis of all inputs and outputs is the batch, the second axis of scanned
// ones is time, and samples may have different lengths.
var Scan8 = ops.Register(&ir.Op{
	Name: "Scan", Since: 8,
	Doc: "Runs body(states…, one step of each scan input…) → (states…, scan elements…) for each step of each sample. " +
		"The outputs are the last states, and the scan elements of all steps, with zeros after the end of a sample.",
	In: []ir.Param{{Name: "sequence_lens", Elem: "int64", Optional: true},
		{Name: "initial_state_and_scan_inputs", Elem: "V", Variadic: true}},
	Out: []ir.Param{{Name: "final_state_and_scan_outputs", Elem: "V", Variadic: true}}, Elems: elems("V", ops.Any),
	Attrs: []ir.AttrSpec{
		graphAttr("body", "graph of a step"), {Name: "num_scan_inputs", Kind: ir.AttrInt, Required: true,
			Doc: "number of scanned inputs, which are the last ones"},
		intsAttr("directions", "0 forward, 1 backward, of each scan input (default 0)"),
	},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		p, err := planScan8(n)
		if err != nil {
			return nil, err
		}
		batch, steps := ir.Unknown, ir.Unknown
		for i := range p.ins {
			t := tensorIn(n, 1+p.states+i)
			if t == nil {
				return nil, fmt.Errorf("input %d is not a tensor", 1+p.states+i)
			}
			if len(t.Shape) >= 2 && steps.IsUnknown() {
				batch, steps = t.Shape[0], t.Shape[1]
			}
		}
		out := make([]ir.Type, p.states+p.outs)
		for i := range out {
			n.Step(4)
			t, ok := ir.AsTensor(p.body.Outputs[i].Type)
			if !ok {
				return nil, fmt.Errorf("output %d of the body is not a tensor", i)
			}
			lead := ir.Shape{batch}
			if i >= p.states {
				lead = append(lead, steps)
			}
			if out[i] = noRank(t.Elem); !t.NoRank {
				out[i] = typed(t.Elem, append(lead, t.Shape...))
			}
		}
		return out, nil
	},
	Eval: evalScan8, NoGradient: subgraphs, Tol: ir.Exact,
})

// planScan8 reads the attributes. Inputs are numbered from the one after sequence_lens.
func planScan8(n *ir.Node) (p scanPlan, err error) {
	if len(n.Inputs) < 2 {
		return p, fmt.Errorf("expected sequence_lens, which may be absent, and an input to scan; found %d inputs",
			len(n.Inputs))
	}
	attrs := n.Attrs.Without("directions")
	if d := n.Attrs.Ints("directions", nil); d != nil {
		attrs = attrs.With("scan_input_directions", d)
	}
	return planScan(&ir.Node{Op: n.Op, Inputs: n.Inputs[1:], Attrs: attrs})
}

func evalScan8(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	p, err := planScan8(c.Node)
	if err != nil {
		return nil, err
	}
	if len(in) != 1+p.states+p.ins {
		return nil, fmt.Errorf("expected %d inputs, found %d", 1+p.states+p.ins, len(in))
	}
	lens, err := ints(c, in, 0)
	if err != nil {
		return nil, err
	}
	args := make([]*tensor.Tensor, p.states+p.ins)
	batch, steps := -1, -1
	for i := range args {
		if args[i], err = need(in, 1+i, "state or scan input"); err != nil {
			return nil, err
		}
		t := args[i]
		if t.Rank() < 1 || batch >= 0 && t.Dim(0) != batch {
			return nil, fmt.Errorf("input %d is %s, expected %d samples", 1+i, t, batch)
		}
		batch = t.Dim(0)
		if i < p.states {
			continue
		}
		if t.Rank() < 2 || steps >= 0 && t.Dim(1) != steps {
			return nil, fmt.Errorf("input %d is %s, expected %d steps", 1+i, t, steps)
		}
		steps = t.Dim(1)
	}
	if lens != nil && len(lens) != batch {
		return nil, fmt.Errorf("sequence_lens has %d numbers for %d samples", len(lens), batch)
	}
	rows := make([][]*tensor.Tensor, p.states+p.outs)
	for b := range batch {
		c.Step(1)
		length := steps
		if lens != nil {
			if lens[b] < 0 || lens[b] > int64(steps) {
				return nil, fmt.Errorf("sequence_lens[%d] is %d of %d steps", b, lens[b], steps)
			}
			length = int(lens[b])
		}
		out, err := scanSample(c, p, args, b, length, steps)
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", b, err)
		}
		for i, t := range out {
			rows[i] = append(rows[i], t)
		}
	}
	out := make([]tensor.Datum, p.states+p.outs)
	for i, r := range rows {
		if len(r) == 0 {
			return nil, fmt.Errorf("there is no sample")
		}
		if out[i], err = stack(c, r, 0, false); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scanSample runs the first length steps of one sample, and pads the results to steps.
func scanSample(c *ir.EvalCtx, p scanPlan, args []*tensor.Tensor, b, length, steps int) ([]*tensor.Tensor, error) {
	state := make([]tensor.Datum, p.states)
	for i := range state {
		state[i] = step(c, args[i], 0, b)
	}
	results := newStacks(p.outs)
	for t := range length {
		c.Step(1)
		mark := c.Charged()
		in := append([]tensor.Datum{}, state...)
		for i := range p.ins {
			at := t
			if p.inDirs[i] != 0 {
				at = length - 1 - t
			}
			in = append(in, step(c, step(c, args[p.states+i], 0, b), 0, at))
		}
		out, err := call(c, p.body, in)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
		c.Discharge(mark)
		state = out[:p.states:p.states]
		if err := results.push(c, out[p.states:]); err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
	}
	var out []*tensor.Tensor
	for i := range p.states {
		t, err := need(state, i, "state")
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	for i := range p.outs {
		t, err := results.join(c, i, 0, false, p.body.Outputs[p.states+i].Type)
		if err != nil {
			return nil, err
		}
		if length < steps {
			shape := append([]int{steps}, t.Shape()[1:]...)
			padded, err := alloc(c, t.DType(), shape)
			if err != nil {
				return nil, err
			}
			newMover(c, padded, t).copy(0, 0, t.Len())
			t = padded
		}
		out = append(out, t)
	}
	return out, nil
}
