package cuda

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// kept is one stream's states in the memory of the device.
type kept struct {
	p     *program
	at    driver.Ptr
	bytes int
}

// Keep allocates memory of the device for the states of a stream.
func (p *program) Keep(bytes int64) (_ runtime.Kept, err error) {
	v := p.v
	k := &kept{p: p, bytes: int(bytes)}
	if k.at, err = v.allocate(k.bytes, v.stream, "the state of a stream"); err != nil {
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

func (k *kept) close() error { return k.p.constants.free([]driver.Ptr{k.at}) }

// keeping runs an executable with kept states, by segments of its own. Their kernels read and write the states at
// other addresses than Run's kernels do, and copy none between device and host. One launch gathers the states of all
// streams, and one scatters them, by a table of the streams' addresses.
type keeping struct {
	segments []*commands
	memory   driver.Ptr // the states before the step, then those after it
	before   []state
	behind   []state

	streams      int
	enter, leave driver.Launch // gather before the step, scatter after it
	undo         driver.Launch // restores the states before the step
	places       driver.Ptr    // the table of the streams' addresses
	list         []byte        // the same table in pinned host memory
}

// state is one of the states, for all streams.
type state struct {
	at    int // offset in keeping.memory
	bytes int
}

// RunKept runs with states in the memory of the device. It copies states that the host computes with.
func (e *executable) RunKept(ctx context.Context, in, out []tensor.Datum, states int, of []runtime.Kept) error {
	if e.keeps == nil && !e.cannotKeep {
		if err := e.keep(states, len(of)); err != nil {
			return err
		}
	}
	if e.cannotKeep || e.keeps.streams != len(of) {
		return e.runCopied(ctx, in, out, states, of)
	}
	if err := e.enter(of); err != nil {
		return err
	}
	if err := e.run(ctx, in, out, e.keeps.segments); err != nil {
		return err
	}
	err := e.leave(e.keeps.leave)
	if err != nil {
		// Some states may have been written back. The states before the step still exist: restore them.
		if undone := e.leave(e.keeps.undo); undone != nil {
			e.p.v.lose(err)
		}
	}
	return err
}

// enter copies the states of the streams to the addresses that the executable reads.
func (e *executable) enter(of []runtime.Kept) error {
	v, k := e.p.v, e.keeps
	for i, x := range of {
		binary.LittleEndian.PutUint64(k.list[8*i:], uint64(x.(*kept).at))
	}
	return v.do(func() error {
		if err := v.drv.CopyToDevice(k.places, k.list, e.stream); err != nil {
			return err
		}
		return v.drv.Launch(k.enter)
	})
}

// leave copies states back to the streams, whose addresses enter has set.
func (e *executable) leave(l driver.Launch) error {
	v := e.p.v
	if err := v.do(func() error { return v.drv.Launch(l) }); err != nil {
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

// keep creates the segments for kept states. It sets cannotKeep if the host reads or makes a state.
func (e *executable) keep(states, streams int) error {
	d, v := e.Binding, e.p.v
	inputs, outputs := d.Program.Inputs[len(d.Program.Inputs)-states:], d.Program.Outputs[len(d.Program.Outputs)-states:]
	k := &keeping{streams: streams}
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
	// A state that the step passes on unchanged has one address before and after it.
	at := map[kernel.Buffer]int{}
	for i, values := range [][]*lowering.Value{inputs, outputs} {
		for j, x := range values {
			s := &[][]state{k.before, k.behind}[i][j]
			b := e.plan.b.Uses(x)
			if b == 0 {
				continue
			}
			if old, ok := at[b]; ok {
				s.at = old
			}
			at[b] = s.at
		}
	}
	tables := size // after the states: the pieces of those before and after the step, then the addresses
	for _, list := range [][]state{k.before, k.behind} {
		_, pieces := kernel.StatePieces(k.parts(list))
		size += kernel.StatePieceBytes * pieces
	}
	places := size
	size += 8 * streams
	what := "states of " + e.title()
	if err := e.Hold(int64(size+8*streams), what); err != nil {
		return err
	}
	var err error
	if k.memory, err = v.allocate(size, e.stream, what); err != nil {
		return err
	}
	e.own = append(e.own, k.memory)
	k.places = k.memory + driver.Ptr(places)
	if err := e.moves(k, k.memory+driver.Ptr(tables)); err != nil {
		return err
	}
	address := e.address
	defer func() { e.address = address }()
	e.address = slices.Clone(address)
	for b, place := range at {
		e.address[b-1] = k.memory + driver.Ptr(place)
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

// parts returns the offsets of states in the memory of the executable, and their sizes for one stream.
func (k *keeping) parts(states []state) (at, sizes []int) {
	for _, s := range states {
		at, sizes = append(at, s.at), append(sizes, s.bytes/k.streams)
	}
	return at, sizes
}

// moves creates the launches that copy states. Their tables start at address at.
func (e *executable) moves(k *keeping, at driver.Ptr) error {
	v := e.p.v
	if err := v.wait(func() (err error) {
		k.list, err = v.drv.AllocHost(8 * k.streams)
		return err
	}); err != nil {
		return err
	}
	e.hosts = append(e.hosts, k.list)
	if err := v.synchronize(e.stream); err != nil { // another stream writes
		return err
	}
	launch := func(leave bool, pieces int) (driver.Launch, error) {
		const table, places, memory kernel.Buffer = 1, 2, 3
		c := kernel.StatesMove{Leave: leave, Streams: k.streams, Pieces: pieces, Table: table, Places: places, Memory: memory}.Call()
		f, err := e.p.modules.function(c.Code)
		return c.Launch(f, e.stream, func(x kernel.Buffer) driver.Ptr {
			return map[kernel.Buffer]driver.Ptr{table: at, places: k.places, memory: k.memory}[x]
		}), err
	}
	for i, list := range [][]state{k.before, k.behind} {
		data, pieces := kernel.StatePieces(k.parts(list))
		err := v.upload(at, data)
		if err != nil {
			return err
		}
		if i == 1 {
			k.leave, err = launch(true, pieces)
		} else if k.enter, err = launch(false, pieces); err == nil {
			k.undo, err = launch(true, pieces)
		}
		if err != nil {
			return err
		}
		at += driver.Ptr(len(data))
	}
	return nil
}

// keepable reports whether only the device reads and makes the states.
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
