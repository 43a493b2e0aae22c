package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// executable runs a plan. Executables of subgraphs use the stream of the enclosing executable.
type executable struct {
	lowering.Frame
	p      *program
	plan   *plan
	stream Stream
	nested bool

	arena   Ptr    // 0 if there is none
	pinned  []byte // values on the host, then staged inputs and outputs; nil if there are none
	own     []Ptr
	hosts   [][]byte // other host memory that the device can access
	address []Ptr    // by buffer - 1
	tables  []Key    // constants that it shares with other executables of the program

	segments []*commands
	next     []*commands // for iterations after the first; nil if the program does not repeat
	fetch    *commands   // copies the kept results to the host
	subs     map[*unit][]*executable
	times    *times   // nil unless the run is measured
	keeps    *keeping // of kept states; nil until the first use

	cannotKeep bool
}

// newExecutable allocates the memory of a plan. around is the enclosing executable, or nil. If it fails, it frees
// everything.
func newExecutable(p *program, plan *plan, around *executable) (_ *executable, err error) {
	if f := p.b.inspect; f != nil {
		f(plan)
	}
	e := &executable{Frame: plan.d.NewFrame(around != nil), p: p, plan: plan, nested: around != nil,
		address: make([]Ptr, plan.b.Buffers()), subs: map[*unit][]*executable{}}
	made := false
	defer func() {
		if !made { // a specific error, or a panic of a budget that ends the work
			_ = e.close()
		}
	}()
	if around != nil {
		e.stream = around.stream
	} else if e.stream, err = p.modules.NewStream(); err != nil {
		return nil, err
	}
	if err := e.hold(); err != nil {
		return nil, err
	}
	if err := e.placeHost(); err != nil {
		return nil, err
	}
	if err := e.resolve(); err != nil {
		return nil, err
	}
	if r := plan.repeats; r == nil {
		e.segments, err = e.compileAll(plan.segments)
	} else if e.segments, err = e.compileAll(r.first); err == nil {
		if e.next, err = e.compileAll(r.next); err == nil {
			e.fetch, err = e.compile(r.fetch)
		}
	}
	if err != nil {
		return nil, err
	}
	if e.timed() {
		e.times = e.newTimes()
	}
	made = true
	return e, nil
}

// hold allocates the memory of the device and of the host. It charges the account of the executable first.
func (e *executable) hold() error {
	l := &e.plan.memory
	host := l.places + l.staging
	what := "the plan of " + e.title()
	if err := e.Hold(int64(l.arena+host), what); err != nil {
		return err
	}
	if l.arena > 0 {
		var err error
		if e.arena, err = e.stream.Allocate(l.arena, what); err != nil {
			return err
		}
	}
	if host > 0 {
		var err error
		if e.pinned, err = e.p.v.AllocateHost(host, what); err != nil {
			return err
		}
		for lo := 0; lo < host; lo += 1 << 20 { // the byte of a bool must be 0 or 1
			e.Binding.Steps().Pause()
			clear(e.pinned[lo:min(host, lo+1<<20)])
		}
	}
	e.Memory = e.pinned[:l.places:l.places]
	return nil
}

// title returns the graph's name, with the bound shapes.
func (e *executable) title() string {
	d := e.Binding
	var in []string
	for _, v := range d.Program.Inputs {
		if shape := d.Shape(v); shape != nil {
			in = append(in, fmt.Sprintf("%s %v%s", v.Name, d.DType(v), tensor.ShapeString(shape)))
		}
	}
	if in == nil {
		return "graph " + d.Program.Graph.Name
	}
	return fmt.Sprintf("graph %s for %s", d.Program.Graph.Name, strings.Join(in, ", "))
}

// placeHost assigns host memory to values, and creates the executables of subgraphs.
func (e *executable) placeHost() error {
	d, l := e.Binding, &e.plan.memory
	for _, s := range l.order {
		if !s.host || s.value == nil {
			continue
		}
		t, err := e.plan.tensorAt(s, e.Memory)
		if err != nil {
			return err
		}
		e.Place(s.value, t)
	}
	for _, u := range e.plan.units {
		if u.work != nil {
			continue
		}
		for _, v := range u.steps[0].Out {
			if v != nil && d.Shape(v) != nil && d.DType(v) == tensor.String && d.Constant(v) == nil {
				if err := e.PlaceText(v); err != nil {
					return err
				}
			}
		}
	}
	for _, s := range l.control {
		u := s.unit
		runners := make([]lowering.Runner, len(u.subs))
		list := make([]*executable, len(u.subs))
		e.subs[u] = list
		for i, sub := range u.subs {
			if sub == nil {
				continue
			}
			x, err := newExecutable(e.p, sub, e)
			if err != nil {
				return err
			}
			list[i], runners[i] = x, x
		}
		u.control.Attach(runners, e.Memory[s.at:s.at+s.Size], nester{e, u})
	}
	return nil
}

// nester binds the body of a loop while it runs.
type nester struct {
	e *executable
	u *unit
}

// Keeps is small, because each body has memory of its own on the device.
func (n nester) Keeps() int { return 4 }

// Nest returns the executable of a loop body for new shapes.
func (n nester) Nest(d *lowering.Binding) (lowering.Runner, error) {
	e := n.e
	var x *executable
	err := d.Build(func() error {
		plan, err := e.p.b.newPlan(d, e.p.b.Fallback, nil)
		if err == nil {
			x, err = newExecutable(e.p, plan, e)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.subs[n.u] = append(e.subs[n.u], x)
	return x, nil
}

// Drop frees the executable of a body.
func (n nester) Drop(r lowering.Runner) error {
	x, list := r.(*executable), n.e.subs[n.u]
	if i := slices.Index(list, x); i >= 0 {
		n.e.subs[n.u] = slices.Delete(list, i, i+1)
	}
	return x.close()
}

// resolve finds the addresses of all buffers. It uploads the constants that are missing on the device.
func (e *executable) resolve() error {
	d, b, l := e.Binding, e.plan.b, &e.plan.memory
	for i := range e.address {
		x := Buffer(i + 1)
		if at, ok := l.offsets[x]; ok {
			e.address[i] = e.arena + Ptr(at)
			continue
		}
		k := b.Memory(x)
		c := k.Constant
		switch {
		case c != nil:
		case k.Value == nil: // unused scratch memory
			continue
		case k.Value.Fixed() != nil:
			t := k.Value.Fixed()
			c = &Constant{Key: Key{Of: t}, Make: t.Bytes, From: lowering.SettledOf([]*lowering.Value{k.Value})}
		case d.Constant(k.Value) != nil:
			at, err := e.upload(d.Constant(k.Value), k.Value.Name)
			if err != nil {
				return err
			}
			e.address[i] = at
			continue
		default: // an unused value
			continue
		}
		at, err := e.p.constants.get(c, &e.tables)
		if err != nil {
			return err
		}
		e.address[i] = at
	}
	return nil
}

// upload gives the executable a constant of its own, for a value that depends only on shapes.
func (e *executable) upload(t *tensor.Tensor, name string) (Ptr, error) {
	n, what := len(t.Bytes()), "value "+name
	if err := e.Hold(int64(n), what); err != nil {
		return 0, err
	}
	at, err := e.stream.Allocate(n, what)
	if err != nil {
		return 0, err
	}
	e.own = append(e.own, at)
	if err := e.stream.Synchronize(); err != nil { // another stream writes
		return 0, err
	}
	return at, e.p.v.Upload(at, t.Bytes())
}

// ArenaBytes returns the memory in use on the device and on the host.
func (e *executable) ArenaBytes() int64 { return e.Held() }

// Close frees everything. The program does so for executables that are still open.
func (e *executable) Close() error {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	if !e.p.made[e] {
		return nil
	}
	delete(e.p.made, e)
	return e.close()
}

// close frees everything, including the executables of subgraphs, once the device has finished with it.
func (e *executable) close() error {
	var err error
	if e.stream != nil && e.p.v.Lost() == nil {
		err = e.stream.Synchronize()
	}
	return first(err, e.giveBack())
}

// giveBack does the work of close after the device has finished.
func (e *executable) giveBack() error {
	e.Release()
	var errs []error
	for _, u := range e.plan.units {
		for _, sub := range e.subs[u] {
			if sub != nil {
				errs = append(errs, sub.giveBack())
			}
		}
	}
	if e.stream != nil {
		all := slices.Concat(e.segments, e.next)
		if e.fetch != nil {
			all = append(all, e.fetch)
		}
		if e.keeps != nil {
			all = slices.Concat(all, e.keeps.segments)
		}
		var segments []Segment
		for _, c := range all {
			segments = append(segments, c.Segment)
		}
		memory, hosts := e.own, e.hosts
		if e.arena != 0 {
			memory = append(memory, e.arena)
		}
		if e.pinned != nil {
			hosts = append(hosts, e.pinned)
		}
		errs = append(errs, e.stream.Free(segments, memory, hosts))
		if !e.nested {
			errs = append(errs, e.stream.Close())
		}
	}
	errs = append(errs, e.p.constants.release(e.tables))
	e.Frame, e.tables = lowering.Frame{}, nil
	e.segments, e.next, e.fetch, e.own, e.hosts, e.subs, e.arena, e.pinned = nil, nil, nil, nil, nil, nil, 0, nil
	return first(errs...)
}

// first returns the first error of a list.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
