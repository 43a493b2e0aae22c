package cpu

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// looped runs the body of a Loop or Scan for one executable. Carried values go to and fro between two places each; the last
// iteration, where it is known to be the last, puts them where the node's outputs lie.
type looped struct {
	s        *lowering.Step
	b        *lowering.LoopBody
	l        *lowering.LoopBinding
	iter     *tensor.Tensor // the number of the iteration
	stages   []loopStage
	late     *lateBody      // nil where shapes are known before the run
	args     []tensor.Datum // of an iteration
	results  []tensor.Datum
	ins      []part
	outs     []stack
	now      []tensor.Datum // the carried values
	temp     int            // of the arena, in numbers
	attached bool
}

// loopStage is what looped has for one of loopBinding.stages.
type loopStage struct {
	cond   *tensor.Tensor
	places [][2]*tensor.Tensor // of carried values; nil where the shape is not known
}

// part is a slice of a scanned input, or what an iteration gives to an output: a view of the whole where it lies there in one
// piece, else a copy.
type part struct {
	dtype                tensor.DType
	shape                []int
	axis                 int
	outer, length, inner int // of the whole; inner is the elements that follow each other
	backward             bool
	t                    *tensor.Tensor
}

// stack is a scan output that is put together.
type stack struct {
	lowering.ScanOut
	part
	typed  bool           // whether all parts are of one type, which is known
	direct bool           // the whole is the output itself
	whole  *tensor.Tensor // else what holds the parts
	parts  []tensor.Datum // or they by themselves, where they are not typed
	elems  int
}

// bodyKernel runs the iterations of a Loop or Scan as programs; nil where they have none.
func (d *binding) bodyKernel(s *lowering.Step) *boundKernel {
	l := d.Bodies[s]
	if l == nil {
		return nil
	}
	r := &looped{s: s, b: s.Body, l: l, iter: tensor.New(tensor.Int64), now: make([]tensor.Datum, len(s.Body.Carried)),
		args: make([]tensor.Datum, len(s.Body.Program.Inputs)), results: make([]tensor.Datum, len(s.Body.Program.Outputs))}
	if l.Open() {
		r.late = &lateBody{l: l}
	}
	if !r.plan(d) {
		return nil
	}
	return &boundKernel{run: r.run, subs: d.subs(l.Stages), temp: r.temp}
}

// out is an output of the node; nil where nobody wants it.
func (r *looped) out(i int) *lowering.Value {
	if i >= len(r.s.Out) {
		return nil
	}
	return r.s.Out[i]
}

// plan learns what is the same in all runs. It reports whether all parts can be cut out as bytes.
func (r *looped) plan(d *binding) bool {
	for _, c := range r.b.Scanned {
		v := r.s.In[c.Arg]
		whole := d.Shapes[v.ID]
		axis, err := ops.Axis(c.Axis, len(whole))
		if err != nil {
			return false
		}
		p := newPart(d.DTypes[v.ID], slices.Delete(slices.Clone(whole), axis, axis+1), axis, whole[axis], c.Backward)
		if p == nil {
			return false
		}
		r.ins = append(r.ins, *p)
		r.temp += p.temp()
	}
	for _, o := range r.b.Outs {
		k := stack{ScanOut: o}
		dtype, shape, ok := r.l.Part(r.b, o)
		if len(r.l.Stages) == 0 {
			dtype, shape, ok = lowering.DeclaredPart(o)
		}
		if ok {
			axis, err := ops.Axis(o.Axis, len(shape)+1)
			if err != nil {
				return false
			}
			p := newPart(dtype, shape, axis, r.l.Trip, o.Prepend)
			if p == nil {
				return false
			}
			k.part, k.typed = *p, true
			v := r.out(o.Res)
			k.direct = v != nil && r.l.Trip >= 0 && d.DTypes[v.ID] == dtype && slices.Equal(d.Shapes[v.ID], slices.Insert(slices.Clone(shape), axis, r.l.Trip))
			r.temp += p.temp()
		}
		r.outs = append(r.outs, k)
	}
	for _, x := range r.l.Stages {
		for _, c := range r.b.Carried {
			v := r.b.Program.Outputs[c.Out]
			r.temp += 2 * room(x.DTypes[v.ID], x.Shapes[v.ID])
		}
	}
	return true
}

// newPart makes a part without its tensor; nil for elements that are no whole bytes.
func newPart(dtype tensor.DType, shape []int, axis, length int, backward bool) *part {
	if !cut(dtype) {
		return nil
	}
	p := &part{dtype: dtype, shape: shape, axis: axis, length: length, backward: backward, outer: 1, inner: 1}
	for i, k := range shape {
		if i < axis {
			p.outer *= k
		} else {
			p.inner *= k
		}
	}
	return p
}

// room is the numbers of the arena that a tensor takes; none where it has no bytes, or no known shape.
func room(dtype tensor.DType, shape []int) int {
	n, err := tensor.Size(shape)
	if shape == nil || err != nil || dtype == tensor.String {
		return 0
	}
	return (tensor.ByteSize(dtype, n)/4 + scratchAlign) / scratchAlign * scratchAlign
}

// carve makes a tensor from the front of some memory.
func carve(from *[]float32, dtype tensor.DType, shape []int) *tensor.Tensor {
	size, _ := tensor.Size(shape)
	bytes, n := tensor.ByteSize(dtype, size), room(dtype, shape)
	mem := (*from)[:n]
	*from = (*from)[n:]
	clear(mem)
	t, err := tensor.FromBytes(dtype, shape, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), bytes))
	if err != nil { // not of zeros
		panic(err)
	}
	return t
}

// temp is the numbers that a copy takes.
func (p *part) temp() int {
	if p.outer == 1 {
		return 0
	}
	return room(p.dtype, p.shape)
}

// attach makes the tensor, which needs memory where it is a copy.
func (p *part) attach(temp *[]float32) {
	if p.outer == 1 {
		p.t = tensor.NewView(p.dtype, p.shape...)
	} else {
		p.t = carve(temp, p.dtype, p.shape)
	}
}

// forget lets go of what the tensor views.
func (p *part) forget() {
	if p.t != nil && p.outer == 1 {
		p.t.Rebase(nil, 0)
	}
}

// place is where iteration n finds its part.
func (p *part) place(n int) int {
	if p.backward {
		return p.length - 1 - n
	}
	return n
}

// read makes p.t the part of whole that iteration n reads.
func (p *part) read(whole *tensor.Tensor, n int) {
	at := p.place(n)
	if p.outer == 1 {
		p.t.Rebase(whole, at*p.inner)
		return
	}
	size := tensor.ByteSize(p.dtype, p.inner)
	for o := range p.outer {
		from := (o*p.length + at) * size
		copy(p.t.Bytes()[o*size:(o+1)*size], whole.Bytes()[from:from+size])
	}
}

// write copies p.t to where iteration n has its part, unless it is there.
func (p *part) write(whole *tensor.Tensor, n int) {
	if p.outer == 1 {
		return
	}
	at, size := p.place(n), tensor.ByteSize(p.dtype, p.inner)
	for o := range p.outer {
		to := (o*p.length + at) * size
		copy(whole.Bytes()[to:to+size], p.t.Bytes()[o*size:(o+1)*size])
	}
}

// attach makes the tensors that iterations read and write, in the memory that the executable gives.
func (r *looped) attach(u *unit) {
	if r.attached {
		return
	}
	r.attached = true
	temp := u.temp
	for i := range r.ins {
		r.ins[i].attach(&temp)
	}
	for i := range r.outs {
		if r.outs[i].typed {
			r.outs[i].attach(&temp)
		}
	}
	for _, x := range r.l.Stages {
		var st loopStage
		if r.b.Loop {
			if v := r.b.Program.Outputs[0]; x.Constant(v) == nil && x.Shapes[v.ID] != nil && x.DTypes[v.ID] == tensor.Bool {
				st.cond = tensor.New(tensor.Bool, x.Shapes[v.ID]...)
			}
		}
		for _, c := range r.b.Carried {
			var p [2]*tensor.Tensor
			if v := r.b.Program.Outputs[c.Out]; room(x.DTypes[v.ID], x.Shapes[v.ID]) > 0 {
				p[0], p[1] = carve(&temp, x.DTypes[v.ID], x.Shapes[v.ID]), carve(&temp, x.DTypes[v.ID], x.Shapes[v.ID])
			}
			st.places = append(st.places, p)
		}
		r.stages = append(r.stages, st)
	}
}

// run is the kernel.
func (r *looped) run(e *executable, u *unit) error {
	limit, more, ok := r.bounds(e)
	for _, sub := range u.subs {
		ok = ok && !sub.d.Refused
	}
	if !ok {
		return e.eval(r.s) // says what is wrong
	}
	defer r.forget()
	for i, c := range r.b.Carried {
		r.now[i] = e.datum(r.s.In[c.Arg])
	}
	if more && limit != 0 {
		r.attach(u)
	}
	n, direct := 0, false
	for ; more && n != limit; n++ {
		if err := e.ctx.Err(); err != nil { // the body may be empty
			return err
		}
		k := min(n, len(r.l.Stages)-1)
		sub, st := u.subs[k], &r.stages[k]
		direct = n == r.l.Trip-1
		err := r.prepare(e, sub, st, n, direct)
		if err == nil && r.late != nil {
			sub, err = r.late.executable(e, u, sub, r.args)
		}
		if err == nil {
			err = sub.Run(e.ctx, r.args, r.results)
		}
		if err == nil {
			more, err = r.take(n)
		}
		if err != nil {
			return fmt.Errorf("iteration %d: %w", n, err)
		}
	}
	return r.finish(e, n, direct)
}

// bounds reads how many iterations there may be, negative for any number, and whether there is a first.
func (r *looped) bounds(e *executable) (limit int, more, ok bool) {
	if !r.b.Loop {
		return r.l.Trip, true, true
	}
	limit, more = -1, true
	if !r.s.Absent(0) {
		if d := e.datum(r.s.In[0]); d != nil {
			t, isTensor := d.(*tensor.Tensor)
			if !isTensor || t.DType() != tensor.Int64 || t.Len() != 1 {
				return 0, false, false
			}
			limit = int(min(max(tensor.Data[int64](t)[0], 0), lowering.MostNumbers))
		}
	}
	if !r.s.Absent(1) {
		if d := e.datum(r.s.In[1]); d != nil {
			t, isTensor := d.(*tensor.Tensor)
			if !isTensor || t.DType() != tensor.Bool || t.Len() != 1 {
				return 0, false, false
			}
			more = tensor.Data[bool](t)[0]
		}
	}
	return limit, more, true
}

// prepare puts together what iteration n reads and writes.
func (r *looped) prepare(e *executable, sub *executable, st *loopStage, n int, last bool) error {
	in, out := r.args, r.results
	if r.b.Loop {
		tensor.Data[int64](r.iter)[0] = int64(n)
		in[0], out[0] = r.iter, nil
		if st.cond != nil {
			out[0] = st.cond
		}
	}
	for i, c := range r.b.Carried {
		in[c.In], out[c.Out] = r.now[i], nil
		if p := st.places[i][n&1]; p != nil {
			out[c.Out] = p
			if v := r.out(c.Res); last && v != nil && sub.fits(c.Out, e.d.Shapes[v.ID]) && sub.d.DTypes[sub.p.Outputs[c.Out].ID] == e.d.DTypes[v.ID] {
				out[c.Out] = e.datum(v)
			}
		}
	}
	for i, c := range r.b.Scanned {
		p := &r.ins[i]
		p.read(e.datum(r.s.In[c.Arg]).(*tensor.Tensor), n)
		in[c.In] = p.t
	}
	for i, v := range r.b.Captured {
		in[len(in)-len(r.b.Captured)+i] = e.datum(v)
	}
	for i := range r.outs {
		k := &r.outs[i]
		out[k.Out] = nil
		v := r.out(k.Res)
		if v == nil || !k.typed {
			continue
		}
		if k.direct {
			k.whole = e.datum(v).(*tensor.Tensor)
		} else if err := k.grow(e, n, r.l.Trip); err != nil {
			return err
		}
		if k.outer == 1 {
			k.t.Rebase(k.whole, k.place(n)*k.inner)
		}
		out[k.Out] = k.t
	}
	return nil
}

// grow makes the room for part n.
func (k *stack) grow(e *executable, n, trip int) error {
	size := k.outer * k.inner
	if k.whole != nil && (trip >= 0 || (n+1)*size <= k.whole.Len()) {
		return nil
	}
	parts := max(2*n, 16)
	if trip >= 0 {
		parts = trip
	}
	if err := e.affords(k.dtype, parts, size); err != nil {
		if parts = n + 1; trip >= 0 || e.affords(k.dtype, parts, size) != nil {
			return err
		}
	}
	old := k.whole
	k.whole = tensor.New(k.dtype, parts*size)
	if old != nil {
		copy(k.whole.Bytes(), old.Bytes())
	}
	return nil
}

// affords refuses scan outputs that are larger than what an evaluation may make, or than the memory that is allowed.
func (e *executable) affords(dtype tensor.DType, parts, size int) error {
	n, err := tensor.Size([]int{parts, size})
	if err != nil || n > ops.MaxElems {
		return fmt.Errorf("scan outputs have more than %d elements", ops.MaxElems)
	}
	if need, limit := e.bytes+int64(tensor.ByteSize(dtype, n)), memoryLimit(e.p.Config.MaxMemory, ram.Total()); need > limit {
		return &runtime.MemoryError{Need: need, Limit: limit, What: "a scan output"}
	}
	return nil
}

// take keeps what iteration n gave, and reports whether there is to be another.
func (r *looped) take(n int) (more bool, err error) {
	out := r.results
	more = true
	if r.b.Loop {
		t, ok := out[0].(*tensor.Tensor)
		if !ok || t == nil || t.DType() != tensor.Bool || t.Len() != 1 {
			return false, fmt.Errorf("condition: expected one bool, found %v", out[0])
		}
		more = tensor.Data[bool](t)[0]
	}
	for i, c := range r.b.Carried {
		r.now[i] = out[c.Out]
	}
	for i := range r.outs {
		k := &r.outs[i]
		switch {
		case r.out(k.Res) == nil:
		case k.typed:
			k.write(k.whole, n)
		default:
			t, ok := out[k.Out].(*tensor.Tensor)
			if !ok || t == nil {
				return false, fmt.Errorf("scan output %d is not a tensor", i)
			}
			if k.elems += t.Len(); k.elems > ops.MaxElems {
				return false, fmt.Errorf("scan outputs have more than %d elements", ops.MaxElems)
			}
			k.parts = append(k.parts, t)
		}
	}
	return more, nil
}

// finish gives the node's outputs after n iterations; direct says that the last one has put carried values where they belong, as far
// as it could.
func (r *looped) finish(e *executable, n int, direct bool) error {
	store := func(i int, d tensor.Datum) error {
		v := r.out(i)
		if v == nil || direct && d == e.datum(v) {
			return nil
		}
		if err := e.store(v, d); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
		return nil
	}
	for i, c := range r.b.Carried {
		if err := store(c.Res, r.now[i]); err != nil {
			return err
		}
	}
	for _, c := range r.b.Kept {
		if err := store(c.Res, e.datum(r.s.In[c.Arg])); err != nil {
			return err
		}
	}
	for i := range r.outs {
		k := &r.outs[i]
		if k.direct || r.out(k.Res) == nil {
			continue
		}
		t, err := k.join(n)
		if err != nil {
			return fmt.Errorf("scan output %d: %w", i, err)
		}
		if err := store(k.Res, t); err != nil {
			return err
		}
	}
	return nil
}

// join gives the output that n parts make.
func (k *stack) join(n int) (*tensor.Tensor, error) {
	if n == 0 {
		dtype, shape, ok := lowering.DeclaredPart(k.ScanOut)
		axis, err := ops.Axis(k.ScanOut.Axis, len(shape)+1)
		if !ok {
			return nil, errors.New("is not a tensor")
		}
		if err != nil {
			return nil, err
		}
		return tensor.New(dtype, slices.Insert(shape, axis, 0)...), nil
	}
	if k.typed {
		t := tensor.New(k.dtype, slices.Insert(slices.Clone(k.shape), k.part.axis, n)...)
		copy(t.Bytes(), k.whole.Bytes())
		return t, nil
	}
	if k.Prepend {
		slices.Reverse(k.parts)
	}
	node := &ir.Node{Op: std.ConcatFromSequence, Attrs: ir.Attrs{}.With("axis", k.ScanOut.Axis).With("new_axis", int64(1))}
	res, err := node.Op.Eval(&ir.EvalCtx{Node: node}, []tensor.Datum{&tensor.Sequence{Items: k.parts}})
	if err != nil {
		return nil, err
	}
	return res[0].(*tensor.Tensor), nil
}

// forget drops what belongs to the run that ends.
func (r *looped) forget() {
	clear(r.args)
	clear(r.results)
	clear(r.now)
	for i := range r.ins {
		r.ins[i].forget()
	}
	for i := range r.outs {
		k := &r.outs[i]
		k.forget()
		k.parts, k.elems = nil, 0
		if k.direct {
			k.whole = nil
		}
	}
}
