package runtime

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
)

// StreamStep is one stream's part of Model.StepMany.
type StreamStep struct {
	Stream  *Stream
	In, Out map[string]tensor.Datum // as Stream.Step takes them
	Err     error                   // what Stream.Step would have given, set by StepMany
}

// maxJoined bounds how many streams step as one batch. Numbers of streams are broken into powers of two up to it, so that few
// shapes are bound, however many streams come together.
const maxJoined = 64

// StepMany steps many streams of the model: those whose chunks have one shape step as one batch, which costs less than each
// by itself, and gives each the answer that it would have got by itself. What is wrong with one stream or its inputs is that
// stream's Err alone, and leaves it as it was; the others step. The error given is the first of them, with its index. A model
// whose samples depend on each other (pairs of documents) steps its streams one by one.
func (m *Model) StepMany(ctx context.Context, steps []StreamStep) error {
	if !m.gate.enter() {
		for i := range steps {
			steps[i].Err = ErrClosed
		}
		return ErrClosed
	}
	defer m.gate.leave()
	groups := map[string][]*joined{}
	var order []string
	for i := range steps {
		s := &steps[i]
		if s.Err = m.admit(s); s.Err != nil {
			continue
		}
		defer s.Stream.leave()
		j := &joined{StreamStep: s}
		if s.Err = j.prepare(ctx); s.Err != nil {
			continue
		}
		if _, ok := groups[j.key]; !ok {
			order = append(order, j.key)
		}
		groups[j.key] = append(groups[j.key], j)
	}
	for _, key := range order {
		all := groups[key]
		for len(all) > 0 {
			n := 1
			for all[0].Stream.p.inAxis != nil && 2*n <= min(len(all), maxJoined) {
				n *= 2
			}
			stepJoined(ctx, all[:n])
			all = all[n:]
		}
	}
	for i := range steps {
		if steps[i].Err != nil {
			return fmt.Errorf("stream %d: %w", i, steps[i].Err)
		}
	}
	return nil
}

// admit makes the stream of a step the caller's.
func (m *Model) admit(s *StreamStep) error {
	switch {
	case s.Stream == nil:
		return &InputError{Name: "Stream", Msg: "is nil"}
	case s.Stream.p.m != m:
		return &InputError{Name: "Stream", Msg: "is a stream of another model"}
	case s.Out == nil:
		return errNoOut
	}
	return s.Stream.enter()
}

// joined is a step with its inputs in the graph's order.
type joined struct {
	*StreamStep
	in  []tensor.Datum
	key string // of steps that may be one batch: their inputs' shapes
}

func (j *joined) prepare(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := j.Stream.p
	j.in = make([]tensor.Datum, len(p.inputs))
	if err := p.inputData(j.In, j.in); err != nil {
		return err
	}
	j.key = string(appendKey(binary.AppendUvarint(nil, uint64(j.Stream.batch)), j.in))
	return nil
}

// stepJoined steps streams as one batch. Where that fails for what one of them brought, or for memory, each steps by itself.
func stepJoined(ctx context.Context, all []*joined) {
	if len(all) > 1 {
		err := joinedStep(ctx, all)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			for _, j := range all {
				j.Err = err
			}
			return
		}
	}
	for _, j := range all {
		j.Err = j.Stream.step(ctx, j.In, j.Out)
	}
}

// joinedStep steps two streams or more as one batch; after an error none of them has changed.
func joinedStep(ctx context.Context, all []*joined) error {
	p, samples := all[0].Stream.p, all[0].Stream.batch
	c := p.borrow()
	defer p.giveBack(c)
	for i := range p.inputs {
		first, ok := all[0].in[i].(*tensor.Tensor)
		if !ok {
			continue // absent from all of them
		}
		axis := p.inAxis[i]
		shape := append([]int(nil), first.Shape()...)
		shape[axis] *= len(all)
		t := tensor.New(first.DType(), shape...)
		for k, j := range all {
			joinAt(t, j.in[i].(*tensor.Tensor), axis, k, true)
		}
		c.in[i] = t
	}
	l, err := p.lease(c, samples*len(all))
	if err != nil {
		return err
	}
	shapes := make([][]int, len(p.outputs)) // of one stream's outputs
	for i, s := range l.outShape {
		if s == nil {
			p.release(l)
			return errors.New("outputs of unknown shape cannot be taken apart")
		}
		shapes[i] = append([]int(nil), s...)
		shapes[i][p.outAxis[i]] /= len(all)
		c.out[i] = tensor.New(p.outputDType[i], s...)
	}
	outs := make([][]tensor.Datum, len(all))
	for k, j := range all {
		outs[k] = make([]tensor.Datum, len(p.outputs))
		if err := p.outputData(j.Out, shapes, j.in, outs[k]); err != nil {
			p.release(l)
			return err
		}
	}
	for k, j := range all {
		rest := j.Stream.state
		for _, d := range l.in {
			rest = rest[copy(part(d, k, len(all)), rest):]
		}
	}
	if err := p.run(ctx, c, l); err != nil {
		p.settle(l, err)
		return err
	}
	for k, j := range all {
		rest := j.Stream.state
		for _, d := range l.out {
			rest = rest[copy(rest, part(d, k, len(all))):]
		}
		for i, o := range p.outputs {
			t, ok := outs[k][i].(*tensor.Tensor)
			if !ok {
				t = tensor.New(p.outputDType[i], shapes[i]...)
			}
			joinAt(c.out[i].(*tensor.Tensor), t, p.outAxis[i], k, false)
			j.Out[o.Name] = t
		}
		j.Stream.steps.Add(l.steps)
	}
	p.release(l)
	return nil
}

// part is the k-th of n equal parts of a state along its first axis.
func part(d tensor.Datum, k, n int) []byte {
	b := d.(*tensor.Tensor).Bytes()
	size := len(b) / n
	return b[k*size : (k+1)*size]
}

// joinAt copies t to its place among the equal tensors that whole consists of along axis, the k-th, or from there.
func joinAt(whole, t *tensor.Tensor, axis, k int, to bool) {
	outer := 1
	for _, n := range t.Shape()[:axis] {
		outer *= n
	}
	w, b := whole.Bytes(), t.Bytes()
	if outer == 0 || len(b) == 0 {
		return
	}
	size, stride := len(b)/outer, len(w)/outer
	for i := range outer {
		part := w[i*stride+k*size : i*stride+(k+1)*size]
		if to {
			copy(part, b[i*size:(i+1)*size])
		} else {
			copy(b[i*size:(i+1)*size], part)
		}
	}
}
