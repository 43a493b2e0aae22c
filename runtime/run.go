package runtime

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
)

// Run computes the outputs from the inputs, both by name, like Session.Run. Any number of goroutines may call it at the
// same time. It uses sessions that the model keeps: at most Options.Sessions of them run at once, and further calls
// wait for one, or for ctx. While they run, each may use Options.MaxMemory. Between runs, all of them together keep at
// most Options.MaxMemory; the rest is released. Close releases them.
//
// A program that wants to reuse the memory of outputs, or to bind shapes in advance, makes sessions itself
// (NewSession).
func (m *Model) Run(ctx context.Context, in map[string]tensor.Datum) (map[string]tensor.Datum, error) {
	s, err := m.sessions.take(ctx, m)
	if err != nil {
		return nil, err
	}
	defer m.sessions.put(s, m)
	return s.Run(ctx, in)
}

// sessionPool is the sessions of Model.Run.
type sessionPool struct {
	running chan struct{} // holds a token for each session that runs

	mu   sync.Mutex
	idle []idleSession // the last one has run last
	held int64         // the bytes that they keep
}

type idleSession struct {
	*Session
	bytes int64
}

// take returns a session that no one else uses, once fewer than the bound of them run.
func (p *sessionPool) take(ctx context.Context, m *Model) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.running <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return m.NewSession(), nil
	}
	s := p.idle[n-1]
	p.idle = p.idle[:n-1]
	p.held -= s.bytes
	return s.Session, nil
}

// put gives back a session, unless the model is closed. It closes idle ones while they keep more than Options.MaxMemory
// in all, those that have not run for the longest time first.
func (p *sessionPool) put(s *Session, m *Model) {
	defer func() { <-p.running }()
	if !m.gate.enter() {
		return
	}
	defer m.gate.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, idleSession{s, s.Memory()})
	p.held += s.Memory()
	for limit := m.config.MaxMemory; limit > 0 && p.held > limit; {
		first := p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		p.held -= first.bytes
		_ = first.Close() // it does not fail: nobody uses the session
	}
}

// sweep closes the executables of idle sessions whose versions of the parameters no set has any more.
func (p *sessionPool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.idle {
		s := &p.idle[i]
		s.Session.sweep(nil)
		p.held += s.Memory() - s.bytes
		s.bytes = s.Memory()
	}
}

// drop forgets the idle sessions of a closed model, which has released their memory.
func (p *sessionPool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle, p.held = nil, 0
}

// Output returns the elements, in row-major order and without a copy, and the shape of the tensor that a run returned
// under a name. T is the element type: a number, bool, tensor.F16, tensor.BF16, or string. The error says which outputs
// there are, or which element type the tensor has.
func Output[T tensor.Element](out map[string]tensor.Datum, name string) (data []T, shape []int, err error) {
	d, ok := out[name]
	if !ok {
		return nil, nil, &InputError{Name: name, Msg: lacking("output", name, slices.Sorted(maps.Keys(out))),
			output: true}
	}
	t, ok := unwrap(d).(*tensor.Tensor)
	if !ok {
		return nil, nil, &InputError{Name: name, Msg: "expected a tensor, found " + tensor.Describe(d), output: true}
	}
	if data, err = tensor.Elements[T](t); err != nil {
		return nil, nil, &InputError{Name: name, Msg: err.Error(), output: true}
	}
	return data, t.Shape(), nil
}
