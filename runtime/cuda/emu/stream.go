package emu

import (
	"slices"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Streams are queues of work. Work is done when a call waits for it, or earlier if the seed decides so. This exposes
// programs that read a result, or change an argument, too early.

// captureUnsupported is the result of a call that is not allowed while a stream is captured.
const captureUnsupported driver.Code = 900

func (d *Driver) stream(call string, h driver.Stream) (*stream, error) {
	if s := d.streams[h]; s != nil {
		return s, nil
	}
	return nil, d.misuse(call, driver.InvalidHandle, "stream %#x", uintptr(h))
}

// on starts a call on a stream.
func (d *Driver) on(call string, h driver.Stream) (*stream, error) {
	if _, err := d.work(call); err != nil {
		return nil, err
	}
	return d.stream(call, h)
}

// enqueue adds work to a stream, or to the graph that it is captured into.
func (d *Driver) enqueue(s *stream, w work) {
	if s.graph != nil {
		s.graph.work = append(s.graph.work, w)
		return
	}
	w.host = d.host
	s.work = append(s.work, w)
	for n := d.rand.below(3); n > 0; n-- {
		d.advance(s)
	}
}

// awaited reports a misuse if a stream has pending work that uses x.
func (d *Driver) awaited(call string, x any, what string) {
	for _, s := range d.streams {
		for _, w := range s.work {
			if w.uses == x {
				d.find("%s: %s that work of stream %d still uses", call, what, s.number)
				return
			}
		}
	}
}

// advance does the next piece of work of s, unless there is none or it must wait.
func (d *Driver) advance(s *stream) bool {
	if len(s.work) == 0 {
		return false
	}
	w := s.work[0]
	if w.wait != nil && !w.wait.done {
		return false
	}
	s.work = s.work[1:]
	s.clock = s.clock.join(w.host)
	if w.wait != nil {
		s.clock = s.clock.join(w.wait.known)
	}
	if m := w.mark; m != nil { // whoever waits for it gets the fault
		m.done, m.clock, m.known = true, d.clock, s.clock
	}
	if w.do != nil {
		d.beginWork(s)
	}
	if w.do != nil && s.device.failed == nil {
		if err := w.do(); err != nil && s.device.failed == nil {
			s.device.failed = err
		}
	}
	return true
}

// drain does all work of s, and the work of other streams that it waits for.
func (d *Driver) drain(s *stream) {
	for len(s.work) > 0 {
		if !d.advance(s) {
			d.reach(s.work[0].wait)
		}
	}
}

// reach does the work before m. A mark is recorded before a wait for it is added, so waits cannot form a cycle.
func (d *Driver) reach(m *mark) {
	for !m.done {
		if !d.advance(m.stream) {
			d.reach(m.stream.work[0].wait)
		}
	}
}

func (d *Driver) CreateStream() (driver.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.work("cuStreamCreate")
	if err != nil {
		return 0, err
	}
	h := driver.Stream(d.handle())
	d.streams[h] = &stream{device: v, number: d.made}
	d.made++
	return h, nil
}

func (d *Driver) DestroyStream(h driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on("cuStreamDestroy", h)
	if err != nil {
		return err
	}
	d.drain(s)
	delete(d.streams, h)
	return nil
}

// failure returns the sticky error of a device as the error of a call.
func (v *device) failure(call string) error {
	if v.failed == nil {
		return nil
	}
	return &driver.Error{Call: call, Code: v.failed.Code, Detail: v.failed.Detail}
}

func (d *Driver) Synchronize(h driver.Stream) error {
	const call = "cuStreamSynchronize"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	if s.graph != nil {
		s.graph.broken = true
		return d.misuse(call, captureUnsupported, "while the stream is captured")
	}
	d.drain(s)
	d.host = d.host.join(s.clock)
	d.settle(s.device)
	return s.device.failure(call)
}

func (d *Driver) Wait(h driver.Stream, e driver.Event) error {
	const call = "cuStreamWaitEvent"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	v := d.events[e]
	if v == nil {
		return d.misuse(call, driver.InvalidHandle, "event %#x", uintptr(e))
	}
	switch {
	case v.graph != nil && s.graph == nil:
		if len(s.work) > 0 {
			d.drain(s)
		}
		s.graph = v.graph
		s.graph.members = append(s.graph.members, s)
	case v.graph != s.graph:
		s.graph.broken = true
		return d.misuse(call, captureUnsupported, "the event is not of the capture")
	case v.last != nil && s.graph == nil:
		s.work = append(s.work, work{wait: v.last, host: d.host})
	}
	return nil
}

func (d *Driver) CreateEvent(timed bool) (driver.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work("cuEventCreate"); err != nil {
		return 0, err
	}
	h := driver.Event(d.handle())
	d.events[h] = &event{timed: timed}
	return h, nil
}

func (d *Driver) event(call string, h driver.Event) (*event, error) {
	if _, err := d.work(call); err != nil {
		return nil, err
	}
	e := d.events[h]
	if e == nil {
		return nil, d.misuse(call, driver.InvalidHandle, "event %#x", uintptr(h))
	}
	return e, nil
}

func (d *Driver) DestroyEvent(h driver.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.event("cuEventDestroy", h); err != nil {
		return err
	}
	delete(d.events, h)
	return nil
}

func (d *Driver) Record(h driver.Event, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.event("cuEventRecord", h)
	if err != nil {
		return err
	}
	q, err := d.stream("cuEventRecord", s)
	if err != nil {
		return err
	}
	if q.graph != nil {
		e.graph, e.last = q.graph, nil
		return nil
	}
	m := &mark{stream: q}
	e.graph, e.last = nil, m
	q.work = append(q.work, work{mark: m, host: d.host})
	return nil
}

func (d *Driver) Query(h driver.Event) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.event("cuEventQuery", h)
	if err != nil {
		return false, err
	}
	if e.graph != nil {
		return false, d.misuse("cuEventQuery", captureUnsupported, "the event is of a capture")
	}
	if e.last == nil {
		return true, nil
	}
	if !e.last.done {
		d.advance(e.last.stream) // repeated queries complete it eventually
		if s := e.last.stream; !e.last.done && len(s.work) > 0 && s.work[0].wait != nil && !s.work[0].wait.done {
			d.reach(s.work[0].wait)
		}
	}
	if e.last.done {
		d.host = d.host.join(e.last.known)
	}
	return e.last.done, e.last.stream.device.failure("cuEventQuery")
}

func (d *Driver) SynchronizeEvent(h driver.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.event("cuEventSynchronize", h)
	if err != nil {
		return err
	}
	if e.graph != nil {
		return d.misuse("cuEventSynchronize", captureUnsupported, "the event is of a capture")
	}
	if e.last == nil {
		return nil
	}
	d.reach(e.last)
	d.host = d.host.join(e.last.known)
	d.settle(e.last.stream.device)
	return e.last.stream.device.failure("cuEventSynchronize")
}

// Elapsed counts one nanosecond per warp instruction, because time is not emulated.
func (d *Driver) Elapsed(from, to driver.Event) (float32, error) {
	const call = "cuEventElapsedTime"
	d.mu.Lock()
	defer d.mu.Unlock()
	a, err := d.event(call, from)
	if err != nil {
		return 0, err
	}
	b, err := d.event(call, to)
	if err != nil {
		return 0, err
	}
	if !a.timed || !b.timed || a.last == nil || b.last == nil {
		return 0, d.misuse(call, driver.InvalidHandle, "an event that is not timed, or was not recorded")
	}
	if !a.last.done || !b.last.done {
		return 0, fail(call, driver.NotReady, "the work before an event is not done")
	}
	return float32(b.last.clock-a.last.clock) * 1e-6, nil
}

func (d *Driver) CopyToDevice(dst driver.Ptr, src []byte, h driver.Stream) error {
	const call = "cuMemcpyHtoDAsync"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	if err := d.reserved(call, s, dst, uint64(len(src))); err != nil {
		return err
	}
	d.enqueue(s, work{uses: d.pinned(src), do: func() *driver.Error {
		a, at, err := s.device.span(dst, uint64(len(src)))
		if err != nil {
			return d.misuse(call, driver.IllegalAddress, "%v", err)
		}
		copy(a.data[at:], src)
		for _, o := range d.observers {
			o.hostWrite(a, at, uint64(len(src)), nil, 0)
		}
		return nil
	}})
	return nil
}

// reserved checks at a copy's call that its memory exists.
func (d *Driver) reserved(call string, s *stream, at driver.Ptr, bytes uint64) error {
	if _, _, err := s.device.span(at, bytes); err != nil && bytes > 0 {
		return d.misuse(call, driver.InvalidValue, "%v", err)
	}
	return nil
}

func (d *Driver) CopyToHost(dst []byte, src driver.Ptr, h driver.Stream) error {
	const call = "cuMemcpyDtoHAsync"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	if err := d.reserved(call, s, src, uint64(len(dst))); err != nil {
		return err
	}
	d.enqueue(s, work{uses: d.pinned(dst), do: func() *driver.Error {
		a, at, err := s.device.span(src, uint64(len(dst)))
		if err != nil {
			return d.misuse(call, driver.IllegalAddress, "%v", err)
		}
		for _, o := range d.observers {
			o.hostRead(a, at, uint64(len(dst)))
		}
		copy(dst, a.data[at:])
		return nil
	}})
	return nil
}

func (d *Driver) CopyOnDevice(dst, src driver.Ptr, bytes uint64, h driver.Stream) error {
	const call = "cuMemcpyDtoDAsync"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	for _, p := range [2]driver.Ptr{dst, src} {
		if err := d.reserved(call, s, p, bytes); err != nil {
			return err
		}
	}
	d.enqueue(s, work{do: func() *driver.Error {
		a, at, err := s.device.span(dst, bytes)
		if err != nil {
			return d.misuse(call, driver.IllegalAddress, "%v", err)
		}
		b, from, err := s.device.span(src, bytes)
		if err != nil {
			return d.misuse(call, driver.IllegalAddress, "%v", err)
		}
		if a == b && at < from+bytes && from < at+bytes && at != from {
			return d.misuse(call, driver.InvalidValue, "source and destination overlap")
		}
		copy(a.data[at:at+bytes], b.data[from:from+bytes])
		for _, o := range d.observers {
			o.hostWrite(a, at, bytes, b, from)
		}
		return nil
	}})
	return nil
}

func (d *Driver) Fill(dst driver.Ptr, value byte, bytes uint64, h driver.Stream) error {
	const call = "cuMemsetD8Async"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	if err := d.reserved(call, s, dst, bytes); err != nil {
		return err
	}
	d.enqueue(s, work{do: func() *driver.Error {
		a, at, err := s.device.span(dst, bytes)
		if err != nil {
			return d.misuse(call, driver.IllegalAddress, "%v", err)
		}
		b := a.data[at : at+bytes]
		for i := range b {
			b[i] = value
		}
		for _, o := range d.observers {
			o.hostWrite(a, at, bytes, nil, 0)
		}
		return nil
	}})
	return nil
}

func (d *Driver) Launch(l driver.Launch) error {
	const call = "cuLaunchKernel"
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.function(call, l.Func)
	if err != nil {
		return err
	}
	s, err := d.stream(call, l.Stream)
	if err != nil {
		return err
	}
	k := f.kernel
	threads := uint64(l.Block.X) * uint64(l.Block.Y) * uint64(l.Block.Z)
	most, _ := d.attribute(driver.MaxThreadsPerBlock)
	req := k.reqntid
	switch {
	case f.module.device != s.device:
		return d.misuse(call, driver.InvalidContext, "kernel %s is of another device", k.name)
	case l.Grid.X == 0 || l.Grid.Y == 0 || l.Grid.Z == 0 || l.Grid.X > 1<<31-1 || l.Grid.Y > 65535 || l.Grid.Z > 65535:
		return d.misuse(call, driver.InvalidValue, "kernel %s: a grid of %v blocks", k.name, l.Grid)
	case threads == 0 || l.Block.X > 1024 || l.Block.Y > 1024 || l.Block.Z > 64 || threads > uint64(most):
		return d.misuse(call, driver.InvalidValue, "kernel %s: a block of %v threads", k.name, l.Block)
	case req[0] > 0 && (l.Block != driver.Dim{X: uint32(req[0]), Y: uint32(req[1]), Z: uint32(req[2])}),
		threads > uint64(k.threads()):
		return d.misuse(call, driver.InvalidValue, "kernel %s: a block of %v threads, expected %v", k.name, l.Block, req)
	case len(l.Params) != k.bytes:
		return d.misuse(call, driver.InvalidValue, "kernel %s: %d bytes of parameters, expected %d", k.name, len(l.Params), k.bytes)
	case int64(l.Shared) > int64(f.dynamic):
		return d.misuse(call, driver.InvalidValue, "kernel %s: %d bytes of dynamic shared memory, at most %d are set", k.name,
			l.Shared, f.dynamic)
	}
	params := append([]byte(nil), l.Params...)
	d.enqueue(s, work{uses: f.module, do: func() *driver.Error {
		d.launches++
		run := &launch{device: s.device, kernel: k, number: d.launches, grid: l.Grid, block: l.Block, dynamic: l.Shared,
			params: params, observers: d.observers, rand: random{d.options.Seed + uint64(d.launches)*0x9e3779b9},
			approx: d.options.Seed, budget: d.options.Instructions, allowed: d.options.Instructions}
		fault := run.execute()
		d.clock += run.allowed - run.budget
		if fault != nil {
			return fail(call, fault.code, "%s", fault.text)
		}
		return nil
	}})
	return nil
}

func (d *Driver) BeginCapture(h driver.Stream) error {
	const call = "cuStreamBeginCapture"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	if s.graph != nil {
		return d.misuse(call, driver.InvalidValue, "the stream is captured already")
	}
	d.drain(s)
	s.graph, s.origin = &graph{members: []*stream{s}}, true
	return nil
}

func (d *Driver) EndCapture(h driver.Stream) (driver.Graph, error) {
	const call = "cuStreamEndCapture"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, failed := d.on(call, h)
	if s == nil { // a call that fails also ends the capture
		s = d.streams[h]
	}
	if failed != nil && (s == nil || s.graph == nil || !s.origin) {
		return 0, failed
	}
	if s.graph == nil || !s.origin {
		return 0, d.misuse(call, driver.InvalidValue, "the capture did not begin on the stream")
	}
	g := s.graph
	for _, m := range g.members {
		m.graph, m.origin = nil, false
	}
	for _, e := range d.events {
		if e.graph == g {
			e.graph = nil
		}
	}
	if failed != nil {
		return 0, failed
	}
	if g.broken {
		return 0, fail(call, 901, "a call that was not permitted ended the capture")
	}
	out := driver.Graph(d.handle())
	d.graphs[out] = g
	return out, nil
}

func (d *Driver) Instantiate(h driver.Graph) (driver.Exec, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work("cuGraphInstantiate"); err != nil {
		return 0, err
	}
	g := d.graphs[h]
	if g == nil {
		return 0, d.misuse("cuGraphInstantiate", driver.InvalidHandle, "graph %#x", uintptr(h))
	}
	out := driver.Exec(d.handle())
	d.execs[out] = &graph{work: slices.Clone(g.work)}
	return out, nil
}

func (d *Driver) LaunchGraph(x driver.Exec, h driver.Stream) error {
	const call = "cuGraphLaunch"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	g := d.execs[x]
	if g == nil {
		return d.misuse(call, driver.InvalidHandle, "executable graph %#x", uintptr(x))
	}
	if s.graph != nil {
		s.graph.broken = true
		return d.misuse(call, captureUnsupported, "while the stream is captured")
	}
	for _, w := range g.work {
		d.enqueue(s, w)
	}
	return nil
}

func (d *Driver) DestroyGraph(h driver.Graph) error {
	return destroy(d, "cuGraphDestroy", d.graphs, h, "graph")
}

func (d *Driver) DestroyExec(x driver.Exec) error {
	return destroy(d, "cuGraphExecDestroy", d.execs, x, "executable graph")
}

// destroy removes a handle.
func destroy[H ~uintptr](d *Driver, call string, of map[H]*graph, h H, kind string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work(call); err != nil {
		return err
	}
	if of[h] == nil {
		return d.misuse(call, driver.InvalidHandle, "%s %#x", kind, uintptr(h))
	}
	delete(of, h)
	return nil
}
