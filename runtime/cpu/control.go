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

// bindSubgraphs makes the executables of a unit's subgraphs.
func (e *executable) bindSubgraphs(u *unit) error {
	for _, d := range u.kernel.subs {
		var sub *executable
		if d != nil {
			var err error
			if sub, err = newExecutable(d, d.units(), e.top()); err != nil {
				return err
			}
		}
		u.subs = append(u.subs, sub)
	}
	return nil
}

// release gives back what the executable and those of its subgraphs have charged.
func (e *executable) release() {
	e.Release()
	for _, u := range e.units {
		for _, sub := range u.subs {
			if sub != nil {
				sub.release()
			}
		}
	}
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
	var x *executable
	err := l.Build(func() (err error) {
		if x, err = newExecutable(d, d.units(), root); err != nil {
			return err
		}
		return root.equip(x)
	})
	if err != nil {
		return nil, err
	}
	if old == nil {
		n.u.subs = append(n.u.subs, x)
		return x, nil
	}
	o := old.(*executable)
	n.u.past = addTimes(n.u.past, o.Profile())
	n.u.subs[slices.Index(n.u.subs, o)] = x
	o.release()
	return x, nil
}

// equip gives the workers the memory that part, the executable of a subgraph, needs. No worker may be at work.
func (e *executable) equip(part *executable) error {
	for _, w := range e.workers {
		n, k := len(w.Scratch), len(w.state)
		more := int64(max(0, part.scratch-n))*4 + int64(max(0, part.states-k))*8
		if err := e.Hold(more, "the workers of graph "+part.p.Graph.Name); err != nil {
			return err
		}
		if n < part.scratch {
			w.Scratch = floats(e.d, part.scratch)
		}
		if len(w.args) < part.rowArgs {
			w.args = make([][]float32, part.rowArgs)
		}
		if k < part.states {
			w.state = make([]float64, part.states)
		}
	}
	return nil
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
