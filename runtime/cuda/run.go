package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// commands are a segment with its addresses.
type commands struct {
	*segment
	list  []command
	runs  int
	graph driver.Exec // 0 until it is recorded
}

// command is an item in the driver's terms.
type command struct {
	unit     *unit
	launch   driver.Launch // of a kernel, if Func is set
	work     *record.Work  // for Fill and Copy
	dst, src driver.Ptr
	memory   []byte // for a copy from or to the host
	toDevice bool
	what     string // describes a copy in messages
}

func (e *executable) compileAll(list []*segment) (all []*commands, err error) {
	for _, s := range list {
		c, err := e.compile(s)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// compile makes the commands of a segment, and compiles its kernels.
func (e *executable) compile(s *segment) (*commands, error) {
	c := &commands{segment: s}
	for _, it := range s.items {
		e.Binding.Steps().Pause()
		x := command{unit: it.unit}
		switch {
		case it.faults:
			x.memory, x.dst, x.what = e.faults(), e.addressOf(e.plan.memory.faults[0].buffer), "the copy of the units' faults"
		case it.work == nil:
			x.memory, x.toDevice = e.reached(it.v), it.toDevice
			x.dst = e.addressOf(e.plan.b.Uses(it.v))
			x.what = "the copy of " + it.v.Name + " to the host"
			if it.toDevice {
				x.what = "the copy of " + it.v.Name + " to the device"
			}
		case it.work.Call != nil:
			f, err := e.p.modules.function(it.work.Call.Code)
			if err != nil {
				return nil, e.failed(it.unit, err)
			}
			x.launch = it.work.Call.Launch(f, e.stream, e.addressOf)
		default:
			w := it.work
			x.work = w
			x.dst, x.src = e.addressOf(w.Dst)+driver.Ptr(w.DstAt), e.addressOf(w.Src)+driver.Ptr(w.SrcAt)
		}
		c.list = append(c.list, x)
	}
	return c, nil
}

func (e *executable) addressOf(x kernel.Buffer) driver.Ptr {
	if x == 0 {
		return 0
	}
	return e.address[x-1]
}

// failed adds the node of a unit to an error.
func (e *executable) failed(u *unit, err error) error {
	if u == nil {
		return err
	}
	return &runtime.NodeError{Node: u.steps[0].Source, Err: err}
}

// reached returns the host memory at which the device reads and writes a value.
func (e *executable) reached(v *lowering.Value) []byte {
	l, n := &e.plan.memory, e.plan.bytes(v)
	if at, ok := l.staged[v]; ok {
		return e.pinned[l.places+at:][:n:n]
	}
	return e.pinned[l.held[v].at:][:n:n]
}

// Run computes the outputs. It checks ctx between launches, and returns only when none of its work runs on the
// device any more.
func (e *executable) Run(ctx context.Context, in, out []tensor.Datum) error {
	return e.run(ctx, in, out, e.segments)
}

// run runs segments: those of the plan, or replacements for them.
func (e *executable) run(ctx context.Context, in, out []tensor.Datum, segments []*commands) (err error) {
	defer runtime.Ended(&err)
	defer e.End()
	if err := e.p.v.Lost(); err != nil {
		return err
	}
	if err := e.Begin(ctx, in, out); err != nil {
		return err
	}
	for i, c := range segments {
		if err := e.runSegment(ctx, c); err != nil {
			return err
		}
		if i < len(e.plan.hosts) {
			if err := e.runHost(ctx, e.plan.units[e.plan.hosts[i]]); err != nil {
				return err
			}
		}
	}
	e.times.end()
	return e.Finish(out)
}

// runHost runs a unit of the host.
func (e *executable) runHost(ctx context.Context, u *unit) (err error) {
	s := u.steps[0]
	defer func() {
		if v := recover(); v != nil {
			err = s.Recovered(v)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	if u.control != nil {
		err = u.control.Run(ctx, &e.Frame)
	} else {
		err = e.Evaluate(ctx, s)
	}
	e.times.host(u, time.Since(start))
	return s.Failure(ctx, err)
}

// runSegment makes the device execute a segment, and waits for it.
func (e *executable) runSegment(ctx context.Context, c *commands) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(c.list) == 0 {
		return nil
	}
	steps := e.Binding.Steps()
	for _, v := range c.enter {
		if _, ok := e.plan.memory.staged[v]; !ok {
			continue
		}
		t, ok := e.Datum(v).(*tensor.Tensor)
		if to := e.reached(v); !ok || len(t.Bytes()) != len(to) {
			return fmt.Errorf("cuda: value %s: expected %d bytes of %v%s, found %s", v.Name, len(to), e.Binding.DType(v),
				tensor.ShapeString(e.Binding.Shape(v)), tensor.Describe(e.Datum(v)))
		}
		ops.Put(steps, e.reached(v), t.Bytes())
	}
	c.runs++
	var err error
	switch {
	case e.times != nil:
		err = e.measured(ctx, c)
	case c.graph != 0 || c.runs > 1 && len(c.list) > 1:
		err = e.launchGraph(c)
	default:
		err = e.issue(ctx, c.list)
	}
	// Issued work may still access memory that the next run uses.
	if waited := e.p.v.synchronize(e.stream); err == nil && waited != nil {
		err = e.asynchronous(c, waited)
	}
	if err != nil {
		return err
	}
	if e.times != nil {
		if err := e.times.read(e.p.v, c); err != nil {
			return err
		}
	}
	if c.faults {
		if err := e.fault(); err != nil {
			return err
		}
	}
	for _, v := range c.leave {
		if _, ok := e.plan.memory.staged[v]; ok {
			ops.Put(steps, e.Datum(v).(*tensor.Tensor).Bytes(), e.reached(v))
		}
	}
	return nil
}

// faults is the memory at which the host reads the faults of units.
func (e *executable) faults() []byte {
	l := &e.plan.memory
	return e.pinned[l.places+l.faultsAt:][:faultBytes*len(l.faults)]
}

// fault returns the error of the first unit that has refused its inputs.
func (e *executable) fault() error {
	b := e.faults()
	for i, f := range e.plan.memory.faults {
		if binary.LittleEndian.Uint32(b[faultBytes*i:]) != 0 {
			return &runtime.NodeError{Node: f.unit.steps[0].Source, Err: errors.New(f.message)}
		}
	}
	return nil
}

// asynchronous is the error of work that was issued earlier. It belongs to one of the segment's units.
func (e *executable) asynchronous(c *commands, err error) error {
	first, last := c.list[0].unit, c.list[len(c.list)-1].unit
	for i := len(c.list) - 1; i >= 0 && last == nil; i-- { // copies at the end of the program belong to no unit
		last = c.list[i].unit
	}
	if first == nil || first == last {
		return e.failed(first, err)
	}
	return fmt.Errorf("one of the nodes from %s to %s: %w", first.name(), last.name(), err)
}

// issue gives the stream its commands one by one.
func (e *executable) issue(ctx context.Context, list []command) error {
	v := e.p.v
	return v.do(func() error {
		for i := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := e.command(&list[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// command gives the stream one command. It runs on the thread that issues work.
func (e *executable) command(x *command) (err error) {
	drv := e.p.v.drv
	switch {
	case x.launch.Func != 0:
		err = drv.Launch(x.launch)
	case x.work == nil && x.toDevice:
		err = drv.CopyToDevice(x.dst, x.memory, e.stream)
	case x.work == nil:
		err = drv.CopyToHost(x.memory, x.dst, e.stream)
	case x.work.Kind == record.Fill:
		err = drv.Fill(x.dst, x.work.Byte, uint64(x.work.Bytes), e.stream)
	default:
		err = drv.CopyOnDevice(x.dst, x.src, uint64(x.work.Bytes), e.stream)
	}
	if err != nil && x.what != "" {
		err = fmt.Errorf("%s: %w", x.what, err)
	}
	if err != nil {
		return e.failed(x.unit, err)
	}
	return nil
}

// launchGraph launches a segment as a whole, and records it the first time.
func (e *executable) launchGraph(c *commands) error {
	v := e.p.v
	return v.do(func() error {
		if c.graph == 0 {
			if err := e.capture(c); err != nil {
				return err
			}
		}
		if err := v.drv.LaunchGraph(c.graph, e.stream); err != nil {
			return e.failed(nil, err)
		}
		return nil
	})
}

// capture records a segment.
func (e *executable) capture(c *commands) error {
	drv := e.p.v.drv
	if err := drv.BeginCapture(e.stream); err != nil {
		return e.failed(nil, err)
	}
	var failed error
	for i := range c.list {
		if failed = e.command(&c.list[i]); failed != nil {
			break
		}
	}
	g, err := drv.EndCapture(e.stream)
	if failed != nil {
		if err == nil {
			_ = drv.DestroyGraph(g)
		}
		return failed
	}
	if err != nil {
		return e.failed(nil, err)
	}
	x, err := drv.Instantiate(g)
	if destroyed := drv.DestroyGraph(g); err == nil && destroyed != nil {
		_ = drv.DestroyExec(x)
		err = destroyed
	}
	if err != nil {
		return e.failed(nil, err)
	}
	c.graph = x
	return nil
}
