package cuda

import (
	"context"
	"fmt"
	"time"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/device"
)

// stream is a stream of the driver with the kernels of its program.
type stream struct {
	v       *card
	modules *modules
	s       driver.Stream
	events  []driver.Event // between the commands of timed segments
}

// NewStream creates a stream.
func (u *modules) NewStream() (device.Stream, error) {
	x := &stream{v: u.v, modules: u}
	err := u.v.do(func() (err error) {
		x.s, err = u.v.drv.CreateStream()
		return err
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Allocate returns memory of the card in the order of the stream.
func (x *stream) Allocate(bytes int, what string) (device.Ptr, error) {
	at, err := x.v.allocate(bytes, x.s, what)
	return device.Ptr(at), err
}

// Synchronize waits until all work is done.
func (x *stream) Synchronize() error { return x.v.synchronize(x.s) }

// Free frees memory and graphs. It keeps host memory if the card is lost, because the card may still write to it.
func (x *stream) Free(segments []device.Segment, memory []device.Ptr, host [][]byte) error {
	v := x.v
	return v.release(func(note func(error)) {
		for _, s := range segments {
			if g := s.(*segment).graph; g != 0 {
				note(v.drv.DestroyExec(g))
			}
		}
		for _, at := range memory {
			note(v.drv.Free(driver.Ptr(at), x.s))
		}
		if v.Lost() == nil {
			for _, b := range host {
				note(v.drv.FreeHost(b))
			}
		}
	})
}

// Close destroys the stream and its events.
func (x *stream) Close() error {
	v := x.v
	var waited error
	if v.Lost() == nil { // the pool returns free memory when the host synchronizes
		waited = x.Synchronize()
	}
	err := v.release(func(note func(error)) {
		for _, e := range x.events {
			note(v.drv.DestroyEvent(e))
		}
		note(v.drv.DestroyStream(x.s))
	})
	if waited != nil {
		return waited
	}
	return err
}

// segment is a list of commands of a stream. It is recorded as a graph when it runs again.
type segment struct {
	*stream
	list  []device.Command
	calls []driver.Launch // of the commands that launch kernels
	graph driver.Exec     // 0 until it is recorded
	timed bool
}

// Compile compiles the kernels of the commands.
func (x *stream) Compile(list []device.Command, address func(device.Buffer) device.Ptr, timed bool) (device.Segment,
	error) {
	s := &segment{stream: x, list: list, calls: make([]driver.Launch, len(list))}
	at := func(b kernel.Buffer) driver.Ptr { return driver.Ptr(address(device.Buffer(b))) }
	for i := range list {
		if c, ok := list[i].Launch.(*record.Call); ok {
			f, err := x.modules.function(c.Code)
			if err != nil {
				return nil, list[i].Failed(err)
			}
			s.calls[i] = c.Launch(f, x.s, at)
		}
	}
	if !timed || len(list) == 0 {
		return s, nil
	}
	return s, x.v.do(func() error {
		for len(x.events) <= len(list) { // one before each command, and one after the last
			e, err := x.v.drv.CreateEvent(true)
			if err != nil {
				return err
			}
			x.events = append(x.events, e)
		}
		s.timed = true
		return nil
	})
}

// Issue gives the stream the commands: as a graph if the segment runs again and is not timed.
func (s *segment) Issue(ctx context.Context, again bool) error {
	if (again || s.graph != 0) && !s.timed {
		return s.launchGraph()
	}
	return s.v.do(func() error {
		for i := range s.list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.mark(i); err != nil {
				return err
			}
			if err := s.command(i); err != nil {
				return err
			}
		}
		return s.mark(len(s.list))
	})
}

// mark records the event before a command.
func (s *segment) mark(i int) error {
	if !s.timed {
		return nil
	}
	return s.v.drv.Record(s.events[i], s.s)
}

// Times returns the times between the events.
func (s *segment) Times(f func(int, time.Duration)) error {
	return s.v.do(func() error {
		for i := range s.list {
			ms, err := s.v.drv.Elapsed(s.events[i], s.events[i+1])
			if err != nil {
				return err
			}
			f(i, time.Duration(float64(ms)*float64(time.Millisecond)))
		}
		return nil
	})
}

// command gives the stream one command. It runs on the thread that issues work.
func (s *segment) command(i int) (err error) {
	drv, c := s.v.drv, &s.list[i]
	dst, src := driver.Ptr(c.Dst), driver.Ptr(c.Src)
	switch c.Kind {
	case device.Launches:
		err = drv.Launch(s.calls[i])
	case device.ToDevice:
		err = drv.CopyToDevice(dst, c.Host, s.s)
	case device.ToHost:
		err = drv.CopyToHost(c.Host, src, s.s)
	case device.Fill:
		err = drv.Fill(dst, c.Byte, uint64(c.Bytes), s.s)
	default:
		err = drv.CopyOnDevice(dst, src, uint64(c.Bytes), s.s)
	}
	if err != nil && c.What != "" {
		err = fmt.Errorf("%s: %w", c.What, err)
	}
	if err != nil {
		return c.Failed(err)
	}
	return nil
}

// launchGraph launches the segment as a whole, and records it the first time.
func (s *segment) launchGraph() error {
	return s.v.do(func() error {
		if s.graph == 0 {
			if err := s.capture(); err != nil {
				return err
			}
		}
		return s.v.drv.LaunchGraph(s.graph, s.s)
	})
}

// capture records the segment.
func (s *segment) capture() error {
	drv := s.v.drv
	if err := drv.BeginCapture(s.s); err != nil {
		return err
	}
	var failed error
	for i := range s.list {
		if failed = s.command(i); failed != nil {
			break
		}
	}
	g, err := drv.EndCapture(s.s)
	if failed != nil {
		if err == nil {
			_ = drv.DestroyGraph(g)
		}
		return failed
	}
	if err != nil {
		return err
	}
	x, err := drv.Instantiate(g)
	if destroyed := drv.DestroyGraph(g); err == nil && destroyed != nil {
		_ = drv.DestroyExec(x)
		err = destroyed
	}
	if err == nil {
		s.graph = x
	}
	return err
}
