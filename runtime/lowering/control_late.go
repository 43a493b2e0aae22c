package lowering

import (
	"encoding/binary"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// lateBody binds a loop's body during the run, if shapes of its inputs are not known before: they change from one
// iteration to the next, or are not known for the loop's own inputs. It binds the body once for each set of shapes,
// and keeps the executables, because caches that grow have the same shapes in the next run. Bodies with very little
// to compute are not bound, since evaluation of the steps of unknown shape takes less time.
type lateBody struct {
	l       *LoopBinding
	carried []carried
	nester  Nester
	made    map[string]*lateRunner
	list    []*lateRunner // made, in any order
	turn    uint32        // determines which one is replaced next
	now     *lateRunner   // of this iteration; nil if none of made
	key     []byte        // the shapes of this iteration
	spare   bool          // the account has been told that made can be dropped
	rooms   []carriedRoom // per carried value
}

type lateRunner struct {
	r     Runner
	key   string
	views [][2]*tensor.Tensor // per carried value: its result, in the memory of carriedRoom; nil if there is none
	grows []bool              // per carried value: its result may use its own memory
}

// lateNumbers is the minimum number of elements, in inputs and constants, of a body that is bound.
const lateNumbers = 1 << 7

// runner returns the executable for the inputs of an iteration: sub, the executable of d, or one for their shapes.
func (b *lateBody) runner(f *Frame, d *Binding, sub Runner, in []tensor.Datum) (Runner, error) {
	b.now = nil
	if d.accepts(in) {
		return sub, nil
	}
	b.key = appendShapes(b.key[:0], in)
	if x := b.made[string(b.key)]; x != nil {
		b.now = x
		return x.r, nil
	}
	if numbers(d.Program, in) < lateNumbers {
		return sub, nil
	}
	types := make([]ir.Type, len(in))
	for i, v := range d.Program.Inputs {
		if t, ok := in[i].(*tensor.Tensor); ok && t != nil {
			types[i] = TypeOf(t.DType(), t.Shape())
		}
		if !agrees(v.Type, types[i]) {
			return sub, nil
		}
	}
	d = d.Program.bind(runtime.Binding{Inputs: types}, b.l.known, d.memory, newKnown(), d.checks)
	if d.err != nil || d.refused {
		return sub, nil // fails with the operator's error
	}
	return b.nest(f, d)
}

// nest makes an executable of d, and keeps it. If there are too many, it drops another one, but not the oldest,
// which would always be the next to be needed again.
func (b *lateBody) nest(f *Frame, d *Binding) (Runner, error) {
	if len(b.list) >= b.nester.Keeps() {
		b.turn = b.turn*1664525 + 1013904223
		if err := b.drop(int(uint64(b.turn) * uint64(len(b.list)) >> 32)); err != nil {
			return nil, err
		}
	}
	r, err := b.nester.Nest(d)
	if err != nil {
		return nil, err
	}
	x := &lateRunner{r: r, key: string(b.key)}
	for _, c := range b.carried {
		var p [2]*tensor.Tensor
		if v := d.Program.Outputs[c.Out]; d.Placed(v) && !d.DType(v).Packed() {
			p = [2]*tensor.Tensor{tensor.NewView(d.DType(v), d.Shape(v)...), tensor.NewView(d.DType(v), d.Shape(v)...)}
		}
		x.views = append(x.views, p)
		a, ok := r.(Appender)
		x.grows = append(x.grows, ok && p[0] != nil && a.Appends(c.In, c.Out))
	}
	if b.made == nil {
		b.made = map[string]*lateRunner{}
	}
	b.made[x.key], b.list, b.now = x, append(b.list, x), x
	if !b.spare {
		b.spare = true
		f.memory.spares = append(f.memory.spares, &spare{f, b.unused})
	}
	return r, nil
}

// drop frees one executable.
func (b *lateBody) drop(i int) error {
	x, last := b.list[i], len(b.list)-1
	b.list[i], b.list[last] = b.list[last], nil
	b.list = b.list[:last]
	delete(b.made, x.key)
	return b.nester.Drop(x.r)
}

// unused frees all executables but that of this iteration. It is called when the account is full.
func (b *lateBody) unused() bool {
	for i := len(b.list) - 1; i >= 0; i-- {
		if b.list[i] != b.now && b.drop(i) != nil { // the device fails, and so will the rest of the run
			return false
		}
	}
	b.spare = len(b.list) > 0
	return !b.spare
}

// appendShapes appends the types of all tensors among in.
func appendShapes(key []byte, in []tensor.Datum) []byte {
	for _, d := range in {
		t, ok := d.(*tensor.Tensor)
		if !ok || t == nil {
			key = append(key, 0xff)
			continue
		}
		key = binary.AppendUvarint(append(key, byte(t.DType())), uint64(t.Rank()))
		for _, n := range t.Shape() {
			key = binary.AppendUvarint(key, uint64(n))
		}
	}
	return key
}

// accepts reports whether all inputs have the bound shapes.
func (d *Binding) accepts(in []tensor.Datum) bool {
	for i, v := range d.Program.Inputs {
		t, ok := in[i].(*tensor.Tensor)
		if ok && t != nil && (d.Shape(v) == nil || d.DType(v) != t.DType() || !slices.Equal(d.Shape(v), t.Shape())) {
			return false
		}
	}
	return true
}

// numbers returns the number of elements in the inputs and constants of a program.
func numbers(p *Program, in []tensor.Datum) int {
	sum := 0
	for _, d := range in {
		if t, ok := d.(*tensor.Tensor); ok && t != nil {
			sum += t.Len()
		}
	}
	for _, v := range p.Values {
		if t := v.Fixed(); t != nil {
			sum += t.Len()
		}
	}
	return sum
}

// carriedRoom is the memory of a carried value whose shape changes: two tensors that are used alternately, unless an
// iteration appends. When they grow, they get space for half as much again. They are kept from run to run.
type carriedRoom struct {
	base  [2]*tensor.Tensor // of one axis; nil before the first use
	last  int               // the one written last
	idle  bool              // no run uses it
	spare bool              // the account has been told that it can be dropped
}

// place returns the tensor to which iteration n, with x, writes carried value i, whose current value is in. If it is
// nil, the body makes a tensor.
func (b *lateBody) place(f *Frame, x *lateRunner, i, n int, in tensor.Datum) (*tensor.Tensor, error) {
	t, room := x.views[i][n&1], &b.rooms[i]
	if t == nil {
		return nil, nil
	}
	room.idle = false
	if !x.grows[i] || !room.begins(in) || room.base[room.last].Len() < t.Len() {
		room.last = 1 - room.last
	}
	at := &room.base[room.last]
	if base := *at; base == nil || base.DType() != t.DType() || base.Len() < t.Len() {
		size := t.Len()
		if room.spare { // it has grown before
			size = max(size, min(size+size/2, ops.MaxElems))
		}
		if base != nil {
			f.release(int64(len(base.Bytes())))
			*at = nil
		}
		hold := func() error {
			return f.Hold(int64(tensor.ByteSize(t.DType(), size)), "a carried value, with memory already held,")
		}
		if err := hold(); err != nil {
			if size = t.Len(); hold() != nil {
				return nil, err
			}
		}
		*at = tensor.NewParts(f.pause, t.DType(), size)
		if !room.spare {
			room.spare = true
			f.memory.spares = append(f.memory.spares, &spare{f, func() bool { return room.drop(f) }})
		}
	}
	t.Rebase(*at, 0)
	return t, nil
}

// begins reports whether d starts at the start of the memory that was written last.
func (m *carriedRoom) begins(d tensor.Datum) bool {
	t, ok := d.(*tensor.Tensor)
	base := m.base[m.last]
	return ok && t != nil && base != nil && t.Len() > 0 && base.DType() == t.DType() && &t.Bytes()[0] == &base.Bytes()[0]
}

// drop releases the memory if no run uses it, and reports whether it has.
func (m *carriedRoom) drop(f *Frame) bool {
	if !m.idle {
		return false
	}
	for k, t := range m.base {
		if t != nil {
			f.release(int64(len(t.Bytes())))
			m.base[k] = nil
		}
	}
	m.spare = false
	return true
}

// has reports whether d is in the memory.
func (m *carriedRoom) has(d tensor.Datum) bool {
	t, ok := d.(*tensor.Tensor)
	return ok && t != nil && (m.base[0] != nil && overlap(t.Bytes(), m.base[0].Bytes()) ||
		m.base[1] != nil && overlap(t.Bytes(), m.base[1].Bytes()))
}

// outside returns carried value i, copied if it is in memory of b.
func (b *lateBody) outside(f *Frame, i int, d tensor.Datum) (tensor.Datum, error) {
	if !b.rooms[i].has(d) {
		return d, nil
	}
	if err := f.Take(f.sizeOf(d), "a carried value"); err != nil {
		return nil, err
	}
	return d.(*tensor.Tensor).CloneParts(f.pause), nil
}

// forget drops the references to the data of the run.
func (b *lateBody) forget() {
	b.now = nil
	for _, x := range b.list {
		for _, p := range x.views {
			if p[0] != nil {
				p[0].Rebase(nil, 0)
				p[1].Rebase(nil, 0)
			}
		}
	}
	for i := range b.rooms {
		b.rooms[i].idle, b.rooms[i].last = true, 0 // the next run uses them in the same order
	}
}
