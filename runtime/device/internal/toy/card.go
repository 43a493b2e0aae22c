package toy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/device"
)

// card is the device.
type card struct {
	mu     sync.Mutex
	next   device.Ptr
	memory []*region // by address
	hosts  [][]byte
	lost   error
}

// region is memory of the device.
type region struct {
	at     device.Ptr
	data   []byte
	guards [][2]device.Ptr // from, to
}

// bytes returns memory of the device for work that uses all of it.
func (c *card) bytes(at device.Ptr, n int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.find(at)
	if r == nil || int(at-r.at)+n > len(r.data) {
		return nil, fmt.Errorf("toy: %d bytes at %#x are not in the memory of the device", n, at)
	}
	for _, g := range r.guards {
		if at < g[1] && g[0] < at+device.Ptr(n) {
			return nil, fmt.Errorf("toy: %d bytes at %#x: a guard is from %#x to %#x", n, at, g[0], g[1])
		}
	}
	return r.data[at-r.at:][:n:n], nil
}

// find returns the last region that starts at or before an address, or nil.
func (c *card) find(at device.Ptr) *region {
	i, found := slices.BinarySearchFunc(c.memory, at, func(r *region, at device.Ptr) int { return int(r.at) - int(at) })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return c.memory[i]
}

// guard makes work that uses a part of the memory fail.
func (c *card) guard(at device.Ptr, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, g := c.find(at), [2]device.Ptr{at, at + device.Ptr(n)}
	if !slices.Contains(r.guards, g) {
		r.guards = append(r.guards, g)
	}
}

func (c *card) Lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *card) Lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = fmt.Errorf("toy: the device is lost: %w", err)
}

func (c *card) Allocate(bytes int, what string) (device.Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("toy: %s: %d bytes", what, bytes)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &region{at: c.next, data: tensor.AlignedBytes(bytes)}
	fill(r.data, device.Forgotten)
	c.next += device.Ptr(bytes+2*256-1) / 256 * 256 // with a gap
	c.memory = append(c.memory, r)
	return r.at, nil
}

func (c *card) Free(list []device.Ptr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range list {
		i := slices.IndexFunc(c.memory, func(r *region) bool { return r.at == at })
		if i < 0 {
			return fmt.Errorf("toy: memory at %#x is freed, but it was not allocated", at)
		}
		c.memory = slices.Delete(c.memory, i, i+1)
	}
	return nil
}

func (c *card) Clear(at device.Ptr, bytes int) error {
	b, err := c.bytes(at, bytes)
	clear(b)
	return err
}

func (c *card) Upload(to device.Ptr, data []byte) error {
	b, err := c.bytes(to, len(data))
	copy(b, data)
	return err
}

func (c *card) Download(data []byte, from device.Ptr) error {
	b, err := c.bytes(from, len(data))
	copy(data, b)
	return err
}

func (c *card) AllocateHost(bytes int, _ string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := tensor.AlignedBytes(bytes)
	c.hosts = append(c.hosts, b)
	return b, nil
}

// reaches reports whether copies may use memory of the host.
func (c *card) reaches(b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return slices.ContainsFunc(c.hosts, func(h []byte) bool {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(h)))
		return from <= at && at+uintptr(len(b)) <= from+uintptr(len(h))
	})
}

func (c *card) Close() error {
	if len(c.memory)+len(c.hosts) > 0 {
		return fmt.Errorf("toy: not freed: %d pieces of memory of the device, %d of the host", len(c.memory), len(c.hosts))
	}
	return nil
}

// NewModules returns nothing to load: kernels are functions.
func (c *card) NewModules() device.Modules { return modules{c} }

type modules struct{ *card }

func (m modules) NewStream() (device.Stream, error) { return &stream{card: m.card}, nil }
func (m modules) Close() error                      { return nil }

// stream is work that waits for Synchronize.
type stream struct {
	*card
	queue []func() error
}

func (s *stream) Synchronize() error {
	queue := s.queue
	s.queue = nil
	for _, f := range queue {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) Free(_ []device.Segment, memory []device.Ptr, host [][]byte) error {
	if len(s.queue) > 0 {
		return fmt.Errorf("toy: memory is freed that waiting work may use")
	}
	s.mu.Lock()
	for _, b := range host {
		s.hosts = slices.DeleteFunc(s.hosts, func(h []byte) bool { return unsafe.SliceData(h) == unsafe.SliceData(b) })
	}
	s.mu.Unlock()
	return s.card.Free(memory)
}

func (s *stream) Close() error {
	if len(s.queue) > 0 {
		return fmt.Errorf("toy: a stream is closed while work waits")
	}
	return nil
}

func (s *stream) Compile(list []device.Command, address func(device.Buffer) device.Ptr, _ bool) (device.Segment,
	error) {
	x := &segment{stream: s, list: list, calls: make([]call, len(list)), times: make([]time.Duration, len(list))}
	for i, c := range list {
		if c.Kind == device.Launches {
			k := c.Launch.(*kernel)
			x.calls[i] = call{k, make([]device.Ptr, len(k.operands))}
			for j, o := range k.operands {
				x.calls[i].at[j] = address(o.buffer)
			}
		}
	}
	return x, nil
}

// segment is a list of commands.
type segment struct {
	*stream
	list  []device.Command
	calls []call // of the commands that launch kernels
	times []time.Duration
}

// call is a kernel with the addresses of its operands.
type call struct {
	kernel *kernel
	at     []device.Ptr
}

func (s *segment) Issue(ctx context.Context, _ bool) error {
	for i := range s.list {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.queue = append(s.queue, func() error {
			start := time.Now()
			err := s.command(i)
			s.times[i] = time.Since(start)
			return err
		})
	}
	return nil
}

func (s *segment) Times(f func(int, time.Duration)) error {
	for i, t := range s.times {
		f(i, t)
	}
	return nil
}

func (s *segment) command(i int) error {
	switch c := &s.list[i]; c.Kind {
	case device.Launches:
		if err := s.launch(s.calls[i]); err != nil {
			return c.Failed(err)
		}
		return nil
	case device.ToDevice, device.ToHost:
		if !s.reaches(c.Host) {
			return fmt.Errorf("toy: %s: the device does not reach this memory of the host", c.What)
		}
		if c.Kind == device.ToDevice {
			return s.Upload(c.Dst, c.Host)
		}
		return s.Download(c.Host, c.Src)
	case device.Fill:
		if c.Byte == device.Guarded {
			s.guard(c.Dst, c.Bytes)
			return nil
		}
		b, err := s.bytes(c.Dst, c.Bytes)
		fill(b, c.Byte)
		return err
	default:
		from, err := s.bytes(c.Src, c.Bytes)
		if err != nil {
			return err
		}
		return s.Upload(c.Dst, from)
	}
}

// launch runs a kernel.
func (s *segment) launch(c call) error {
	args := make([]*tensor.Tensor, len(c.at))
	for i, o := range c.kernel.operands {
		n, err := tensor.Size(o.shape)
		if err != nil {
			return err
		}
		var b []byte
		if n > 0 {
			if b, err = s.bytes(c.at[i], tensor.ByteSize(o.dtype, n)); err != nil {
				return fmt.Errorf("kernel %s: %w", c.kernel.name, err)
			}
		}
		if args[i], err = tensor.FromBytes(o.dtype, o.shape, b); err != nil {
			return err
		}
	}
	c.kernel.run(args)
	return nil
}

func fill(b []byte, value byte) {
	if value == device.Forgotten {
		value = 0xff // NaN in all floating-point types
	}
	for i := range b {
		b[i] = value
	}
}

// gather copies the states of one stream after the other.
type gather struct {
	*stream
	device.States
	memory device.Ptr
	of     []device.Ptr
}

func (s *stream) Gather(of device.States) device.Gather { return &gather{stream: s, States: of} }

func (g *gather) Bytes() (device, host int) { return 0, 0 }

func (g *gather) Place(states, _ device.Ptr, _ []byte) error {
	g.memory = states
	return nil
}

func (g *gather) Enter(of []device.Ptr) error {
	g.of = slices.Clone(of)
	return g.move(g.Before, func(array, stream []byte) { copy(array, stream) })
}

func (g *gather) Leave(undo bool) error {
	states := g.Behind
	if undo {
		states = g.Before
	}
	return g.move(states, func(array, stream []byte) { copy(stream, array) })
}

func (g *gather) move(states []device.State, one func(array, stream []byte)) error {
	g.queue = append(g.queue, func() error {
		for i, at := range g.of {
			for _, x := range states {
				array, err := g.bytes(g.memory+device.Ptr(x.At+i*x.Bytes), x.Bytes)
				if err != nil {
					return err
				}
				stream, err := g.bytes(at, x.Bytes)
				if err != nil {
					return err
				}
				one(array, stream)
				at += device.Ptr(x.Bytes)
			}
		}
		return nil
	})
	return nil
}
