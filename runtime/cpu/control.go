package cpu

import (
	"slices"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// controlKernel returns the kernel that runs the subgraphs of a step as programs; nil if they cannot run so.
func (d *binding) controlKernel(s *lowering.Step) *boundKernel {
	c := d.Control(s, 4*scratchAlign)
	if c == nil {
		return nil
	}
	run := func(e *executable, _ *unit) error { return c.Run(e.ctx, &e.frame) }
	return &boundKernel{run: run, subs: d.subs(c.Programs()), temp: c.Memory() / 4, control: c}
}

// bindSubgraphs makes the executables of a unit's subgraphs. It returns the bytes that they hold.
func (e *executable) bindSubgraphs(u *unit) (int64, error) {
	var held int64
	for _, d := range u.kernel.subs {
		var sub *executable
		if d != nil {
			var err error
			if sub, err = newExecutable(d, d.units(), e.top()); err != nil {
				return 0, err
			}
			held += sub.Held
		}
		u.subs = append(u.subs, sub)
	}
	return held, nil
}

// top returns the executable of the model, whose workers subgraphs use.
func (e *executable) top() *executable {
	if e.root != nil {
		return e.root
	}
	return e
}

// attachControl hands the executables of a unit's subgraphs to the control that runs them.
func (e *executable) attachControl(u *unit) {
	runners := make([]lowering.Runner, len(u.subs))
	for i, sub := range u.subs {
		if sub != nil {
			runners[i] = sub
		}
	}
	u.kernel.control.Attach(runners, arenaBytes(u.temp), nester{e, u})
}

// nester binds the body of a loop while it runs.
type nester struct {
	e *executable
	u *unit
}

func (n nester) Nest(l *lowering.Binding, old lowering.Runner) (lowering.Runner, error) {
	d, root := n.e.d.sub(l), n.e.top()
	x, err := newExecutable(d, d.units(), root)
	if err != nil {
		return nil, err
	}
	root.equip(x)
	if old == nil {
		n.u.subs = append(n.u.subs, x)
		return x, nil
	}
	n.u.past = addTimes(n.u.past, old.(*executable).Profile())
	n.u.subs[slices.Index(n.u.subs, old.(*executable))] = x
	return x, nil
}

// equip gives the workers the memory that part, the executable of a subgraph, needs. No worker may be at work.
func (e *executable) equip(part *executable) {
	for _, w := range e.workers {
		if len(w.Scratch) < part.scratch {
			w.Scratch = floats(part.scratch)
		}
		if len(w.args) < part.rowArgs {
			w.args = make([][]float32, part.rowArgs)
		}
		if len(w.state) < part.states {
			w.state = make([]float64, part.states)
		}
	}
}

// addTimes adds times to those of the same name, operator and form.
func addTimes(all, more []runtime.StepTime) []runtime.StepTime {
	for _, t := range more {
		if t.Calls == 0 { // bound, but never run
			continue
		}
		k := slices.IndexFunc(all, func(o runtime.StepTime) bool {
			return o.Name == t.Name && o.Op == t.Op && o.Form == t.Form
		})
		if k < 0 {
			all = append(all, t)
			continue
		}
		all[k].Calls, all[k].Time = all[k].Calls+t.Calls, all[k].Time+t.Time
	}
	return all
}
