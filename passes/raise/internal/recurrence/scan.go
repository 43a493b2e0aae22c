package recurrence

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Scan recognizes linear recurrences in the operator Scan.
var Scan = &passes.Pass{
	Name: "raise-scan",
	Doc: "ONNX Scan whose body is linear in states and inputs, with constants → essm.Scan or essm.DenseScan with " +
		"projections. The matrices are computed from the body, for any choice of operators.",
	After: []passes.Reason{
		{Pass: "raise-exported", Why: "the recurrence between chunks is only a part of the layer"},
		regions.AfterUpgradeBodies,
	},
	Before: []passes.Reason{
		regions.BeforeFuse,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return eachDraft(c, g, "scan", readScan)
	},
}

// eachDraft raises every recurrence of one form in g. read returns the draft of the recurrence at a node, or nil
// without an error if the node has another form.
func eachDraft(c *passes.Context, g *ir.Graph, form string,
	read func(run *passes.Context, n *ir.Node, uses map[*ir.Value][]ir.Use) (*draft, error)) (int, error) {
	changes := 0
	var uses map[*ir.Value][]ir.Use // nil until it is computed
	for _, n := range slices.Clone(g.Nodes) {
		c.Check()
		if len(n.Subgraphs()) == 0 {
			continue
		}
		if uses == nil {
			if c.Search().Spend(regions.WorkOfWalk(g)) != nil {
				return changes, nil
			}
			uses = g.Uses()
		}
		d, err := read(c, n, uses)
		if err != nil {
			regions.NoteMiss(c, form, n, "%v", err)
		}
		if d == nil || err != nil {
			continue
		}
		uses = nil
		b := passes.Edit(g)
		b.Scope(n.Scope)
		name := n.String()
		made, err := d.raise(g, b)
		if err == nil {
			err = b.Err()
		}
		if err != nil {
			regions.NoteMiss(c, form, n, "%v", err)
			if err := passes.Finish(g); err != nil {
				return changes, err
			}
			continue
		}
		for i, v := range d.results {
			passes.Replace(g, v, made.outputs[i])
		}
		for i, v := range d.final {
			if v != nil {
				passes.Replace(g, v, made.final[i])
			}
		}
		c.Note("%s: %s is a linear recurrence, %v", form, name, made.plan)
		changes++
		if err := passes.Finish(g); err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// readScan reads a Scan node.
func readScan(run *passes.Context, n *ir.Node, uses map[*ir.Value][]ir.Use) (*draft, error) {
	if n.Op.FullName() != "Scan" || n.Op.Since < 9 { // Scan-8 has an additional axis of batches
		return nil, nil
	}
	body := n.Attrs.Graph("body")
	scanned := int(n.Attrs.Int("num_scan_inputs", 0))
	states := len(n.Inputs) - scanned
	d := &draft{run: run, node: n}
	axes := n.Attrs.Ints("scan_input_axes", make([]int64, scanned))
	dirs := n.Attrs.Ints("scan_input_directions", make([]int64, scanned))
	for i, v := range n.Inputs {
		in := body.Inputs[i]
		if i < states {
			d.states = append(d.states, stepValue{in, v.Shape()})
			d.initial = append(d.initial, v)
			d.next = append(d.next, body.Outputs[i])
			var last *ir.Value
			if o := n.Out(i); o != nil && len(uses[o]) > 0 {
				last = o
			}
			d.final = append(d.final, last)
			continue
		}
		s := v.Shape()
		axis, err := ops.Axis(axes[i-states], len(s))
		if err != nil {
			return nil, err
		}
		d.inputs = append(d.inputs, stepValue{in, slices.Delete(slices.Clone(s), axis, axis+1)})
		d.in = append(d.in, sequence{v: v, time: axis, reversed: dirs[i-states] != 0})
	}
	outs := len(body.Outputs) - states
	axes = n.Attrs.Ints("scan_output_axes", make([]int64, outs))
	dirs = n.Attrs.Ints("scan_output_directions", make([]int64, outs))
	for i, v := range body.Outputs[states:] {
		o := n.Out(states + i)
		if o == nil || len(uses[o]) == 0 {
			continue
		}
		d.outputs, d.results = append(d.outputs, v), append(d.results, o)
		d.out = append(d.out, sequence{time: int(axes[i]), reversed: dirs[i] != 0})
	}
	return d, nil
}
