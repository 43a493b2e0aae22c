package device

import (
	"context"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// kept is one stream's states in the memory of the device.
type kept struct {
	p     *program
	at    Ptr
	bytes int
}

// Keep allocates memory of the device for the states of a stream.
func (p *program) Keep(bytes int64) (_ runtime.Kept, err error) {
	v := p.v
	k := &kept{p: p, bytes: int(bytes)}
	if k.at, err = v.Allocate(k.bytes, "the state of a stream"); err != nil {
		return nil, err
	}
	if err := v.Clear(k.at, k.bytes); err != nil {
		_ = v.Free([]Ptr{k.at})
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
func (k *kept) Read(dst []byte) error { return k.p.v.Download(dst[:k.bytes], k.at) }

// Write copies the states from src.
func (k *kept) Write(src []byte) error { return k.p.v.Upload(k.at, src[:k.bytes]) }

// Close frees the memory. The program does so for those still open.
func (k *kept) Close() error {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	if !k.p.kept[k] {
		return nil
	}
	delete(k.p.kept, k)
	return k.close()
}

func (k *kept) close() error { return k.p.v.Free([]Ptr{k.at}) }

// keeping runs an executable with kept states, by segments of its own. Their launches read and write the states at
// other addresses than Run's do, and copy none between device and host.
type keeping struct {
	States
	segments []*commands
	gather   Gather
	of       []Ptr // the memory of the streams of a step
}

// RunKept runs with states in the memory of the device. It copies states that the host computes with.
func (e *executable) RunKept(ctx context.Context, in, out []tensor.Datum, states int, of []runtime.Kept) error {
	if e.keeps == nil && !e.cannotKeep {
		if err := e.keep(states, len(of)); err != nil {
			return err
		}
	}
	if e.cannotKeep || e.keeps.Streams != len(of) {
		return e.runCopied(ctx, in, out, states, of)
	}
	k := e.keeps
	for i, x := range of {
		k.of[i] = x.(*kept).at
	}
	if err := k.gather.Enter(k.of); err != nil {
		return err
	}
	if err := e.run(ctx, in, out, k.segments); err != nil {
		return err
	}
	err := e.leave(false)
	if err != nil {
		// Some states may have been written back. The states before the step still exist: restore them.
		if undone := e.leave(true); undone != nil {
			e.p.v.Lose(err)
		}
	}
	return err
}

// leave copies states back to the streams.
func (e *executable) leave(undo bool) error {
	if err := e.keeps.gather.Leave(undo); err != nil {
		return err
	}
	return e.stream.Synchronize() // another stream may read them next
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

// keep creates the segments for kept states. It sets cannotKeep if the host reads or makes a state.
func (e *executable) keep(states, streams int) error {
	d := e.Binding
	inputs, outputs := d.Program.Inputs[len(d.Program.Inputs)-states:], d.Program.Outputs[len(d.Program.Outputs)-states:]
	k := &keeping{States: States{Streams: streams}, of: make([]Ptr, streams)}
	size := 0
	list := func(values []*lowering.Value) (all []State) {
		for _, x := range values {
			n := e.plan.bytes(x)
			all = append(all, State{size, n / streams})
			size += (n + align - 1) / align * align
		}
		return all
	}
	k.Before = list(inputs)
	k.Behind = list(outputs)
	if e.cannotKeep = !e.plan.keepable(inputs, outputs); e.cannotKeep || size == 0 {
		e.cannotKeep = true
		return nil
	}
	// A state that the step passes on unchanged has one address before and after it.
	at := map[Buffer]int{}
	for i, values := range [][]*lowering.Value{inputs, outputs} {
		for j, x := range values {
			s := &[][]State{k.Before, k.Behind}[i][j]
			b := e.plan.b.Uses(x)
			if b == 0 {
				continue
			}
			if old, ok := at[b]; ok {
				s.At = old
			}
			at[b] = s.At
		}
	}
	k.gather = e.stream.Gather(k.States)
	tables, host := k.gather.Bytes()
	what := "states of " + e.title()
	if err := e.Hold(int64(size+tables+host), what); err != nil {
		return err
	}
	memory, err := e.stream.Allocate(size+tables, what)
	if err != nil {
		return err
	}
	e.own = append(e.own, memory)
	var reached []byte
	if host > 0 {
		if reached, err = e.p.v.AllocateHost(host, what); err != nil {
			return err
		}
		e.hosts = append(e.hosts, reached)
	}
	if err := e.stream.Synchronize(); err != nil { // another stream writes
		return err
	}
	if err := k.gather.Place(memory, memory+Ptr(size), reached); err != nil {
		return err
	}
	address := e.address
	defer func() { e.address = address }()
	e.address = slices.Clone(address)
	for b, place := range at {
		e.address[b-1] = memory + Ptr(place)
	}
	gone := func(x *lowering.Value) bool { return slices.Contains(inputs, x) || slices.Contains(outputs, x) }
	for _, c := range e.segments {
		s := *c.segment
		s.enter, s.leave = slices.DeleteFunc(slices.Clone(s.enter), gone), slices.DeleteFunc(slices.Clone(s.leave), gone)
		s.items = slices.DeleteFunc(slices.Clone(s.items), func(it item) bool { return !it.faults && gone(it.v) })
		x, err := e.compile(&s)
		if err != nil {
			return err
		}
		k.segments = append(k.segments, x)
	}
	e.keeps = k
	return nil
}

// keepable reports whether only the device reads and makes the states.
func (p *plan) keepable(inputs, outputs []*lowering.Value) bool {
	d := p.d
	for i, v := range outputs {
		made := slices.ContainsFunc(p.segments, func(s *segment) bool { return s.leaves(v) })
		if p.bytes(v) > 0 && !made || slices.Contains(outputs[:i], v) {
			return false
		}
	}
	if p.hostReads(inputs...) || p.hostReads(outputs...) {
		return false
	}
	for i, v := range d.Program.Outputs {
		if slices.Contains(inputs, v) || i < len(d.Program.Outputs)-len(outputs) && slices.Contains(outputs, v) {
			return false
		}
	}
	return true
}
