package cpu

import (
	"fmt"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// shapesOf gives the shapes of a step's inputs and of its first output, where all of those that are there are float32
// tensors of known shape; a core's state may be float64.
func (d *binding) shapesOf(s *lowering.Step) (in [][]int, out []int, ok bool) {
	in = make([][]int, len(s.In))
	for i, v := range s.In {
		if v == nil || d.Missing(v) {
			continue
		}
		wide := of(s).core != nil && of(s).core.info().state == i && d.Wide(v)
		if d.Shapes[v.ID] == nil || v.Const == nil && !d.F32[v.ID] && !wide {
			return nil, nil, false
		}
		in[i] = d.Shapes[v.ID]
	}
	for i, v := range s.Out {
		if wide := v != nil && of(s).core != nil && of(s).core.info().stateOut == i && d.Wide(v); v != nil && !d.F32[v.ID] && !wide {
			return nil, nil, false
		}
	}
	if s.Out[0] != nil {
		out = d.Shapes[s.Out[0].ID]
	}
	return in, out, true
}

// unit is what is executed at once: a region, or a step by itself.
type unit struct {
	steps    []*lowering.Step
	region   *region // nil: one step
	whole    wholeFunc
	kernel   *boundKernel
	span     spanKernel
	temp     []float32
	subs     []*executable
	past     []runtime.StepTime // what executables that are no longer among subs have measured
	epilogue *epilogue          // steps[1:]; nil: none
}

// units cuts the steps into units.
func (d *binding) units() []*unit {
	var all []*unit
	var open *draft
	flush := func() {
		if open != nil {
			all = append(all, &unit{steps: open.steps, region: open.finish(d)})
			open = nil
		}
	}
	taken := map[*lowering.Step]bool{}
	for _, s := range d.p.Steps {
		if d.Dead[s] || taken[s] {
			continue
		}
		op, c, batch, length := d.member(s)
		if op == nil && c == nil {
			flush()
			u := &unit{steps: []*lowering.Step{s}}
			if of(s).spans != nil {
				u.span = of(s).spans(d)
			}
			if u.span == nil && of(s).whole != nil {
				if in, out, ok := d.wholeShapes(s); ok {
					u.whole = of(s).whole(in, out)
				}
			}
			switch {
			case u.span != nil || u.whole != nil:
			case s.Branches != nil || s.Body != nil:
				u.kernel = d.controlKernel(s)
			case of(s).kernel != nil:
				u.kernel = of(s).kernel(d)
			}
			u.absorb(d)
			for _, r := range u.steps[1:] {
				taken[r] = true
			}
			all = append(all, u)
			continue
		}
		if open != nil && !open.takes(d, s, op, c, batch, length) {
			flush()
		}
		if open == nil {
			open = &draft{group: s.Group, rows: batch * length}
		}
		open.add(s, op, c, batch, length)
	}
	flush()
	return all
}

// wholeShapes gives the shapes of all inputs and of the output, where they are known.
func (d *binding) wholeShapes(s *lowering.Step) (in [][]int, out []int, ok bool) {
	in = make([][]int, len(s.In))
	for i, v := range s.In {
		if v == nil {
			continue
		}
		if d.Shapes[v.ID] == nil {
			if v.Const != nil { // a scalar
				in[i] = []int{}
				continue
			}
			if d.Missing(v) {
				continue
			}
			return nil, nil, false
		}
		in[i] = d.Shapes[v.ID]
	}
	for i, v := range s.Out {
		if (v == nil || !d.F32[v.ID]) && (i == 0 || !keepsState(s.Node)) {
			return nil, nil, false
		}
	}
	return in, d.Shapes[s.Out[0].ID], true
}

// member says how a step can be part of a region: as a row kernel or as a core over (batch, length) rows.
func (d *binding) member(s *lowering.Step) (op *rowOp, c core, batch, length int) {
	if of(s).window != nil || of(s).sums != nil || of(s).turn != straight {
		return d.flowing(s)
	}
	if of(s).row == nil && of(s).core == nil {
		return nil, nil, 0, 0
	}
	in, out, ok := d.shapesOf(s)
	if !ok {
		return nil, nil, 0, 0
	}
	if of(s).core != nil {
		v := in[of(s).core.info().vRe]
		if len(v) != 3 || v[2] != of(s).core.info().n {
			return nil, nil, 0, 0
		}
		if st := of(s).core.info().state; st >= 0 && (in[st] == nil || in[st][0] != v[0]) {
			return nil, nil, 0, 0
		}
		return nil, of(s).core, v[0], v[1]
	}
	if s.Out[0] == nil {
		return nil, nil, 0, 0
	}
	if op = of(s).row(in, out); op == nil {
		return nil, nil, 0, 0
	}
	n, _ := lowering.Features(out)
	return op, nil, 1, n
}

// draft is a region that grows.
type draft struct {
	group, rows   int
	steps         []*lowering.Step
	ops           []*rowOp
	covers        []*lowering.Step  // steps of the program: those above, before chains were made of some
	between       []*lowering.Value // what lies between steps that are a chain
	core          core
	coreAt        int
	batch, length int
	flows         bool // a step looks back or ahead, or brings sequences into rows
	weights       int  // constant numbers that a tile passes through
}

// takes reports whether the next step can join.
func (r *draft) takes(d *binding, s *lowering.Step, op *rowOp, c core, batch, length int) bool {
	if s.Group != r.group || batch*length != r.rows || !r.flowsWith(d, s, op, c, batch, length) {
		return false
	}
	if r.core == nil {
		return true
	}
	// A second recurrence, and what was written out together with it, starts a region of its own: the weights of two layers
	// would drive each other out of the cache.
	return c == nil && (s.Source == r.steps[r.coreAt].Source || !ops.IsSystem(s.Source.Op))
}

func (r *draft) add(s *lowering.Step, op *rowOp, c core, batch, length int) {
	if c != nil {
		r.core, r.coreAt, r.batch, r.length = c, len(r.steps), batch, length
	}
	if op.flows() {
		r.flows, r.batch, r.length = true, batch, length
	}
	r.weights += constantNumbers(s)
	r.steps = append(r.steps, s)
	r.ops = append(r.ops, op)
}

// Bind plans an execution.
func (p *program) Bind(b runtime.Binding) (runtime.Executable, error) {
	if len(b.Inputs) != len(p.Inputs) {
		return nil, fmt.Errorf("binding has %d inputs, the graph %d", len(b.Inputs), len(p.Inputs))
	}
	d := p.lookup(b)
	if d.Err != nil {
		return nil, d.Err
	}
	d = d.timeMajor()
	return newExecutable(d, d.units(), nil)
}

// Explain says which forms the recurrences take, how loops run, and in which precision products run where low precision was asked for.
func (p *program) Explain(b runtime.Binding) ([]runtime.Choice, error) {
	if len(b.Inputs) != len(p.Inputs) {
		return nil, fmt.Errorf("binding has %d inputs, the graph %d", len(b.Inputs), len(p.Inputs))
	}
	d := p.lookup(b)
	if d.Err != nil {
		return nil, d.Err
	}
	d = d.timeMajor()
	all, products := d.choices()
	return append(all, products...), nil
}
