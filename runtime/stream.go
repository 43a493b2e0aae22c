package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/stepgraph"
)

// Stream runs a model on a sequence that arrives in chunks of any length. A state of fixed size represents the past,
// and the answers equal those for the whole sequence. A stream stores little more than its state; Step borrows
// working memory from the model. Only one goroutine can use a stream at a time; a second one gets ErrBusy. Streams
// of one model can run at the same time.
//
// A Step that fails does not change the state.
type Stream struct {
	*stepping
	m     *Model
	p     *stepper // of the version that the stream uses; whoever has acquired the stream may change it
	batch int
	steps atomic.Int64
	busy  atomic.Bool
	open  bool
	past  past
	pin   *pin // nil if the model has no parameters
}

// Timing describes how the outputs of a stream relate to its inputs along time.
type Timing struct {
	// Latency is the largest lag of an output behind the inputs, in steps: the lookahead of the model. It is 0 for a
	// causal model.
	Latency int64
	// Flush is the number of steps, of any content, to feed after the end of a sequence for the last outputs.
	Flush int64
	// Multiple divides the length of every chunk. It is above 1 if the model has strides.
	Multiple int64
	// End names an optional input, int64 per sample, for the number of steps of a sequence. It must be given with the
	// chunk in which the sequence ends, and from then on. It is empty if no output depends on later steps.
	End string
	// Outputs describes each output: whether it follows time, at which rate, and how many of its first steps to drop;
	// or whether it is the answer so far.
	Outputs []stepgraph.Output
}

// NewStream makes a stream of batch samples, the value of the model's batch symbol, with all states zero. The first
// stream of a model compiles its step program, which shares the packed weights with that for whole sequences. For a
// model that looks ahead without bound, NewStream returns a *StreamError that names the layer.
func (m *Model) NewStream(batch int) (*Stream, error) {
	return m.NewStreamContext(context.Background(), batch)
}

// NewStreamContext is NewStream under a context, which ends the compilation for the first stream by its error. A later
// call compiles then.
func (m *Model) NewStreamContext(ctx context.Context, batch int) (*Stream, error) {
	if !m.gate.enter() {
		return nil, ErrClosed
	}
	defer m.gate.leave()
	v, err := m.set.enter()
	if err != nil {
		return nil, err
	}
	s, err := v.newStream(ctx, batch)
	if err != nil {
		v.leave()
		return nil, err
	}
	if len(m.params) > 0 {
		s.pin = &pin{of: v}
		goruntime.AddCleanup(s, (*pin).release, s.pin) // streams need not be closed
	} else {
		v.leave()
	}
	return s, nil
}

// pin keeps the version of a stream.
type pin struct {
	mu sync.Mutex
	of *version // nil: released
}

func (p *pin) release() { p.move(nil) }

// move makes the pin keep v, which has been entered, in place of its version.
func (p *pin) move(v *version) {
	p.mu.Lock()
	old := p.of
	p.of = v
	p.mu.Unlock()
	if old != nil {
		old.leave()
	}
}

// newStream makes a stream with the parameters of the version.
func (v *version) newStream(ctx context.Context, batch int) (*Stream, error) {
	m := v.m
	p, err := v.stepper(ctx)
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
	s := &Stream{stepping: p.stepping, m: m, p: p, batch: batch, open: true}
	if err := s.newPast(p.program, size); err != nil {
		return nil, err
	}
	return s, nil
}

// Step computes the outputs for a chunk of one or more steps. Inputs and outputs are as in Session.RunInto. Outputs
// that follow time hold the steps that the chunk completes, see Timing. Others, such as a mean over time or the last
// step, are the answer for all steps so far. If the inputs have the model's element types, chunks of this length were
// seen before, and out is complete, Step allocates no memory.
func (s *Stream) Step(ctx context.Context, in, out map[string]tensor.Datum) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.step(ctx, in, out)
}

// step is Step for a stream that is acquired.
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
	if err := p.inputData(ctx, in, c.in[:len(p.inputs)], &c.charges); err != nil {
		return err
	}
	l, err := p.lease(c, s.batch)
	if err != nil {
		return err
	}
	if err := l.charge(c.charges.taken, "a step, with its inputs,"); err != nil {
		p.release(l)
		return err
	}
	if err := p.outputData(out, l.outShape, c.in[:len(p.inputs)], c.out[:len(p.outputs)], &c.charges); err != nil {
		l.budget.Release(c.charges.taken)
		p.release(l)
		return err
	}
	l.load(s, 0, 1)
	if err = p.run(ctx, c, l); err == nil {
		l.store(s, 0, 1)
		s.steps.Add(l.steps)
		for i, o := range p.outputs {
			out[o.Name] = c.out[i]
		}
	}
	l.budget.Release(c.charges.taken)
	p.settle(l, err)
	return err
}

// enter acquires the stream for the caller, if it is open.
func (s *Stream) enter() error {
	if !s.m.gate.enter() {
		return ErrClosed
	}
	if !s.busy.CompareAndSwap(false, true) {
		s.m.gate.leave()
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
	s.m.gate.leave()
}

// Use makes the stream go on with the parameters that a set of its model has now; it keeps its state. Until then it
// computes with the version of the parameters that its set had when it was made. A set that runs updates has no
// streams.
func (s *Stream) Use(ctx context.Context, set *Set) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if set.m != s.m {
		return &OptionError{"set", "is a set of another model"}
	}
	if set.updates {
		return &OptionError{"set", "runs the updates of the model, and has no streams; publish it to another one"}
	}
	v, err := set.enter()
	if err != nil {
		return err
	}
	if s.pin == nil || v == s.p.of {
		v.leave()
		return nil
	}
	p, err := v.stepper(ctx)
	if err != nil {
		v.leave()
		return err
	}
	if s.past.kept != nil {
		if err := s.past.moveTo(p.program); err != nil {
			v.leave()
			return err
		}
		goruntime.AddCleanup(s, func(k Kept) { _ = k.Close() }, s.past.kept)
	}
	s.p = p
	s.pin.move(v)
	return nil
}

// Batch returns the number of samples.
func (s *Stream) Batch() int { return s.batch }

// Inputs returns the inputs of Step.
func (s *Stream) Inputs() []Port { return slices.Clone(s.inputs) }

// Outputs returns the outputs of Step.
func (s *Stream) Outputs() []Port { return slices.Clone(s.outputs) }

// States returns the states. The batch symbol is the dimension of samples.
func (s *Stream) States() []Port { return slices.Clone(s.states) }

// Timing describes how the outputs relate to the inputs along time.
func (s *Stream) Timing() Timing {
	t := s.timing
	t.Outputs = slices.Clone(t.Outputs)
	return t
}

// Steps returns the number of steps of time since the start of the sequence. Restore sets it from the snapshot.
func (s *Stream) Steps() int64 { return s.steps.Load() }

// Reset sets all states to zero, for a new sequence.
func (s *Stream) Reset() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.past.kept == nil {
		clear(s.past.bytes)
	} else if err := s.past.write(make([]byte, s.past.size)); err != nil {
		return err
	}
	s.steps.Store(0)
	return nil
}

// Close drops the state. Later calls return ErrStreamClosed; a second Close does nothing. A stream need not be closed:
// it holds no resources besides memory, which goes with it.
func (s *Stream) Close() error {
	switch err := s.enter(); {
	case errors.Is(err, ErrClosed): // the stream is closed, or the model, which holds nothing for it
		return nil
	case err != nil:
		return err
	}
	defer s.leave()
	s.open = false
	if s.pin != nil {
		s.pin.release()
	}
	return s.past.close()
}

// State returns a copy of the states, by name.
func (s *Stream) State() (map[string]*tensor.Tensor, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	all := make(map[string]*tensor.Tensor, len(s.states))
	rest, err := s.past.read()
	if err != nil {
		return nil, err
	}
	for i, t := range s.stateType {
		shape, err := s.stateShape(i, s.batch)
		if err != nil {
			return nil, err
		}
		x := tensor.New(t.Elem, shape...)
		rest = rest[copy(x.Bytes(), rest):]
		all[s.states[i].Name] = x
	}
	return all, nil
}

// SetState replaces the given states, by name. Element types and shapes must be as in State.
func (s *Stream) SetState(given map[string]*tensor.Tensor) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	now, err := s.past.read()
	if err != nil {
		return err
	}
	next := slices.Clone(now)
	rest, found := next, 0
	for i, t := range s.stateType {
		shape, err := s.stateShape(i, s.batch)
		if err != nil {
			return err
		}
		n, _ := tensor.Size(shape) // NewStream has checked it
		n = tensor.ByteSize(t.Elem, n)
		if x, ok := given[s.states[i].Name]; ok {
			if x == nil || x.DType() != t.Elem || !slices.Equal(x.Shape(), shape) {
				return &InputError{Name: s.states[i].Name,
					Msg: fmt.Sprintf("expected %v%s, found %v", t.Elem, tensor.ShapeString(shape), shown(x))}
			}
			copy(rest, x.Bytes())
			found++
		}
		rest = rest[n:]
	}
	if found < len(given) {
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if !slices.ContainsFunc(s.states, func(p Port) bool { return p.Name == name }) {
				return &InputError{Name: name, Msg: "the model has no such state"}
			}
		}
	}
	return s.past.write(next)
}

// shown describes a tensor, for messages.
func shown(t *tensor.Tensor) string {
	if t == nil {
		return "none"
	}
	return t.String()
}
