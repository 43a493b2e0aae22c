package runtime

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
)

// StreamStep is one stream's part of Model.StepMany.
type StreamStep struct {
	Stream  *Stream
	In, Out map[string]tensor.Datum // the arguments of Stream.Step
	Err     error                   // its result, set by StepMany
}

// maxJoined is the maximum number of streams that step as one batch. Numbers of streams are split into powers of two
// up to it, so that few shapes are bound.
const maxJoined = 64

// StepMany steps many streams of the model. Streams of one version with chunks of the same shape step as one batch,
// which is faster than one by one, and has the same results. An error of one stream sets its Err and does not change
// its state; the others step. StepMany returns the first of these errors, with its index. If the samples of a model
// depend on each other (pairs of documents), its streams step one by one. Under the conditions of Stream.Step, StepMany
// allocates no memory if as many streams with such chunks have stepped together before.
func (m *Model) StepMany(ctx context.Context, steps []StreamStep) error {
	if !m.gate.enter() {
		for i := range steps {
			steps[i].Err = ErrClosed
		}
		return ErrClosed
	}
	defer m.gate.leave()
	w := gatherings.Get().(*gathering)
	defer w.leave()
	for i := range steps {
		s := &steps[i]
		if s.Err = m.admit(s); s.Err == nil {
			s.Err = w.add(s).prepare(ctx)
		}
	}
	w.run(ctx)
	for i := range steps {
		if steps[i].Err != nil {
			return fmt.Errorf("stream %d: %w", i, steps[i].Err)
		}
	}
	return nil
}

// admit acquires the stream of a step for the caller.
func (m *Model) admit(s *StreamStep) error {
	switch {
	case s.Stream == nil:
		return &InputError{Name: "Stream", Msg: "is nil"}
	case s.Stream.m != m:
		return &InputError{Name: "Stream", Msg: "is a stream of another model"}
	case s.Out == nil:
		return errNoOut
	}
	return s.Stream.enter()
}

// gathering holds the steps of one call of StepMany, whose streams it has acquired.
type gathering struct{ all []gathered }

// gatherings reuses memory between calls. Its items hold no data of callers.
var gatherings = sync.Pool{New: func() any { return new(gathering) }}

// gathered is a step with its inputs and outputs in the graph's order.
type gathered struct {
	*StreamStep
	in, out []tensor.Datum
	charges charges
	key     []byte // the inputs' shapes, equal for steps that may be one batch; empty if the step has failed
}

// add adds a step whose stream has been acquired.
func (w *gathering) add(s *StreamStep) *gathered {
	n := len(w.all)
	w.all = slices.Grow(w.all, 1)[:n+1]
	g := &w.all[n]
	p := s.Stream.p
	g.StreamStep, g.key = s, g.key[:0]
	g.in = slices.Grow(g.in[:0], len(p.inputs))[:len(p.inputs)]
	g.out = slices.Grow(g.out[:0], len(p.outputs))[:len(p.outputs)]
	return g
}

// leave releases the streams.
func (w *gathering) leave() {
	for i := range w.all {
		g := &w.all[i]
		g.Stream.leave()
		g.StreamStep = nil
		clear(g.in)
		clear(g.out)
	}
	w.all = w.all[:0]
	gatherings.Put(w)
}

func (g *gathered) prepare(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.charges = charges{limit: g.Stream.m.config.MaxMemory, starts: g.charges.starts}
	if err := g.Stream.p.inputData(ctx, g.In, g.in, &g.charges); err != nil {
		return err
	}
	g.key = appendKey(g.Stream.p.keyOf(g.key, g.Stream.batch), g.in)
	return nil
}

// run steps all streams without an error, those with equal keys together.
func (w *gathering) run(ctx context.Context) {
	slices.SortStableFunc(w.all, func(a, b gathered) int { return bytes.Compare(a.key, b.key) })
	for rest := w.all; len(rest) > 0; {
		if len(rest[0].key) == 0 {
			rest = rest[1:]
			continue
		}
		same := 1
		for same < len(rest) && bytes.Equal(rest[same].key, rest[0].key) {
			same++
		}
		n := 1
		for rest[0].Stream.p.inAxis != nil && 2*n <= min(same, maxJoined) {
			n *= 2
		}
		stepTogether(ctx, rest[:n])
		rest = rest[n:]
	}
}

// stepTogether steps streams as one batch. If that fails because of an input, or for lack of memory, they step one by
// one.
func stepTogether(ctx context.Context, all []gathered) {
	if len(all) > 1 {
		err := stepJoined(ctx, all)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			for i := range all {
				all[i].Err = err
			}
			return
		}
	}
	for i := range all {
		all[i].Err = all[i].Stream.step(ctx, all[i].In, all[i].Out)
	}
}

// joint holds the joined inputs and outputs of several streams. Inputs that all of them left out are nil.
type joint struct {
	in, out []tensor.Datum
	shapes  [][]int // shapes of one stream's outputs
}

// stepJoined steps two or more streams as one batch. If it returns an error, none of them has changed.
func stepJoined(ctx context.Context, all []gathered) error {
	p := all[0].Stream.p
	c := p.borrow()
	defer p.giveBack(c)
	c.charges.moves.Ctx = ctx
	l, err := p.leaseJoint(c, all)
	if err != nil {
		return err
	}
	var more int64
	for i := range all {
		more += all[i].charges.taken
	}
	before := l.budget.Used()
	if err = l.charge(more, "a step of several streams, with its inputs,"); err == nil {
		err = l.joint.join(ctx, p, c, l, all)
	}
	l.budget.Release(l.budget.Used() - before)
	p.settle(l, err)
	return err
}

// leaseJoint returns working memory for all steps as one batch, idle or new.
func (p *stepper) leaseJoint(c *call, all []gathered) (*lease, error) {
	// The suffix keeps this key distinct from those of single steps, of which none is a prefix of another.
	c.key = binary.AppendUvarint(append(c.key[:0], all[0].key...), uint64(len(all)))
	if l := p.take(c.key); l != nil {
		return l, nil
	}
	j := &joint{in: make([]tensor.Datum, len(p.inputs)), out: make([]tensor.Datum, len(p.outputs)),
		shapes: make([][]int, len(p.outputs))}
	var bytes int64
	budget := p.m.newBudget()
	fits := func(t tensor.DType, shape []int) error {
		n, err := tensor.Size(shape)
		if err != nil {
			return err
		}
		size := int64(tensor.ByteSize(t, n))
		bytes += size
		if err := budget.Take(size); err != nil {
			return refused(err, fmt.Sprintf("a step of %d streams", len(all)))
		}
		return nil
	}
	for i := range p.inputs {
		first, ok := all[0].in[i].(*tensor.Tensor)
		if !ok {
			continue
		}
		shape := slices.Clone(first.Shape())
		shape[p.inAxis[i]] *= len(all)
		if err := fits(first.DType(), shape); err != nil {
			return nil, err
		}
		j.in[i] = tensor.New(first.DType(), shape...)
	}
	copy(c.in, j.in)
	l, err := p.bind(c, c.key, all[0].Stream.batch*len(all), budget)
	if err != nil {
		return nil, err
	}
	for i, s := range l.outShape {
		if s == nil {
			p.close(l)
			return nil, errors.New("outputs of unknown shape cannot be divided among streams")
		}
		j.shapes[i] = slices.Clone(s)
		j.shapes[i][p.outAxis[i]] /= len(all)
		if err := fits(p.outputDType[i], s); err != nil {
			p.close(l)
			return nil, err
		}
		j.out[i] = tensor.New(p.outputDType[i], s...)
	}
	l.joint = j
	l.bytes += bytes
	if limit := p.m.config.MaxMemory; limit > 0 && l.bytes > limit {
		p.close(l)
		return nil, &MemoryError{Need: l.bytes, Limit: limit, What: fmt.Sprintf("a step of %d streams", len(all))}
	}
	return l, nil
}

// join runs all steps as one batch in j, which belongs to l.
func (j *joint) join(ctx context.Context, p *stepper, c *call, l *lease, all []gathered) error {
	for k := range all {
		if err := p.outputData(all[k].Out, j.shapes, all[k].in, all[k].out, &all[k].charges); err != nil {
			return err
		}
		for i, d := range j.in {
			if t, ok := d.(*tensor.Tensor); ok {
				tensor.CopyPart(t, all[k].in[i].(*tensor.Tensor), p.inAxis[i], k, true)
			}
		}
		for i, d := range all[k].out {
			if d != nil {
				continue
			}
			if err := l.charge(int64(len(j.out[i].(*tensor.Tensor).Bytes())/len(all)), p.outputs[i].Name); err != nil {
				return err
			}
		}
		l.load(all[k].Stream, k, len(all))
	}
	copy(c.in, j.in)
	copy(c.out, j.out)
	if err := p.run(ctx, c, l); err != nil {
		return err
	}
	for k := range all {
		l.store(all[k].Stream, k, len(all))
		for i, o := range p.outputs {
			t, ok := all[k].out[i].(*tensor.Tensor)
			if !ok {
				t = tensor.New(p.outputDType[i], j.shapes[i]...)
			}
			tensor.CopyPart(j.out[i].(*tensor.Tensor), t, p.outAxis[i], k, false)
			all[k].Out[o.Name] = t
		}
		all[k].Stream.steps.Add(l.steps)
	}
	return nil
}

// part returns part k of n equal parts of a state along its first axis.
func part(d tensor.Datum, k, n int) []byte {
	b := d.(*tensor.Tensor).Bytes()
	size := len(b) / n
	return b[k*size : (k+1)*size]
}
