package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// along carries facts along the time dimension that the graph declares through the steps; nil where it declares none.
func (p *lprogram) along() []ir.Fact {
	facts := ops.TimeFacts(p.graph)
	if facts == nil {
		return nil
	}
	all := make([]ir.Fact, len(p.values))
	for i, v := range p.graph.Inputs {
		all[p.inputs[i].id] = facts.Of(v)
	}
	for _, s := range p.steps {
		args := s.args()
		in, varies := make([]ir.Fact, len(args)), false
		for i, v := range args {
			if v != nil {
				in[i] = all[v.id]
			}
		}
		for _, c := range s.captures {
			in = append(in, all[c.val.id])
		}
		for _, f := range in {
			varies = varies || !f.Constant()
		}
		if !varies {
			continue
		}
		for i, f := range stepFacts(s, in) {
			if i < len(s.out) && s.out[i] != nil {
				all[s.out[i].id] = f
			}
		}
		for i := range in { // what the step itself adds
			in[i].Back, in[i].Ahead, in[i].Summary = 0, 0, false
		}
		if out := stepFacts(s, in); len(out) > 0 {
			s.alone = out[0]
		}
	}
	return all
}

// stepFacts gives the facts of a step's outputs; in has those of captures at its end.
func stepFacts(s *step, in []ir.Fact) []ir.Fact {
	if len(s.captures) == 0 {
		return ops.Along(s.node, in)
	}
	out := make([]ir.Fact, len(s.out))
	for i := range out {
		out[i] = ops.Global(s.node, in)
	}
	return out
}

// along says how a value lies along time: for each sample, steps of width numbers.
func (d *lbinding) along(v *value) (batch, length, width int, ok bool) {
	if d.p.time == nil || v == nil {
		return 0, 0, 0, false
	}
	f, shape := d.p.time[v.id], d.shapes[v.id]
	if f.Constant() || f.Global || f.Axis < 0 || f.Axis >= len(shape) {
		return 0, 0, 0, false
	}
	batch, width = runs(shape, f.Axis)
	return batch, shape[f.Axis], width, true
}
