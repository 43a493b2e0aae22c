package cpu

import (
	"math/bits"
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
			if sub, err = newExecutable(d, d.units(), e.top(), nil); err != nil {
				return err
			}
		}
		u.subs = append(u.subs, sub)
	}
	return nil
}

// release releases the charges of the executable and of its subgraphs' executables.
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
	u.kernel.control.Attach(runners, arenaBytes(u.temp), &nester{e: e, u: u})
}

// nester binds the body of a loop while it runs. Its executables share memory, since they run one at a time.
type nester struct {
	e      *executable
	u      *unit
	arenas map[int][]float32 // by size
	fresh  []int             // sizes of arenas that the executable under way has made
	bodies int               // that have not been given back
}

// lateBodies is the number of bodies that a loop keeps, for shapes that come back. lateBytes is about the memory of one,
// besides numbers, for each of its steps and values.
const (
	lateBodies = 1 << 10
	lateBytes  = 1 << 9
)

func (n *nester) Keeps() int { return lateBodies }

func (n *nester) Nest(l *lowering.Binding) (lowering.Runner, error) {
	d, root := n.e.d.sub(l), n.e.top()
	n.bodies++ // from now on it may have an arena
	var x *executable
	made := false
	n.fresh = n.fresh[:0]
	err := l.Build(func() (err error) {
		defer func() { // before Build gives back all charges that are left
			if made {
				return
			}
			for _, size := range n.fresh {
				delete(n.arenas, size)
				n.e.Unhold(4 * int64(size))
			}
			n.left()
		}()
		if x, err = newExecutable(d, d.units(), root, n); err != nil {
			return err
		}
		if err := x.Hold(lateBytes*int64(len(d.p.Steps)+len(d.p.Values)), "a loop's body"); err != nil {
			return err
		}
		err = root.equip(x)
		made = err == nil
		return err
	})
	if err != nil {
		return nil, err
	}
	n.u.subs = append(n.u.subs, x)
	return x, nil
}

func (n *nester) Drop(r lowering.Runner) error {
	x := r.(*executable)
	n.u.past = addTimes(n.u.past, x.Profile())
	k := slices.Index(n.u.subs, x)
	n.u.subs = slices.Delete(n.u.subs, k, k+1)
	x.release()
	n.left()
	return nil
}

// left notes that there is one executable less. The last one leaves no memory.
func (n *nester) left() {
	if n.bodies--; n.bodies > 0 {
		return
	}
	for size := range n.arenas {
		n.e.Unhold(4 * int64(size))
	}
	n.arenas = nil
}

// Appends reports whether a kernel that joins tensors puts input in first in output out.
func (e *executable) Appends(in, out int) bool {
	y := e.p.Outputs[out]
	for _, u := range e.units {
		if s := u.steps[0]; u.kernel != nil && u.kernel.joins != nil && len(u.steps) == 1 && s.Out[0] == y {
			return s.In[0] == e.p.Inputs[in]
		}
	}
	return false
}

// arena returns memory for size numbers of an executable of the loop's body.
func (n *nester) arena(d *binding, size int) ([]float32, error) {
	if size == 0 {
		return nil, nil
	}
	class := 1 << bits.Len(uint(size-1))
	if a := n.arenas[class]; a != nil {
		return a[:size:size], nil
	}
	if err := n.e.Hold(4*int64(class), "the plan of graph "+d.p.Graph.Name); err != nil {
		return nil, err
	}
	if n.arenas == nil {
		n.arenas = map[int][]float32{}
	}
	n.arenas[class], n.fresh = floats(d, class), append(n.fresh, class)
	return n.arenas[class][:size:size], nil
}

// equip gives the workers the memory that part, the executable of a subgraph, needs. No worker may be at work.
func (e *executable) equip(part *executable) error {
	scratch := func(w *worker) int {
		if n := len(w.Scratch); n < part.scratch {
			return max(part.scratch, n+n/2) // a loop's next body may need more
		}
		return len(w.Scratch)
	}
	var more int64
	for _, w := range e.workers {
		more += int64(scratch(w)-len(w.Scratch))*4 + int64(max(0, part.states-len(w.state)))*8
	}
	if err := e.Hold(more, "the workers of graph "+part.p.Graph.Name); err != nil {
		return err
	}
	for _, w := range e.workers {
		if n := scratch(w); n > len(w.Scratch) {
			w.Scratch = floats(e.d, n)
		}
		if len(w.args) < part.rowArgs {
			w.args = make([][]float32, part.rowArgs)
		}
		if len(w.state) < part.states {
			w.state = make([]float64, part.states)
		}
	}
	return nil
}

// addTimes adds times to the entries with the same name, operator and form.
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
