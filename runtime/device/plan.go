package device

import (
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// plan is the work and the memory of an executable, for one set of shapes. Making it allocates no memory of the
// device.
type plan struct {
	from  *Backend
	d     *lowering.Binding
	b     *Builder
	units []*unit
	// Segments and host units alternate: units[hosts[i]] runs after segments[i].
	segments []*segment
	hosts    []int
	memory   layout
	repeats  *repeats         // for the body of a loop; nil if it keeps nothing
	refused  []*lowering.Step // steps whose record refused their types or shapes
}

// unit is a part of a program that runs as a whole: steps on the device, or one step on the host.
type unit struct {
	steps  []*lowering.Step
	work   *Unit  // on the device; nil if on the host
	fusion string // name of a fusion of several steps
	// control runs the subgraphs of a step on the host. If it is nil, the step is evaluated.
	control lowering.Control
	subs    []*plan // of its programs; nil for one that does not run
	why     string  // why the host evaluates it
	// crossings are the values that are copied only for a unit on the host.
	crossings []crossing
}

// crossing is a copy of a value between host and device.
type crossing struct {
	v        *lowering.Value
	toDevice bool
}

// newPlan divides the steps into units, and plans their memory. The error is a *runtime.UnsupportedError for a step
// that has no kernel for its shapes, unless fallback lets the host compute it. r describes how the body of a loop
// repeats; it is nil for other programs.
func (b *Backend) newPlan(d *lowering.Binding, fallback bool, r *lowering.Repeated) (*plan, error) {
	p := &plan{from: b, d: d, b: NewBuilder(d)}
	if err := p.divide(fallback); err != nil {
		return nil, err
	}
	for _, u := range p.units {
		if u.control == nil {
			continue
		}
		for k, x := range u.control.Programs() {
			var sub *plan
			if x != nil {
				if err := x.Err(); err != nil {
					return nil, err
				}
				var err error
				if sub, err = b.newPlan(x, fallback, u.control.Repeated(k)); err != nil {
					return nil, err
				}
			}
			u.subs = append(u.subs, sub)
		}
	}
	p.move()
	if r != nil {
		p.repeat(r)
	}
	p.place()
	return p, nil
}

// divide makes the units in execution order.
func (p *plan) divide(fallback bool) error {
	d := p.d
	var live []*lowering.Step
	builds := map[*lowering.Step]Record{} // for steps that a record may build
	for _, s := range d.Program.Steps {
		if d.Dead(s) {
			continue
		}
		live = append(live, s)
		if k, ok := s.Impl.(kernels); ok && p.fits(s) {
			builds[s] = k.record
		}
	}
	small := p.small(live)
	at := make([]*unit, len(live)) // the unit that runs at a step's position
	in := map[*lowering.Step]int{} // the position of the unit that includes a step
	for i, s := range live {
		if _, ok := in[s]; ok {
			continue
		}
		if small[s] { // before all others
			p.units = append(p.units, &unit{steps: live[i : i+1 : i+1], why: "it is small, and all that it reads is there"})
			in[s] = i
			continue
		}
		if builds[s] != nil {
			u, place, err := p.fuse(live, i, builds, in)
			if err != nil {
				return err
			}
			if u != nil {
				at[place] = u
				continue
			}
			p.b.Begin(s.Node)
			built, err := p.build(builds[s], s)
			if err != nil {
				return err
			}
			if built {
				work := p.b.Keep()
				at[i], in[s] = &unit{steps: live[i : i+1 : i+1], work: &work}, i
				continue
			}
			p.b.Drop()
		}
		u, err := p.hosted(s, fallback)
		if err != nil {
			return err
		}
		at[i], in[s] = u, i
	}
	for _, u := range at {
		if u != nil {
			p.units = append(p.units, u)
		}
	}
	return nil
}

// build lets a record build a unit. A panic is a bug in the record, and is reported with the node.
func (p *plan) build(r Record, s *lowering.Step) (built bool, err error) {
	defer recovered(s, &err)
	return r(p.b, p.present(s)), nil
}

// recovered turns a panic during the building of s into an error, unless a budget or a context ends the work with
// it.
func recovered(s *lowering.Step, err *error) {
	v := recover()
	switch v.(type) {
	case nil:
	case *ir.BudgetError, *ir.Ended:
		panic(v)
	default:
		*err = runtime.Recovered(s.Source, v)
	}
}

// fits reports whether records may look at a step: its tensors have known shapes, none has strings, and its types
// are the operator's own.
func (p *plan) fits(s *lowering.Step) bool {
	for _, list := range [][]*lowering.Value{s.In, s.Out} {
		for _, v := range list {
			if v != nil && !p.d.Placed(v) && !p.d.Missing(v) {
				return false
			}
		}
	}
	return p.d.Fits(p.present(s))
}

// present returns s without optional inputs that are absent.
func (p *plan) present(s *lowering.Step) *lowering.Step {
	missing := func(v *lowering.Value) bool { return v != nil && p.d.Missing(v) }
	if !slices.ContainsFunc(s.In, missing) {
		return s
	}
	t := *s
	t.In = slices.Clone(s.In)
	for i, v := range t.In {
		if missing(v) {
			t.In[i] = nil
		}
	}
	return &t
}

// window is the maximum number of steps that a fusion sees at once.
const window = 256

// fuse tries the fusions on a unit that starts with live[i]. It also returns the unit's position, which is its last
// step's.
func (p *plan) fuse(live []*lowering.Step, i int, records map[*lowering.Step]Record,
	in map[*lowering.Step]int) (_ *unit, place int, err error) {
	all := p.from.Operators.Fusions()
	if len(all) == 0 {
		return nil, 0, nil
	}
	defer recovered(live[i], &err)
	var open []*lowering.Step // small ones already have a unit
	index := map[*lowering.Step]int{}
	for j := i; j < len(live) && len(open) < window; j++ {
		if _, taken := in[live[j]]; !taken && records[live[j]] != nil {
			index[live[j]] = j
			open = append(open, live[j])
		}
	}
	for _, f := range all {
		p.b.Begin(live[i].Node)
		taken := f.Build(p.b, open)
		if len(taken) == 0 || taken[0] != live[i] || !p.orderly(live, taken, index, in) {
			p.b.Drop()
			continue
		}
		work := p.b.Keep()
		place = index[taken[len(taken)-1]]
		for _, s := range taken {
			in[s] = place
		}
		return &unit{steps: taken, work: &work, fusion: f.Name}, place, nil
	}
	return nil, 0, nil
}

// orderly reports whether the steps of a fusion can run at the position of the last one: no other step reads one of
// their results before it.
func (p *plan) orderly(live, taken []*lowering.Step, index, in map[*lowering.Step]int) bool {
	own := map[*lowering.Step]bool{}
	results := map[*lowering.Value]bool{}
	last := -1
	for _, s := range taken {
		j, ok := index[s]
		if !ok || j <= last { // not one of the given steps, or out of order
			return false
		}
		last, own[s] = j, true
		for _, v := range s.Out {
			results[v] = v != nil
		}
	}
	for j := index[taken[0]] + 1; j < last; j++ {
		s := live[j]
		place, other := in[s]
		if !other {
			place = j
		}
		if own[s] || place > last {
			continue
		}
		for v := range s.Reads {
			if results[v] {
				return false
			}
		}
	}
	return true
}

// hosted makes the unit of a step that the host computes.
func (p *plan) hosted(s *lowering.Step, fallback bool) (*unit, error) {
	u := &unit{steps: []*lowering.Step{s}}
	if u.control = p.d.Control(s, align); u.control != nil {
		return u, nil
	}
	switch s.Impl.(type) {
	case onHost:
		u.why = "its inputs follow from shapes"
		return u, nil
	case kernels:
		if u.why = "no kernel for its shapes or types"; !p.fits(s) {
			u.why = "its types or shapes are not known before the run"
		}
		p.refused = append(p.refused, s)
	default:
		if u.why = "no kernel"; len(s.Node.Subgraphs()) > 0 {
			u.why = "its subgraphs are not programs"
		}
	}
	if !fallback && !p.d.Refused() { // a step that no backend computes fails with the operator's error
		return nil, p.from.unsupported(s, "operator %s: %s", s.Node.Op.FullName(), u.why)
	}
	return u, nil
}

// name is the unit's name in profiles.
func (u *unit) name() string {
	if len(u.steps) == 1 {
		return u.steps[0].Source.String()
	}
	return u.steps[0].Source.String() + " to " + u.steps[len(u.steps)-1].Source.String()
}

// op lists the operators of the unit.
func (u *unit) op() string {
	if u.fusion != "" {
		return u.fusion
	}
	return u.steps[0].Node.Op.FullName()
}

// form describes how the unit runs: the names of its kernels, or that it runs on the host.
func (u *unit) form() string {
	switch {
	case u.control != nil:
		return "program"
	case u.work == nil:
		return "on the host: " + u.why
	}
	var names []string
	for _, w := range u.work.Work {
		name := "fill"
		switch w.Kind {
		case Launches:
			name = w.Launch.Name()
		case Copy:
			name = "copy"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return "view"
	}
	return strings.Join(names, ", ")
}

// total returns the number of launches of the units of a plan, without their subgraphs, and the estimate of their
// work.
func (p *plan) total() (launches int, cost ir.Work) {
	for _, u := range p.units {
		if u.work == nil {
			continue
		}
		for _, w := range u.work.Work {
			if w.Kind == Launches {
				launches++
			}
		}
		cost.Flops += u.work.Cost.Flops
		cost.Bytes += u.work.Cost.Bytes
	}
	return launches, cost
}

// uses calls f for each buffer that the unit's work reads or writes.
func (u *unit) uses(f func(Buffer)) {
	if u.work == nil {
		return
	}
	for _, w := range u.work.Work {
		if w.Kind != Launches {
			f(w.Dst)
			f(w.Src)
			continue
		}
		w.Launch.Buffers(f)
	}
}
