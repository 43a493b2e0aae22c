package runtime

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
)

// stepper is a step program, which all streams of one version of the model's parameters share: the step graph, compiled
// for the first stream. Plans do not store the step graph, since it follows from the model's. So plans of all versions
// stream, and no second graph can contradict the first. Streams hold state only, and borrow working memory from the
// stepper for a step.
type stepper struct {
	*stepping
	m       *Model
	of      *version
	program Program
	calls   sync.Pool // of *call

	mu   sync.Mutex
	idle []*lease // the most recently used comes last
}

// stepping describes the step graph of a model.
type stepping struct {
	*signature // of the source's inputs and outputs, without states
	graph      *ir.Graph
	states     []Port
	stateType  []*ir.TensorType
	timing     Timing
	inAxis     []int // per input and output, the batch axis; nil if samples cannot be joined
	outAxis    []int
}

// call holds the arguments of one run of the step program: the source's inputs and outputs, then the states.
type call struct {
	in, out []tensor.Datum
	key     []byte
	charges charges
}

// lease is working memory for one shape of a step.
type lease struct {
	key      string
	exe      Executable
	bytes    int64
	budget   *ir.Budget // of the step: its states, its working memory, and its runs; nil: none
	outShape [][]int
	steps    int64          // steps of time in the inputs; 1 for a model without a time dimension
	in, out  []tensor.Datum // the states before and after the step; of no meaning where the program keeps them
	kept     []Kept         // of the streams that step, where the program keeps states
	joint    *joint         // inputs and outputs of several streams; nil for one stream
}

// once makes a T for the first caller that needs it. If that caller's context ends meanwhile, a later one makes it.
type once[T any] struct {
	making chan struct{} // has an item while a goroutine uses the fields below
	made   *T
	err    error // why there is none
}

func newOnce[T any]() once[T] { return once[T]{making: make(chan struct{}, 1)} }

// ready reports whether there is, or soon will be, a T.
func (o *once[T]) ready() bool {
	select {
	case o.making <- struct{}{}:
		defer func() { <-o.making }()
		return o.made != nil
	default:
		return true
	}
}

func (o *once[T]) get(ctx context.Context, make func() (*T, error)) (*T, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case o.making <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-o.making }()
	if o.made != nil || o.err != nil {
		return o.made, o.err
	}
	t, err := make()
	if err != nil {
		if ctx.Err() == nil {
			o.err = err
		}
		return nil, err
	}
	o.made = t
	return t, nil
}

// stepper returns the version's stepper, and makes it for the first stream.
func (v *version) stepper(ctx context.Context) (*stepper, error) {
	return v.steps.get(ctx, func() (*stepper, error) {
		g, err := v.m.stepping.get(ctx, v.m.newStepping)
		if err != nil {
			return nil, err
		}
		return newStepper(ctx, v, g)
	})
}

// newStepping derives the step graph of m.
func (m *Model) newStepping() (_ *stepping, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("step graph of %s: %w", m.graph.Name, Recovered(nil, v))
		}
	}()
	var outputs []string
	for i := 0; m.some && i < len(m.outputs); i++ {
		outputs = append(outputs, m.outputs[i].Name)
	}
	sg, err := stepgraph.Of(m.graph, outputs...)
	if err != nil {
		return nil, &StreamError{Err: err}
	}
	g := sg.Graph
	if err := ir.Verify(g); err != nil {
		return nil, fmt.Errorf("step graph of %s: %w", m.graph.Name, err)
	}
	n, k := len(g.Inputs)-len(sg.States), len(g.Outputs)-len(sg.States)
	p := &stepping{graph: g, timing: Timing{Latency: sg.Latency, Flush: sg.Flush, Multiple: sg.Multiple, End: sg.End,
		Outputs: sg.Outputs}}
	if p.signature, err = newSignature(context.Background(), g, g.Inputs[:n], g.Outputs[:k],
		m.config.Wide); err != nil {
		return nil, err
	}
	for _, s := range sg.States {
		t := &ir.TensorType{Elem: s.DType, Shape: s.Shape}
		t = &ir.TensorType{Elem: p.elem(t), Shape: s.Shape}
		p.states = append(p.states, Port{Name: s.Name, Type: t})
		p.stateType = append(p.stateType, t)
	}
	p.joinable(g)
	return p, nil
}

// newStepper compiles the step program of a version.
func newStepper(ctx context.Context, of *version, form *stepping) (_ *stepper, err error) {
	m, g := of.m, form.graph
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("step graph of %s: %w", m.graph.Name, Recovered(nil, v))
		}
	}()
	p := &stepper{stepping: form, m: m, of: of}
	p.calls.New = func() any {
		return &call{in: make([]tensor.Datum, len(g.Inputs)), out: make([]tensor.Datum, len(g.Outputs))}
	}
	if p.program, err = m.backend.Compile(g, of.config(ctx)); err != nil {
		return nil, fmt.Errorf("step graph of %s: %w", m.graph.Name, err)
	}
	bytes, err := p.stateBytes(1)
	m.config.Logger.Debug("steps compiled", "graph", m.graph.Name, "states", len(p.states), "bytes", bytes, "latency",
		p.timing.Latency)
	return p, err
}

// joinable finds the axes along which the samples of several streams can be joined. Every input and output must have
// one, and each sample of an output or state must depend only on that sample.
func (p *stepping) joinable(g *ir.Graph) {
	if p.batch == "" {
		return
	}
	facts := ops.BatchFacts(g)
	plain := func(t ir.Type, axis int) bool {
		tt, ok := t.(*ir.TensorType)
		if !ok || tt.NoRank || axis < 0 || axis >= len(tt.Shape) || tt.Elem == tensor.String || tt.Elem.Packed() {
			return false
		}
		for i, d := range tt.Shape {
			if s, ok := d.Symbol(); i == axis != (ok && s == p.batch) {
				return false
			}
		}
		return true
	}
	var in, out []int
	for _, q := range p.inputs {
		axis := -1
		if t, ok := q.Type.(*ir.TensorType); ok {
			axis = slices.IndexFunc(t.Shape, func(d ir.Dim) bool { s, ok := d.Symbol(); return ok && s == p.batch })
		}
		if !plain(q.Type, axis) {
			return
		}
		in = append(in, axis)
	}
	for i, v := range g.Outputs {
		f := facts.Of(v)
		if f.Constant() || f.Global || f.Stride != 1 || f.Back != 0 || f.Ahead != 0 {
			return
		}
		if i >= len(p.outputs) {
			if shape := p.stateType[i-len(p.outputs)].Shape; f.Axis != 0 || !shape[0].Equal(ir.Sym(p.batch)) {
				return
			}
			continue
		}
		if !plain(p.outputs[i].Type, f.Axis) {
			return
		}
		out = append(out, f.Axis)
	}
	p.inAxis, p.outAxis = in, out
}

// stateShape returns the shape of a state for a number of samples.
func (p *stepping) stateShape(i int, batch int) ([]int, error) {
	dims := map[string]int64{}
	if p.batch != "" {
		dims[p.batch] = int64(batch)
	}
	shape := make([]int, len(p.stateType[i].Shape))
	for axis, d := range p.stateType[i].Shape {
		n, err := d.Eval(dims)
		if err != nil || n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("state %q: dimension %d: %v is not known for %d samples", p.states[i].Name, axis, d,
				batch)
		}
		shape[axis] = int(n)
	}
	return shape, nil
}

// stateBytes returns the size of the states of a number of samples.
func (p *stepping) stateBytes(batch int) (int64, error) {
	var sum int64
	for i, t := range p.stateType {
		shape, err := p.stateShape(i, batch)
		if err != nil {
			return 0, err
		}
		n, err := tensor.Size(shape)
		if err != nil || t.Elem.Bits() < 8 {
			return 0, fmt.Errorf("state %q: %v of %d samples is too large: %v", p.states[i].Name, t, batch, err)
		}
		if sum += int64(tensor.ByteSize(t.Elem, n)); sum > math.MaxInt32 {
			return 0, &MemoryError{Need: sum, Limit: math.MaxInt32, What: fmt.Sprintf("the state of %d samples", batch)}
		}
	}
	return sum, nil
}

// borrow returns a call with arguments to fill in.
func (p *stepper) borrow() *call {
	c := p.calls.Get().(*call)
	c.charges = charges{limit: p.m.config.MaxMemory, starts: c.charges.starts}
	return c
}

func (p *stepper) giveBack(c *call) {
	clear(c.in)
	clear(c.out)
	p.calls.Put(c)
}

// lease returns working memory for the inputs in c, with batch samples, idle or new.
func (p *stepper) lease(c *call, batch int) (*lease, error) {
	c.key = appendKey(p.keyOf(c.key[:0], batch), c.in[:len(p.inputs)])
	if l := p.take(c.key); l != nil {
		return l, nil
	}
	return p.bind(c, c.key, batch, p.m.newBudget())
}

// keyOf appends the beginning of keys for streams of batch samples. Streams of different versions have different keys.
func (p *stepper) keyOf(key []byte, batch int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(key, p.of.id), uint64(batch))
}

// take returns idle working memory for a key, or nil if there is none.
func (p *stepper) take(key []byte) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if l := p.idle[i]; l.key == string(key) {
			p.idle = slices.Delete(p.idle, i, i+1)
			return l
		}
	}
	return nil
}

// bind makes working memory for the inputs in c, with batch samples, under key. The budget bounds it, with the states
// of the streams.
func (p *stepper) bind(c *call, key []byte, batch int, budget *ir.Budget) (_ *lease, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	b, err := p.bindData(&c.charges.moves, c.in[:len(p.inputs)])
	if err != nil {
		return nil, err
	}
	if err := p.checkBatch(b, c.in, batch); err != nil {
		return nil, err
	}
	l := &lease{key: string(key), budget: budget, outShape: p.outputShapes(&c.charges.moves, b.Dims), steps: 1}
	size, err := p.stateBytes(batch)
	if err == nil {
		err = budget.Take(3 * size)
	}
	if err != nil {
		return nil, refused(err, fmt.Sprintf("the state of %d samples, before and after a step,", batch))
	}
	b.Budget, b.Ctx = budget, c.charges.moves.Ctx
	if p.time != "" {
		l.steps = b.Dims[p.time] * p.timing.Multiple
	}
	for i, t := range p.stateType {
		shape, err := p.stateShape(i, batch)
		if err != nil {
			return nil, err
		}
		state := tensor.New(t.Elem, shape...)
		b.Inputs = append(b.Inputs, ir.Of(state))
		l.in, l.out = append(l.in, state), append(l.out, tensor.New(t.Elem, shape...))
		l.bytes += 2 * int64(len(state.Bytes()))
	}
	if l.exe, err = p.program.Bind(*b); err != nil {
		return nil, err
	}
	l.bytes += l.exe.ArenaBytes()
	if limit := p.m.config.MaxMemory; limit > 0 && l.bytes > limit {
		p.close(l)
		return nil, &MemoryError{Need: l.bytes, Limit: limit, What: "a step of " + b.String()}
	}
	p.m.config.Logger.Debug("step bound", "graph", p.m.graph.Name, "binding", b.String(), "bytes", l.bytes)
	return l, nil
}

// checkBatch compares the number of samples in the inputs with the stream's.
func (p *stepper) checkBatch(b *Binding, in []tensor.Datum, batch int) error {
	if p.batch == "" {
		return nil
	}
	found, ok := b.Dims[p.batch]
	if !ok {
		b.Dims[p.batch] = int64(batch)
		return nil
	}
	if found == int64(batch) {
		return nil
	}
	for i, q := range p.inputs {
		t, ok := q.Type.(*ir.TensorType)
		if !ok || in[i] == nil {
			continue
		}
		for axis, d := range t.Shape {
			if slices.Contains(d.Symbols(), p.batch) {
				return &InputError{Name: q.Name,
					Msg: fmt.Sprintf("dimension %d: the stream has %s = %d, found %d", axis, p.batch, batch, found)}
			}
		}
	}
	return &InputError{Name: p.batch, Msg: fmt.Sprintf("expected %d, as the stream has, found %d", batch, found)}
}

// charge takes bytes of a call from the budget of a step, for as long as the call runs.
func (l *lease) charge(bytes int64, what string) error { return refused(l.budget.Take(bytes), what) }

// release keeps working memory for the next step of its shape. Idle memory is bounded by Options.MaxMemory; release
// drops the least recently used beyond it. release(nil) drops all idle memory.
func (p *stepper) release(l *lease) {
	keep := 8 + 4*goruntime.GOMAXPROCS(0)
	limit := p.m.config.MaxMemory
	p.mu.Lock()
	from := len(p.idle)
	if l != nil {
		if l.budget != nil {
			l.bytes = l.budget.Used()
		}
		p.idle = append(p.idle, l)
		from++
		var sum int64
		for from > 0 && len(p.idle)-from < keep && (limit == 0 || sum+p.idle[from-1].bytes <= limit) {
			from--
			sum += p.idle[from].bytes
		}
	}
	var old []*lease
	if from > 0 {
		old = slices.Clone(p.idle[:from])
		p.idle = slices.Delete(p.idle, 0, from)
	}
	p.mu.Unlock()
	for _, l := range old {
		p.close(l)
	}
}

func (p *stepper) close(l *lease) {
	if err := l.exe.Close(); err != nil {
		p.m.config.Logger.Warn("release of working memory failed", "error", err)
	}
}

// run computes c with the states in l. It returns the lease unless the run panicked, after which its memory may be
// inconsistent.
func (p *stepper) run(ctx context.Context, c *call, l *lease) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	copy(c.in[len(p.inputs):], l.in)
	copy(c.out[len(p.outputs):], l.out)
	if len(l.kept) > 0 {
		defer clear(l.kept)
		return l.exe.(KeptRunner).RunKept(ctx, c.in, c.out, len(l.in), l.kept)
	}
	return l.exe.Run(ctx, c.in, c.out)
}

// load brings the states of a stream before the step, as part k of n along the first axis.
func (l *lease) load(s *Stream, k, n int) {
	if s.past.kept != nil {
		if k == 0 {
			l.kept = l.kept[:0]
		}
		l.kept = append(l.kept, s.past.kept)
		return
	}
	rest := s.past.bytes
	for _, d := range l.in {
		rest = rest[copy(part(d, k, n), rest):]
	}
}

// store gives a stream its states behind the step.
func (l *lease) store(s *Stream, k, n int) {
	if s.past.kept != nil {
		return
	}
	rest := s.past.bytes
	for _, d := range l.out {
		rest = rest[copy(rest, part(d, k, n)):]
	}
}

// settle releases a lease after a run with the result err.
func (p *stepper) settle(l *lease, err error) {
	if errors.Is(err, ErrInternal) {
		return
	}
	p.release(l)
}
