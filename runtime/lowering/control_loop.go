package lowering

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
)

// looping is the Control of a Loop or Scan. Each carried value alternates between two buffers. If the number of
// iterations is known, the last one writes carried values to the node's outputs.
type looping struct {
	s       *Step
	b       *loopBody
	l       *LoopBinding
	align   int
	iter    *tensor.Tensor // the iteration number
	runners []Runner
	repeats Repeater // the runner of the last stage, if it is a Repeater
	stages  []loopStage
	late    *lateBody      // nil if all shapes are known before the run
	args    []tensor.Datum // inputs of an iteration
	results []tensor.Datum
	ins     []part
	outs    []stack
	now     []tensor.Datum // carried values
	memory  int            // bytes
}

// loopStage has the buffers of one of LoopBinding.Stages.
type loopStage struct {
	cond   *tensor.Tensor
	places [][2]*tensor.Tensor // of carried values; nil if the shape is not known
}

// stack builds a scan output.
type stack struct {
	scanOut
	part
	typed  bool           // all parts have one type, which is known
	direct bool           // the whole is directly the output
	whole  *tensor.Tensor // has the parts; if not direct, it is kept from run to run
	idle   bool           // no run uses whole
	parts  []tensor.Datum // the parts, if not typed
	elems  int
}

// newLooping returns the Control of a Loop or Scan, or nil if the elements of a part are not whole bytes.
func (d *Binding) newLooping(s *Step, align int) *looping {
	b, l := s.body, d.bodies[s]
	r := &looping{s: s, b: b, l: l, align: align, iter: tensor.New(tensor.Int64),
		now: make([]tensor.Datum, len(b.Carried)), args: make([]tensor.Datum, len(b.Program.Inputs)),
		results: make([]tensor.Datum, len(b.Program.Outputs))}
	if l.Open() {
		r.late = &lateBody{l: l, carried: b.Carried, rooms: make([]carriedRoom, len(b.Carried))}
	}
	for _, c := range b.Scanned {
		v := s.In[c.Arg]
		whole := d.Shape(v)
		axis, err := ops.Axis(c.Axis, len(whole))
		if err != nil {
			return nil
		}
		p := newPart(d.DType(v), slices.Delete(slices.Clone(whole), axis, axis+1), axis, whole[axis], c.Backward)
		if p == nil {
			return nil
		}
		r.ins = append(r.ins, *p)
		r.memory += r.ofPart(p)
	}
	for _, o := range b.Outs {
		k := stack{scanOut: o}
		dtype, shape, ok := l.part(b, o)
		if len(l.Stages) == 0 {
			dtype, shape, ok = declaredPart(o)
		}
		if ok {
			axis, err := ops.Axis(o.Axis, len(shape)+1)
			if err != nil {
				return nil
			}
			p := newPart(dtype, shape, axis, l.Trip, o.Prepend)
			if p == nil {
				return nil
			}
			k.part, k.typed = *p, true
			v := r.out(o.Res)
			k.direct = v != nil && l.Trip >= 0 && d.DType(v) == dtype &&
				slices.Equal(d.Shape(v), slices.Insert(slices.Clone(shape), axis, l.Trip))
			r.memory += r.ofPart(p)
		}
		r.outs = append(r.outs, k)
	}
	for _, x := range l.Stages {
		for _, c := range b.Carried {
			v := b.Program.Outputs[c.Out]
			r.memory += 2 * r.room(x.DType(v), x.Shape(v))
		}
	}
	return r
}

// out returns output i of the node, or nil if it is absent.
func (r *looping) out(i int) *Value {
	if i >= len(r.s.Out) {
		return nil
	}
	return r.s.Out[i]
}

func (r *looping) Programs() []*Binding { return r.l.Stages }
func (r *looping) Memory() int          { return r.memory }

// Repeated returns the carried and the captured values of the last stage. The body of a loop with changing shapes
// has none.
func (r *looping) Repeated(k int) *Repeated {
	last := len(r.l.Stages) - 1
	if k != last || r.late != nil || r.l.Trip >= 0 && r.l.Trip-last < 2 {
		return nil
	}
	x := &Repeated{}
	for _, c := range r.b.Carried {
		x.Carried = append(x.Carried, Carried{c.In, c.Out})
	}
	for i := range r.b.Captured {
		x.Still = append(x.Still, len(r.args)-len(r.b.Captured)+i)
	}
	return x
}

// room returns the size of a tensor in bytes, or 0 for strings and for unknown shapes.
func (r *looping) room(dtype tensor.DType, shape []int) int {
	n, err := tensor.Size(shape)
	if shape == nil || err != nil || dtype == tensor.String {
		return 0
	}
	return (tensor.ByteSize(dtype, n) + r.align) / r.align * r.align
}

// ofPart returns the size of a part in bytes, or 0 for a view.
func (r *looping) ofPart(p *part) int {
	if p.outer == 1 {
		return 0
	}
	return r.room(p.dtype, p.shape)
}

// carve returns a tensor in the first bytes of from, and removes them from it.
func (r *looping) carve(from *[]byte, dtype tensor.DType, shape []int) *tensor.Tensor {
	size, _ := tensor.Size(shape)
	n := r.room(dtype, shape)
	mem := (*from)[:n]
	*from = (*from)[n:]
	pause := func() {}
	if len(r.l.Stages) > 0 {
		pause = r.l.Stages[0].Steps().Pause
	}
	t, err := tensor.FromBytesParts(pause, dtype, shape, mem[:tensor.ByteSize(dtype, size)])
	if err != nil { // happens for tensors that are not zeros
		panic(err)
	}
	return t
}

// attachPart makes the tensor of a part.
func (r *looping) attachPart(p *part, from *[]byte) {
	if p.outer == 1 {
		p.t = tensor.NewView(p.dtype, p.shape...)
	} else {
		p.t = r.carve(from, p.dtype, p.shape)
	}
}

// Attach makes the tensors that iterations read and write.
func (r *looping) Attach(runners []Runner, memory []byte, n Nester) {
	r.runners = slices.Clone(runners)
	if last := len(runners) - 1; last >= 0 && r.Repeated(last) != nil {
		r.repeats, _ = runners[last].(Repeater)
	}
	if r.late != nil {
		r.late.nester = n
	}
	for i := range r.ins {
		r.attachPart(&r.ins[i], &memory)
	}
	for i := range r.outs {
		if r.outs[i].typed {
			r.attachPart(&r.outs[i].part, &memory)
		}
	}
	for _, x := range r.l.Stages {
		var st loopStage
		if r.b.Loop {
			if v := r.b.Program.Outputs[0]; x.Constant(v) == nil && x.Shape(v) != nil && x.DType(v) == tensor.Bool {
				st.cond = tensor.New(tensor.Bool, x.Shape(v)...)
			}
		}
		for _, c := range r.b.Carried {
			var p [2]*tensor.Tensor
			if v := r.b.Program.Outputs[c.Out]; r.room(x.DType(v), x.Shape(v)) > 0 {
				p[0], p[1] = r.carve(&memory, x.DType(v), x.Shape(v)), r.carve(&memory, x.DType(v), x.Shape(v))
			}
			st.places = append(st.places, p)
		}
		r.stages = append(r.stages, st)
	}
}

func (r *looping) Run(ctx context.Context, f *Frame) error {
	limit, more, ok := r.bounds(f)
	for _, x := range r.l.Stages {
		ok = ok && !x.refused
	}
	if !ok {
		return f.Evaluate(ctx, r.s) // returns the operator's error
	}
	f.control = r
	defer func() {
		f.control = nil
		r.forget()
	}()
	for i, c := range r.b.Carried {
		r.now[i] = f.Datum(r.s.In[c.Arg])
	}
	n, direct, repeated := 0, false, false
	for ; more && n != limit; n++ {
		if err := ctx.Err(); err != nil { // the body may be empty
			return err
		}
		k := min(n, len(r.l.Stages)-1)
		direct = n == r.l.Trip-1
		err := r.prepare(f, k, n, direct)
		sub := r.runners[k]
		if err == nil && r.late != nil {
			sub, err = r.lateRunner(f, k, n)
		}
		switch {
		case err != nil:
		case r.repeats != nil && k == len(r.runners)-1:
			err = r.repeats.Repeat(ctx, !repeated, r.args, r.results)
			repeated = true
		default:
			err = sub.Run(ctx, r.args, r.results)
		}
		if err == nil {
			more, err = r.take(f, n)
		}
		if err != nil {
			return fmt.Errorf("iteration %d: %w", n, err)
		}
	}
	if repeated {
		if err := r.repeats.Fetch(ctx, r.results); err != nil {
			return err
		}
	}
	return r.finish(ctx, f, n, direct)
}

// lateRunner returns the executable for iteration n, and sets the outputs whose shapes its binding knows.
func (r *looping) lateRunner(f *Frame, k, n int) (Runner, error) {
	b, d := r.late, r.l.Stages[k]
	sub, err := b.runner(f, d, r.runners[k], r.args)
	if err != nil {
		return nil, err
	}
	for i, c := range r.b.Carried {
		switch {
		case r.results[c.Out] != nil:
		case b.now != nil:
			t, err := b.place(f, b.now, i, n, r.now[i])
			if err != nil {
				return nil, err
			}
			if t != nil {
				r.results[c.Out] = t
			}
		case d.Shape(d.Program.Inputs[c.In]) == nil: // the body does not know that others write there
			if r.args[c.In], err = b.outside(f, i, r.now[i]); err != nil {
				return nil, err
			}
			r.now[i] = r.args[c.In]
		}
	}
	return sub, nil
}

// bounds reads the maximum number of iterations, negative for no limit, and whether there is a first one. ok is
// false if the inputs have wrong types.
func (r *looping) bounds(f *Frame) (limit int, more, ok bool) {
	if !r.b.Loop {
		return r.l.Trip, true, true
	}
	limit, more = -1, true
	if !r.s.Absent(0) {
		if d := f.Datum(r.s.In[0]); d != nil {
			t, isTensor := d.(*tensor.Tensor)
			if !isTensor || t.DType() != tensor.Int64 || t.Len() != 1 {
				return 0, false, false
			}
			limit = int(min(max(tensor.Data[int64](t)[0], 0), mostNumbers))
		}
	}
	if !r.s.Absent(1) {
		if d := f.Datum(r.s.In[1]); d != nil {
			t, isTensor := d.(*tensor.Tensor)
			if !isTensor || t.DType() != tensor.Bool || t.Len() != 1 {
				return 0, false, false
			}
			more = tensor.Data[bool](t)[0]
		}
	}
	return limit, more, true
}

// prepare sets the inputs and the outputs of iteration n, which runs by stage k.
func (r *looping) prepare(f *Frame, k, n int, last bool) error {
	in, out := r.args, r.results
	sub, st, d := r.l.Stages[k], &r.stages[k], f.Binding
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
			if v := r.out(c.Res); last && v != nil && sub.gives(c.Out, d.Shape(v)) &&
				sub.DType(sub.Program.Outputs[c.Out]) == d.DType(v) {
				out[c.Out] = f.Datum(v)
			}
		}
	}
	for i, c := range r.b.Scanned {
		p := &r.ins[i]
		p.read(&f.memory.steps, f.Datum(r.s.In[c.Arg]).(*tensor.Tensor), n)
		in[c.In] = p.t
	}
	for i, v := range r.b.Captured {
		in[len(in)-len(r.b.Captured)+i] = f.Datum(v)
	}
	for i := range r.outs {
		k := &r.outs[i]
		out[k.Out] = nil
		v := r.out(k.Res)
		if v == nil || !k.typed {
			continue
		}
		if k.direct {
			k.whole = f.Datum(v).(*tensor.Tensor)
		} else if err := k.grow(f, n, r.l.Trip); err != nil {
			return err
		}
		if k.outer == 1 {
			k.t.Rebase(k.whole, k.place(n)*k.inner)
		}
		out[k.Out] = k.t
	}
	return nil
}

// grow provides memory for part n.
func (k *stack) grow(f *Frame, n, trip int) error {
	size := k.outer * k.inner
	k.idle = false
	if k.whole != nil && (trip >= 0 || (n+1)*size <= k.whole.Len()) {
		return nil
	}
	parts := max(2*n, 16)
	if trip >= 0 {
		parts = trip
	}
	if err := k.hold(f, parts, size); err != nil {
		if parts = n + 1; trip >= 0 || k.hold(f, parts, size) != nil {
			return err
		}
	}
	old := k.whole
	k.whole = tensor.NewParts(f.pause, k.dtype, parts*size)
	if old == nil {
		f.memory.spares = append(f.memory.spares, &spare{f, func() bool { return k.drop(f) }})
		return nil
	}
	ops.Put(&f.memory.steps, k.whole.Bytes(), old.Bytes())
	f.release(int64(len(old.Bytes())))
	return nil
}

// drop releases the memory if no run uses it, and reports whether it has.
func (k *stack) drop(f *Frame) bool {
	if !k.idle {
		return false
	}
	f.release(int64(len(k.whole.Bytes())))
	k.whole = nil
	return true
}

// hold charges the memory of a scan output, which is kept from run to run. It returns an error for more than
// ops.MaxElems elements, or above the memory limit.
func (k *stack) hold(f *Frame, parts, size int) error {
	n, err := tensor.Size([]int{parts, size})
	if err != nil || n > ops.MaxElems {
		return fmt.Errorf("scan outputs have more than %d elements", ops.MaxElems)
	}
	return f.Hold(int64(tensor.ByteSize(k.dtype, n)), "a scan output, with memory already held,")
}

// take stores the results of iteration n, and reports whether there is another iteration.
func (r *looping) take(f *Frame, n int) (more bool, err error) {
	out := r.results
	more = true
	if r.b.Loop {
		t, ok := out[0].(*tensor.Tensor)
		if !ok || t == nil || t.DType() != tensor.Bool || t.Len() != 1 {
			return false, fmt.Errorf("condition: expected one bool, found %s", tensor.Describe(out[0]))
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
			k.write(&f.memory.steps, k.whole, n)
		default:
			t, ok := out[k.Out].(*tensor.Tensor)
			if !ok || t == nil {
				return false, fmt.Errorf("scan output %d is not a tensor", i)
			}
			if k.elems += t.Len(); k.elems > ops.MaxElems {
				return false, fmt.Errorf("scan outputs have more than %d elements", ops.MaxElems)
			}
			if err := f.Take(ops.ItemSize, "a scan output"); err != nil {
				return false, err
			}
			k.parts = append(k.parts, t)
		}
	}
	return more, nil
}

// finish stores the node's outputs after n iterations. direct means that the last iteration has written carried
// values to the outputs, as far as their shapes allow.
func (r *looping) finish(ctx context.Context, f *Frame, n int, direct bool) error {
	store := func(i int, d tensor.Datum) error {
		v := r.out(i)
		if v == nil || direct && d == f.Datum(v) {
			return nil
		}
		if err := f.Store(v, d); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
		return nil
	}
	for i, c := range r.b.Carried {
		d := r.now[i]
		if v := r.out(c.Res); v != nil && r.late != nil && f.written(v) == nil {
			var err error
			if d, err = r.late.outside(f, i, d); err != nil {
				return err
			}
		}
		if err := store(c.Res, d); err != nil {
			return err
		}
	}
	for _, c := range r.b.Kept {
		if err := store(c.Res, f.Datum(r.s.In[c.Arg])); err != nil {
			return err
		}
	}
	for i := range r.outs {
		k := &r.outs[i]
		if k.direct || r.out(k.Res) == nil {
			continue
		}
		t, err := k.join(ctx, f, n, f.Binding.Shape(r.out(k.Res)))
		if err != nil {
			return fmt.Errorf("scan output %d: %w", i, err)
		}
		if err := store(k.Res, t); err != nil {
			return err
		}
	}
	return nil
}

// join returns the scan output of n parts. If there are no parts, their shape comes from bound, if it is known.
func (k *stack) join(ctx context.Context, f *Frame, n int, bound []int) (*tensor.Tensor, error) {
	if n == 0 {
		dtype, shape, ok := declaredPart(k.scanOut)
		if ok && len(bound) == len(shape)+1 && slices.Contains(bound, 0) {
			return tensor.New(dtype, bound...), nil
		}
		axis, err := ops.Axis(k.scanOut.Axis, len(shape)+1)
		if !ok {
			return nil, errors.New("is not a tensor")
		}
		if err != nil {
			return nil, err
		}
		return tensor.New(dtype, slices.Insert(shape, axis, 0)...), nil
	}
	if k.typed {
		size := int64(tensor.ByteSize(k.dtype, n*k.outer*k.inner))
		if err := f.Take(size, "a scan output"); err != nil {
			return nil, err
		}
		t := tensor.NewParts(f.pause, k.dtype, slices.Insert(slices.Clone(k.shape), k.part.axis, n)...)
		ops.Put(&f.memory.steps, t.Bytes(), k.whole.Bytes())
		return t, nil
	}
	if k.Prepend {
		for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
			f.memory.steps.Step(1)
			k.parts[i], k.parts[j] = k.parts[j], k.parts[i]
		}
	}
	node := &ir.Node{Op: ops.Default.Resolve("", "ConcatFromSequence", ops.Opsets()[""]),
		Attrs: ir.Attrs{}.With("axis", k.scanOut.Axis).With("new_axis", int64(1))}
	res, err := eval.Options{}.Node(ctx, node, []tensor.Datum{&tensor.Sequence{Items: k.parts}}, f.memory.budget)
	if err != nil {
		return nil, refused(err, "a scan output")
	}
	return res[0].(*tensor.Tensor), nil
}

// alive visits the data of the run that no frame has: carried values, and parts of scan outputs.
func (r *looping) alive(visit func(d tensor.Datum)) {
	for i, c := range r.b.Carried {
		for _, d := range []tensor.Datum{r.now[i], r.results[c.Out]} {
			if r.late == nil || !r.late.rooms[i].has(d) { // already counted as held
				visit(d)
			}
		}
	}
	for i := range r.outs {
		if k := &r.outs[i]; !k.typed {
			visit(r.results[k.Out])
			visit(&tensor.Sequence{Items: k.parts})
		}
	}
}

// forget drops the references to the data of the run.
func (r *looping) forget() {
	clear(r.args)
	clear(r.results)
	clear(r.now)
	if r.late != nil {
		r.late.forget()
	}
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
		k.idle = k.whole != nil
	}
}
