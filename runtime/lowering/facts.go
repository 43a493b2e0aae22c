package lowering

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Timed reports whether the graph declares its time dimension, so that values have facts along it.
func (p *Program) Timed() bool { return p.facts != nil }

// Fact returns the fact of v along time. It is the zero Fact for values that do not vary along it, and if the graph
// is not Timed.
func (p *Program) Fact(v *Value) ir.Fact {
	if p.facts == nil {
		return ir.Fact{}
	}
	return p.facts[v.ID]
}

// along returns the facts of all values along time, or nil if the graph does not declare its time. It sets
// Step.Alone.
func (p *Program) along(c *ir.EvalCtx) []ir.Fact {
	inputs := ops.TimeInputs(p.Graph)
	if inputs == nil {
		return nil
	}
	all := make([]ir.Fact, len(p.Values))
	for i, v := range p.Graph.Inputs {
		all[p.Inputs[i].ID] = inputs[v]
	}
	for _, s := range p.Steps {
		args := s.Args()
		c.Step(64 * (4 + len(s.Out)))
		in, varies := make([]ir.Fact, len(args)), false
		for i, v := range args {
			if c.Step(64); v != nil {
				in[i] = all[v.ID]
			}
		}
		for _, c := range s.Captures {
			in = append(in, all[c.Outer.ID])
		}
		for _, f := range in {
			c.Step(4)
			varies = varies || !f.Constant()
		}
		if !varies {
			continue
		}
		for i, f := range stepFacts(s, in) {
			c.Step(16)
			if i < len(s.Out) && s.Out[i] != nil {
				all[s.Out[i].ID] = f
			}
		}
		for i := range in { // the step's own part
			in[i].Back, in[i].Ahead, in[i].Summary = 0, 0, false
		}
		if out := stepFacts(s, in); len(out) > 0 {
			s.Alone = out[0]
		}
	}
	return all
}

// stepFacts returns the facts of a step's outputs. in has the facts of its inputs and then of its captures.
func stepFacts(s *Step, in []ir.Fact) []ir.Fact {
	if len(s.Captures) == 0 {
		return ops.Along(s.Node, in)
	}
	out, f := make([]ir.Fact, len(s.Out)), ops.Global(s.Node, in)
	for i := range out {
		s.Node.Step(1)
		out[i] = f
	}
	return out
}

// Along returns the number of samples of a sequence, of steps per sample, and of elements per step. It returns false
// if v is not a sequence along time.
func (d *Binding) Along(v *Value) (batch, length, width int, ok bool) {
	if d.Program.facts == nil || v == nil {
		return 0, 0, 0, false
	}
	f, shape := d.Program.Fact(v), d.Shape(v)
	if f.Constant() || f.Global || f.Axis < 0 || f.Axis >= len(shape) {
		return 0, 0, 0, false
	}
	batch, width = Runs(shape, f.Axis)
	return batch, shape[f.Axis], width, true
}
