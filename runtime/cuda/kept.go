package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/lowering"
)

// kept is the place of one stream's states in the memory of the device.
type kept struct {
	p     *program
	at    driver.Ptr
	bytes int
}

// Keep makes a place for the states of a stream, in the memory of the device.
func (p *program) Keep(bytes int64) (_ runtime.Kept, err error) {
	v := p.v
	k := &kept{p: p, bytes: int(bytes)}
	k.at, err = v.allocate(k.bytes, v.stream)
	var full *outOfMemory
	if errors.As(err, &full) {
		return nil, &runtime.MemoryError{Need: bytes, Limit: full.free,
			What: fmt.Sprintf("the state of a stream, in the memory of %s,", v.name)}
	}
	if err != nil {
		return nil, err
	}
	err = v.do(func() error { return v.drv.Fill(k.at, 0, uint64(k.bytes), v.stream) })
	if err == nil {
		err = v.synchronize(v.stream)
	}
	if err != nil {
		_ = v.release(func(note func(error)) { note(v.drv.Free(k.at, v.stream)) })
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[*kept]bool{}
	}
	p.kept[k] = true
	return k, nil
}

// Read copies the states to dst.
func (k *kept) Read(dst []byte) error { return k.p.v.download(dst[:k.bytes], k.at) }

// Write copies the states from src.
func (k *kept) Write(src []byte) error { return k.p.v.upload(k.at, src[:k.bytes]) }

// Close gives the place back. The program does so for those that are not closed before it.
func (k *kept) Close() error {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	if !k.p.kept[k] {
		return nil
	}
	delete(k.p.kept, k)
	return k.close()
}

func (k *kept) close() error {
	v := k.p.v
	return v.release(func(note func(error)) { note(v.drv.Free(k.at, v.stream)) })
}

// keeping is how an executable runs with states that are kept: by segments in which copies on the device stand for those from
// and to the host. Between them and the places of the streams lie states of the executable's own, at addresses that do not
// change, so that the segments are recorded as others are.
type keeping struct {
	segments []*commands
	memory   driver.Ptr // of the states before the step, then of those behind it
	before   []state
	behind   []state
}

// state is one of the states, of all streams.
type state struct {
	at    int // from keeping.memory
	bytes int
}

// RunKept runs with states in the memory of the device. Where the host computes with a state, it is copied.
func (e *executable) RunKept(ctx context.Context, in, out []tensor.Datum, states int, of []runtime.Kept) error {
	if e.keeps == nil && !e.cannotKeep {
		if err := e.keep(states); err != nil {
			return err
		}
	}
	if e.cannotKeep {
		return e.runCopied(ctx, in, out, states, of)
	}
	if err := e.exchange(of, e.keeps.before, true); err != nil {
		return err
	}
	if err := e.run(ctx, in, out, e.keeps.segments); err != nil {
		return err
	}
	err := e.exchange(of, e.keeps.behind, false)
	if err != nil {
		// Some have been copied. The states before the step are still there.
		if undone := e.exchange(of, e.keeps.before, false); undone != nil {
			e.p.v.lose(err)
		}
	}
	return err
}

// exchange copies all states between the places of the streams and the executable's.
func (e *executable) exchange(of []runtime.Kept, states []state, enter bool) error {
	v := e.p.v
	err := v.do(func() error {
		for i, k := range of {
			at := k.(*kept).at
			for _, s := range states {
				n := s.bytes / len(of)
				mine := e.keeps.memory + driver.Ptr(s.at+i*n)
				dst, src := mine, at
				if !enter {
					dst, src = at, mine
				}
				if n > 0 {
					if err := v.drv.CopyOnDevice(dst, src, uint64(n), e.stream); err != nil {
						return err
					}
				}
				at += driver.Ptr(n)
			}
		}
		return nil
	})
	if err != nil || enter {
		return err
	}
	return v.synchronize(e.stream) // another stream may read them next
}

// runCopied runs with copies of the states on the host.
func (e *executable) runCopied(ctx context.Context, in, out []tensor.Datum, states int, of []runtime.Kept) error {
	part := func(d tensor.Datum, i int) []byte {
		b := d.(*tensor.Tensor).Bytes()
		n := len(b) / len(of)
		return b[i*n : (i+1)*n]
	}
	for i, k := range of {
		all := make([]byte, k.(*kept).bytes)
		if err := k.Read(all); err != nil {
			return err
		}
		for _, d := range in[len(in)-states:] {
			all = all[copy(part(d, i), all):]
		}
	}
	if err := e.Run(ctx, in, out); err != nil {
		return err
	}
	for i, k := range of {
		var all []byte
		for _, d := range out[len(out)-states:] {
			all = append(all, part(d, i)...)
		}
		if err := k.Write(all); err != nil {
			return err
		}
	}
	return nil
}

// keep makes the segments for states that are kept. It sets cannotKeep where the host reads a state, or makes one.
func (e *executable) keep(states int) error {
	d, v := e.Binding, e.p.v
	inputs, outputs := d.Program.Inputs[len(d.Program.Inputs)-states:], d.Program.Outputs[len(d.Program.Outputs)-states:]
	k := &keeping{}
	size := 0
	list := func(values []*lowering.Value) (all []state) {
		for _, x := range values {
			n := e.plan.bytes(x)
			all = append(all, state{size, n})
			size += (n + align - 1) / align * align
		}
		return all
	}
	k.before = list(inputs)
	k.behind = list(outputs)
	if e.cannotKeep = !e.plan.keepable(inputs, outputs); e.cannotKeep || size == 0 {
		e.cannotKeep = true
		return nil
	}
	if err := e.Hold(int64(size), "states of "+e.title()); err != nil {
		return err
	}
	at, err := v.allocate(size, e.stream)
	if err != nil {
		return err
	}
	e.own = append(e.own, at)
	k.memory = at
	for _, c := range e.segments {
		s := *c.segment
		gone := func(x *lowering.Value) bool { return slices.Contains(inputs, x) || slices.Contains(outputs, x) }
		s.enter, s.leave = slices.DeleteFunc(slices.Clone(s.enter), gone), slices.DeleteFunc(slices.Clone(s.leave), gone)
		x := &commands{segment: &s}
		for i, y := range c.list {
			if it := c.items[i]; it.work == nil && !it.faults {
				if j := slices.Index(inputs, it.v); it.toDevice && j >= 0 {
					y = command{unit: y.unit, what: y.what, bytes: k.before[j].bytes, src: k.memory + driver.Ptr(k.before[j].at), dst: y.dst}
				} else if j := slices.Index(outputs, it.v); !it.toDevice && j >= 0 {
					y = command{unit: y.unit, what: y.what, bytes: k.behind[j].bytes, dst: k.memory + driver.Ptr(k.behind[j].at), src: y.dst}
				}
			}
			x.list = append(x.list, y)
		}
		k.segments = append(k.segments, x)
	}
	e.keeps = k
	return nil
}

// keepable reports whether the device alone reads and makes states.
func (p *plan) keepable(inputs, outputs []*lowering.Value) bool {
	d := p.d
	for i, v := range outputs {
		made := false
		for _, s := range p.segments {
			for _, it := range s.items {
				made = made || it.work == nil && !it.toDevice && it.v == v
			}
		}
		if p.bytes(v) > 0 && !made || slices.Contains(outputs[:i], v) {
			return false
		}
	}
	for _, u := range p.units {
		if u.work != nil {
			continue
		}
		for _, v := range reads(u.steps[0]) {
			if slices.Contains(inputs, v) || slices.Contains(outputs, v) {
				return false
			}
		}
	}
	for _, v := range d.Program.Outputs {
		if slices.Contains(inputs, v) {
			return false
		}
	}
	for _, v := range d.Program.Outputs[:len(d.Program.Outputs)-len(outputs)] {
		if slices.Contains(outputs, v) {
			return false
		}
	}
	return true
}
