package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// commands are a segment with its addresses.
type commands struct {
	*segment
	Segment
	list []Command
	runs int
}

func (e *executable) compileAll(list []*segment) (all []*commands, err error) {
	for _, s := range list {
		c, err := e.compile(s)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// compile makes the commands of a segment.
func (e *executable) compile(s *segment) (*commands, error) {
	c := &commands{segment: s}
	for _, it := range s.items {
		e.Binding.Steps().Pause()
		x := Command{unit: it.unit}
		switch {
		case it.faults:
			x.Kind, x.Host, x.Src = ToHost, e.faults(), e.addressOf(e.plan.memory.faults[0].buffer)
			x.What = "the copy of the units' faults"
		case it.work != nil:
			w := it.work
			x.Kind, x.Launch, x.Bytes, x.Byte = w.Kind, w.Launch, w.Bytes, w.Byte
			x.Dst, x.Src = e.addressOf(w.Dst)+Ptr(w.DstAt), e.addressOf(w.Src)+Ptr(w.SrcAt)
		case it.toDevice:
			x.Kind, x.Host, x.Dst = ToDevice, e.reached(it.v), e.addressOf(e.plan.b.Uses(it.v))
			x.What = "the copy of " + it.v.Name + " to the device"
		default:
			x.Kind, x.Host, x.Src = ToHost, e.reached(it.v), e.addressOf(e.plan.b.Uses(it.v))
			x.What = "the copy of " + it.v.Name + " to the host"
		}
		c.list = append(c.list, x)
	}
	var err error
	c.Segment, err = e.stream.Compile(c.list, e.addressOf, e.timed())
	return c, err
}

func (e *executable) addressOf(x Buffer) Ptr {
	if x == 0 {
		return 0
	}
	return e.address[x-1]
}

// timed reports whether the times of the commands are measured.
func (e *executable) timed() bool { return !e.nested && e.p.Config.Profile }

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
			return fmt.Errorf("value %s: expected %d bytes of %v%s, found %s", v.Name, len(to), e.Binding.DType(v),
				tensor.ShapeString(e.Binding.Shape(v)), tensor.Describe(e.Datum(v)))
		}
		ops.Put(steps, e.reached(v), t.Bytes())
	}
	c.runs++
	err := c.Issue(ctx, c.runs > 1 && len(c.list) > 1)
	// Issued work may still access memory that the next run uses.
	if waited := e.stream.Synchronize(); err == nil && waited != nil {
		err = asynchronous(c, waited)
	}
	if err != nil {
		return err
	}
	if err := e.times.read(c); err != nil {
		return err
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
func asynchronous(c *commands, err error) error {
	first, last := c.list[0].unit, c.list[len(c.list)-1].unit
	for i := len(c.list) - 1; i >= 0 && last == nil; i-- { // copies at the end of the program belong to no unit
		last = c.list[i].unit
	}
	if first == nil || first == last {
		return first.failed(err)
	}
	return fmt.Errorf("one of the nodes from %s to %s: %w", first.name(), last.name(), err)
}
