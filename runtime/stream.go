package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/stepgraph"
)

// Stream runs a model step by step: what it has seen is held in a state of fixed size, so a sequence may come in chunks of
// any length, and its answers are those of the whole sequence. A stream holds its state and a few words besides, nothing
// else: working memory is borrowed from the model for the time of a Step. One goroutine uses a stream at a time (a second one
// gets ErrBusy); streams of one model run at the same time.
//
// The state changes when a Step has succeeded, and only then: after any error the stream is where it was before the call.
type Stream struct {
	p     *stepper
	batch int
	steps atomic.Int64
	busy  atomic.Bool
	open  bool
	state []byte // the states one after the other, each as its tensor holds it
}

// Timing is how the outputs of a stream relate to its inputs along time.
type Timing struct {
	// Latency is the largest number of steps by which an output lags behind the inputs: what a model with a finite lookahead
	// waits for. 0 for a causal model.
	Latency int64
	// Flush is how many steps, of any content, have to be fed beyond the end of a sequence until all outputs have come.
	Flush int64
	// Multiple is what the length of a chunk has to be a multiple of; above 1 where the model has strides.
	Multiple int64
	// End names the optional input, int64 per sample, that says how many steps a sequence has, from the chunk on in which it
	// ends; empty where nothing depends on steps that follow.
	End string
	// Outputs says of each output whether it follows time, at which rate and how many of its first steps are to be dropped,
	// or is the answer so far.
	Outputs []stepgraph.Output
}

// NewStream makes a stream of batch samples (the value of the model's batch symbol) at its beginning, where all states are
// zero. The model's first stream compiles its step program, which shares the packed weights with the program of whole
// sequences. A model that needs what lies ahead without bound is refused with a *StreamError that names the layer.
func (m *Model) NewStream(batch int) (*Stream, error) {
	if !m.gate.enter() {
		return nil, ErrClosed
	}
	defer m.gate.leave()
	p, err := m.stepper()
	if err != nil {
		return nil, err
	}
	if batch < 1 || batch > math.MaxInt32 || p.batch == "" && batch != 1 {
		want := fmt.Sprintf("1 to %d", math.MaxInt32)
		if p.batch == "" {
			want = "1, since the model declares no batch dimension"
		}
		return nil, &OptionError{"batch", fmt.Sprintf("expected %s, found %d", want, batch)}
	}
	size, err := p.stateBytes(batch)
	if err != nil {
		return nil, err
	}
	if limit := m.config.MaxMemory; limit > 0 && size > limit {
		return nil, &MemoryError{Need: size, Limit: limit, What: fmt.Sprintf("the state of %d samples", batch)}
	}
	return &Stream{p: p, batch: batch, open: true, state: make([]byte, size)}, nil
}

// Step computes the outputs of the next steps, by name, from their inputs, by name; both are as in Session.RunInto, with one
// step or more along time. Outputs that follow time hold the steps that the chunk completes, see Timing; others (a mean over
// time, the last step) are the answer for all that the stream has seen. When the inputs have the model's own element types,
// chunks of this length were seen before, and out is complete, it allocates no memory of its own.
func (s *Stream) Step(ctx context.Context, in, out map[string]tensor.Datum) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.step(ctx, in, out)
}

// step is Step of a stream that is the caller's.
func (s *Stream) step(ctx context.Context, in, out map[string]tensor.Datum) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if out == nil {
		return errNoOut
	}
	p := s.p
	c := p.borrow()
	defer p.giveBack(c)
	if err := p.inputData(in, c.in[:len(p.inputs)]); err != nil {
		return err
	}
	l, err := p.lease(c, s.batch)
	if err != nil {
		return err
	}
	if err := p.outputData(out, l.outShape, c.in[:len(p.inputs)], c.out[:len(p.outputs)]); err != nil {
		p.release(l)
		return err
	}
	rest := s.state
	for _, d := range l.in {
		n := copy(d.(*tensor.Tensor).Bytes(), rest)
		rest = rest[n:]
	}
	if err = p.run(ctx, c, l); err == nil {
		rest = s.state
		for _, d := range l.out {
			n := copy(rest, d.(*tensor.Tensor).Bytes())
			rest = rest[n:]
		}
		s.steps.Add(l.steps)
		for i, o := range p.outputs {
			out[o.Name] = c.out[i]
		}
	}
	p.settle(l, err)
	return err
}

// enter makes the stream the caller's, if it is open.
func (s *Stream) enter() error {
	if !s.p.m.gate.enter() {
		return ErrClosed
	}
	if !s.busy.CompareAndSwap(false, true) {
		s.p.m.gate.leave()
		return ErrBusy
	}
	if !s.open {
		s.leave()
		return ErrStreamClosed
	}
	return nil
}

func (s *Stream) leave() {
	s.busy.Store(false)
	s.p.m.gate.leave()
}

// Batch is the number of samples.
func (s *Stream) Batch() int { return s.batch }

// Inputs lists what Step takes.
func (s *Stream) Inputs() []Port { return slices.Clone(s.p.inputs) }

// Outputs lists what Step gives.
func (s *Stream) Outputs() []Port { return slices.Clone(s.p.outputs) }

// States lists the states, with the batch symbol where samples are counted.
func (s *Stream) States() []Port { return slices.Clone(s.p.states) }

// Timing says how the outputs relate to the inputs along time.
func (s *Stream) Timing() Timing {
	t := s.p.timing
	t.Outputs = slices.Clone(t.Outputs)
	return t
}

// Steps is how many steps of time the stream has seen since its beginning; Restore takes it over from the snapshot.
func (s *Stream) Steps() int64 { return s.steps.Load() }

// Reset puts the stream back to its beginning.
func (s *Stream) Reset() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	clear(s.state)
	s.steps.Store(0)
	return nil
}

// Close lets go of the state. Later calls give ErrStreamClosed; closing twice does nothing. A stream need not be closed: one
// that is forgotten leaves nothing behind.
func (s *Stream) Close() error {
	switch err := s.enter(); {
	case errors.Is(err, ErrClosed): // the stream, or the model, which holds nothing for it
		return nil
	case err != nil:
		return err
	}
	defer s.leave()
	s.state, s.open = nil, false
	return nil
}

// State gives a copy of the states, by name.
func (s *Stream) State() (map[string]*tensor.Tensor, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	all := make(map[string]*tensor.Tensor, len(s.p.states))
	rest := s.state
	for i, t := range s.p.stateType {
		shape, err := s.p.stateShape(i, s.batch)
		if err != nil {
			return nil, err
		}
		x := tensor.New(t.Elem, shape...)
		rest = rest[copy(x.Bytes(), rest):]
		all[s.p.states[i].Name] = x
	}
	return all, nil
}

// SetState replaces the states that are given, by name; element types and shapes are those of State.
func (s *Stream) SetState(given map[string]*tensor.Tensor) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	next := slices.Clone(s.state)
	rest, found := next, 0
	for i, t := range s.p.stateType {
		shape, err := s.p.stateShape(i, s.batch)
		if err != nil {
			return err
		}
		n, _ := tensor.Size(shape) // of a stream that exists
		n = tensor.ByteSize(t.Elem, n)
		if x, ok := given[s.p.states[i].Name]; ok {
			if x == nil || x.DType() != t.Elem || !slices.Equal(x.Shape(), shape) {
				return &InputError{Name: s.p.states[i].Name, Msg: fmt.Sprintf("expected %v%s, found %v", t.Elem, tensor.ShapeString(shape), shown(x))}
			}
			copy(rest, x.Bytes())
			found++
		}
		rest = rest[n:]
	}
	if found < len(given) {
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if !slices.ContainsFunc(s.p.states, func(p Port) bool { return p.Name == name }) {
				return &InputError{Name: name, Msg: "the model has no such state"}
			}
		}
	}
	s.state = next
	return nil
}

// shown is a tensor for messages.
func shown(t *tensor.Tensor) string {
	if t == nil {
		return "none"
	}
	return t.String()
}
