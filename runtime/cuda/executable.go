package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// executable runs a plan. Executables of subgraphs use the stream of the one around them.
type executable struct {
	lowering.Frame
	p      *program
	plan   *plan
	stream driver.Stream
	nested bool

	arena   driver.Ptr // 0: none
	pinned  []byte     // the places of values on the host, then what is staged; nil: none
	own     []driver.Ptr
	address []driver.Ptr // by buffer - 1

	segments []*commands
	subs     map[*unit][]*executable
	times    *times   // nil unless the run is measured
	keeps    *keeping // of states that are kept; nil: none yet

	cannotKeep bool
}

// newExecutable gives a plan its memory. around is the executable that it runs in; nil: none. What is allocated is given
// back if that fails.
func newExecutable(p *program, plan *plan, around *executable) (_ *executable, err error) {
	e := &executable{Frame: plan.d.NewFrame(around != nil), p: p, plan: plan, nested: around != nil,
		address: make([]driver.Ptr, plan.b.Buffers()), subs: map[*unit][]*executable{}}
	defer func() {
		if v := recover(); v != nil {
			_ = e.close()
			panic(v)
		}
		if err != nil {
			_ = e.close() // err tells more
		}
	}()
	if around != nil {
		e.stream = around.stream
	} else if err := p.v.do(func() (err error) {
		e.stream, err = p.v.drv.CreateStream()
		return err
	}); err != nil {
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
	for _, s := range plan.segments {
		c, err := e.compile(s)
		if err != nil {
			return nil, err
		}
		e.segments = append(e.segments, c)
	}
	if around == nil && p.Config.Profile {
		if e.times, err = e.newTimes(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// hold allocates the memory of the device and of the host, charged to the account of the executable before.
func (e *executable) hold() error {
	l := &e.plan.memory
	host := l.places + l.staging
	what := "the plan of " + e.title()
	if err := e.Hold(int64(l.arena+host), what); err != nil {
		return err
	}
	v := e.p.v
	if l.arena > 0 {
		var err error
		e.arena, err = v.allocate(l.arena, e.stream)
		var full *outOfMemory
		if errors.As(err, &full) {
			return &runtime.MemoryError{Need: int64(l.arena), Limit: full.free,
				What: fmt.Sprintf("%s, in the memory of %s,", what, v.name)}
		}
		if err != nil {
			return err
		}
	}
	if host > 0 {
		if err := v.wait(func() (err error) { // it may take long
			e.pinned, err = v.drv.AllocHost(host)
			return err
		}); err != nil {
			if driver.Is(err, driver.OutOfMemory) {
				return &runtime.MemoryError{Need: int64(host), What: what + ", in memory of the host that the device reaches,"}
			}
			return err
		}
		for lo := 0; lo < host; lo += 1 << 20 { // tensors of bools must not be of other numbers
			e.Binding.Steps().Pause()
			clear(e.pinned[lo:min(host, lo+1<<20)])
		}
	}
	e.Memory = e.pinned[:l.places:l.places]
	return nil
}

// title names the graph, with the shapes that are bound.
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

// placeHost gives values their places on the host, and makes the executables of subgraphs.
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

// Nest returns the executable of a body for other shapes. That which it replaces is given back.
func (n nester) Nest(d *lowering.Binding, old lowering.Runner) (lowering.Runner, error) {
	e := n.e
	var x *executable
	err := d.Build(func() error {
		plan, err := newPlan(d, e.p.b.fallback)
		if err == nil {
			x, err = newExecutable(e.p, plan, e)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list := e.subs[n.u]
	for i, sub := range list {
		if old != nil && sub == old {
			list[i] = nil
			if err := sub.close(); err != nil {
				return nil, first(err, x.close())
			}
		}
	}
	e.subs[n.u] = append(list, x)
	return x, nil
}

// resolve finds the addresses of all buffers. Constants are uploaded where they are not there yet.
func (e *executable) resolve() error {
	d, b, l := e.Binding, e.plan.b, &e.plan.memory
	for i := range e.address {
		x := kernel.Buffer(i + 1)
		if at, ok := l.offsets[x]; ok {
			e.address[i] = e.arena + driver.Ptr(at)
			continue
		}
		k := b.Memory(x)
		c := k.Constant
		switch {
		case c != nil:
		case k.Value == nil: // scratch that nothing uses
			continue
		case k.Value.Const != nil:
			t := k.Value.Const
			c = &record.Constant{Key: record.Key{Of: t}, Make: t.Bytes}
		case d.Constant(k.Value) != nil:
			at, err := e.upload(d.Constant(k.Value), k.Value.Name)
			if err != nil {
				return err
			}
			e.address[i] = at
			continue
		default: // a value that nothing uses
			continue
		}
		at, err := e.p.constants.get(c)
		if err != nil {
			return err
		}
		e.address[i] = at
	}
	return nil
}

// upload gives the executable a constant of its own: a value that follows from the shapes.
func (e *executable) upload(t *tensor.Tensor, name string) (driver.Ptr, error) {
	v, n := e.p.v, len(t.Bytes())
	if err := e.Hold(int64(n), "value "+name); err != nil {
		return 0, err
	}
	at, err := v.allocate(n, e.stream)
	var full *outOfMemory
	if errors.As(err, &full) {
		return 0, &runtime.MemoryError{Need: int64(n), Limit: full.free,
			What: fmt.Sprintf("value %s, in the memory of %s,", name, v.name)}
	}
	if err != nil {
		return 0, err
	}
	e.own = append(e.own, at)
	if err := v.synchronize(e.stream); err != nil { // another stream writes
		return 0, err
	}
	return at, v.upload(at, t.Bytes())
}

// ArenaBytes returns the memory that is held on the device and on the host.
func (e *executable) ArenaBytes() int64 { return e.Held() }

// Close gives everything back. The program does so for executables that are not closed before it.
func (e *executable) Close() error {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	if !e.p.made[e] {
		return nil
	}
	delete(e.p.made, e)
	return e.close()
}

// close gives everything back, with the executables of subgraphs.
func (e *executable) close() error {
	e.Release()
	var errs []error
	for _, u := range e.plan.units {
		for _, sub := range e.subs[u] {
			if sub != nil {
				errs = append(errs, sub.close())
			}
		}
	}
	v := e.p.v
	if e.stream != 0 && !e.nested && v.Lost() == nil {
		errs = append(errs, v.synchronize(e.stream))
	}
	errs = append(errs, v.release(func(note func(error)) {
		all := e.segments
		if e.keeps != nil {
			all = slices.Concat(all, e.keeps.segments)
		}
		for _, c := range all {
			if c.graph != 0 {
				note(v.drv.DestroyExec(c.graph))
			}
		}
		if e.times != nil {
			for _, x := range e.times.events {
				note(v.drv.DestroyEvent(x))
			}
		}
		for _, at := range e.own {
			note(v.drv.Free(at, e.stream))
		}
		if e.arena != 0 {
			note(v.drv.Free(e.arena, e.stream))
		}
		if e.pinned != nil {
			note(v.drv.FreeHost(e.pinned))
		}
		if e.stream != 0 && !e.nested {
			note(v.drv.DestroyStream(e.stream))
		}
	}))
	e.Frame = lowering.Frame{}
	e.segments, e.own, e.subs, e.arena, e.pinned = nil, nil, nil, 0, nil
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
