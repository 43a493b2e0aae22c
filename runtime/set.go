package runtime

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Set is the content of a model's parameters. Every model has one, Model.Set, which its sessions and streams use unless
// they are told otherwise (Session.Use, Stream.Use). Sets of a model differ in nothing but content: the graph is not
// compiled again.
//
// The content has versions. Replace makes the next one while others run: a run sees one version from start to end, and
// a stream keeps its version until Stream.Use. Memory of a version is reused for the next but one, or released when its
// last run and stream end. A set is safe for concurrent use.
//
// A set that NewSet has made runs the updates of the graph, if there are any (ir.Graph.Updates). After each run, the
// outputs that update parameters are written into these, in place, and are not returned. With Options.Outputs, only the
// updates by these outputs run. Such a set belongs to one session and has no streams. The writes are not interrupted. A
// run that fails leaves the set as it was.
type Set struct {
	m         *Model
	updates   bool
	replacing chan struct{} // has an item while a goroutine makes a version

	mu      sync.Mutex
	current *version // nil: closed
	spare   *version // whose memory the next version takes; nil: none
	session *Session // that runs the updates; nil: none so far
}

// Parameters returns the parameters of the model, in the graph's order.
func (m *Model) Parameters() []Port { return slices.Clone(m.params) }

// Set returns the set that sessions, streams and Run use unless they are told otherwise. It runs no updates: runs
// return the outputs that would be written.
func (m *Model) Set() *Set { return m.set }

// NewSet makes a set with the content that Model.Set has now. Its memory is shared until one of them is replaced or
// updated. Close it when it is no longer used.
func (m *Model) NewSet() *Set {
	s := &Set{m: m, updates: len(m.updated) > 0, replacing: make(chan struct{}, 1)}
	m.set.mu.Lock()
	defer m.set.mu.Unlock()
	s.current = m.set.current
	s.current.share()
	return s
}

// Close ends the use of the set, which releases its memory when the last run and the last stream of it have ended.
// Sessions that use it return ErrClosed from then on. The set of Model.Set stays until the model is closed.
func (s *Set) Close() error {
	if s == s.m.set || !s.m.gate.enter() {
		return nil
	}
	defer s.m.gate.leave()
	s.mu.Lock()
	current, spare := s.current, s.spare
	s.current, s.spare = nil, nil
	s.mu.Unlock()
	for _, v := range []*version{current, spare} {
		if v != nil {
			s.release(v)
		}
	}
	return nil
}

// release ends the set's use of a version, which idle sessions of Model.Run then give up, too.
func (s *Set) release(v *version) {
	v.unshare()
	s.m.sessions.sweep()
}

// enter returns the current version, for a run or a stream, which leaves it at its end.
func (s *Set) enter() (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, ErrClosed
	}
	s.current.enter()
	return s.current, nil
}

// belongTo makes sure that x is the only session that runs the updates of the set.
func (s *Set) belongTo(x *Session) error {
	if !s.updates {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil && s.session != x {
		return &OptionError{"set", "runs the updates of the model, and belongs to another session; make a set for " +
			"this one"}
	}
	s.session = x
	return nil
}

// Replace replaces the content of parameters, by name: those that are not in the map keep theirs. Element types and
// shapes must be those of Model.Parameters. The tensors are copied. When Replace returns, whatever follows from the
// parameters is computed and packed, also for streams if the model has had any, and runs that begin use it. After an
// error the set has its former content.
func (s *Set) Replace(ctx context.Context, content map[string]tensor.Datum) error {
	if !s.m.gate.enter() {
		return ErrClosed
	}
	defer s.m.gate.leave()
	given, err := s.m.contents(content)
	if err != nil {
		return err
	}
	return s.replace(ctx, given)
}

// contents returns the tensors for parameters by name, in the graph's order; nil for those that are not given.
func (m *Model) contents(content map[string]tensor.Datum) ([]*tensor.Tensor, error) {
	given, found := make([]*tensor.Tensor, len(m.params)), 0
	for i, p := range m.params {
		d, ok := content[p.Name]
		if !ok {
			continue
		}
		found++
		t, isTensor := unwrap(d).(*tensor.Tensor)
		if !isTensor || t == nil || !ir.EqualTypes(ir.Of(t), p.Type) {
			return nil, &ParameterError{Name: p.Name,
				Msg: fmt.Sprintf("expected %s, found %s", typeText(p.Type), tensor.Describe(unwrap(d)))}
		}
		given[i] = t
	}
	if found < len(content) {
		for _, name := range slices.Sorted(maps.Keys(content)) {
			if !slices.ContainsFunc(m.params, func(p Port) bool { return p.Name == name }) {
				return nil, m.noParameter(name)
			}
		}
	}
	return given, nil
}

// typeText writes the type of a parameter as tensors are described.
func typeText(t ir.Type) string {
	tt := t.(*ir.TensorType)
	shape, _ := tt.Shape.Known()
	return tt.Elem.String() + tensor.ShapeString(shape)
}

// noParameter is the error for a name that no parameter has.
func (m *Model) noParameter(name string) error {
	names := make([]string, len(m.params))
	for i, p := range m.params {
		names[i] = p.Name
	}
	return &ParameterError{Name: name, Msg: lacking("parameter", name, names)}
}

// replace is Replace for tensors in the graph's order; nil keeps the content.
func (s *Set) replace(ctx context.Context, given []*tensor.Tensor) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.replacing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.replacing }()
	now, err := s.enter()
	if err != nil {
		return err
	}
	defer now.leave()
	contents := slices.Clone(now.contents)
	for i, t := range given {
		if t != nil {
			contents[i] = t
		}
	}
	next, err := s.next(ctx, contents, &now.content)
	if err != nil {
		return err
	}
	if !s.updates && now.steps.ready() { // a set that updates has no streams
		if _, err := next.stepper(ctx); err != nil {
			s.release(next)
			return err
		}
	}
	return s.publish(next)
}

// next returns a version with the given content, which the set shares. It is in the memory of the spare one if that can
// be refilled. The content is read under reading, since a run may be about to update it.
func (s *Set) next(ctx context.Context, contents []*tensor.Tensor, reading *sync.RWMutex) (*version, error) {
	s.mu.Lock()
	spare := s.spare
	s.spare = nil
	s.mu.Unlock()
	if spare == nil {
		return s.own(ctx, contents, reading)
	}
	if spare.refillable() {
		err := spare.refill(ctx, contents, reading)
		if err == nil {
			return spare, nil
		}
		s.release(spare)
		return nil, err
	}
	s.release(spare)
	return s.own(ctx, contents, reading)
}

// own returns a new version with a copy of the given content.
func (s *Set) own(ctx context.Context, contents []*tensor.Tensor, reading *sync.RWMutex) (*version, error) {
	copies := copyOf(ctx, contents, reading)
	v, err := s.m.newVersion(ctx, copies, true)
	if err != nil {
		return nil, err
	}
	v.share()
	return v, nil
}

// copyOf returns copies of tensors, read under a lock. It panics with an *ir.Ended when ctx is done.
func copyOf(ctx context.Context, contents []*tensor.Tensor, reading *sync.RWMutex) []*tensor.Tensor {
	reading.RLock()
	defer reading.RUnlock()
	steps := ir.EvalCtx{Ctx: ctx}
	copies := make([]*tensor.Tensor, len(contents))
	for i, t := range contents {
		copies[i] = t.CloneParts(steps.Pause)
	}
	return copies
}

// publish makes next the current version. The one before becomes spare if it can be refilled one day.
func (s *Set) publish(next *version) error {
	s.mu.Lock()
	old := s.current
	if old == nil { // closed meanwhile
		s.mu.Unlock()
		next.unshare()
		return ErrClosed
	}
	s.current = next
	old.mu.Lock()
	keep := old.own && old.sets == 1
	old.mu.Unlock()
	if keep {
		s.spare = old
	}
	s.mu.Unlock()
	if !keep {
		s.release(old)
	}
	return nil
}

// private makes the current version one that the set may write to, for runs that update it.
func (s *Set) private(ctx context.Context) error {
	s.mu.Lock()
	v := s.current
	s.mu.Unlock()
	if v == nil {
		return ErrClosed
	}
	v.mu.Lock()
	is := v.own && v.sets == 1
	v.mu.Unlock()
	if is {
		return nil
	}
	return s.replace(ctx, nil)
}

// Read returns a copy of the content of parameters, by name: of those that are named, or of all.
func (s *Set) Read(names ...string) (map[string]tensor.Datum, error) {
	if !s.m.gate.enter() {
		return nil, ErrClosed
	}
	defer s.m.gate.leave()
	for _, name := range names {
		if !slices.ContainsFunc(s.m.params, func(p Port) bool { return p.Name == name }) {
			return nil, s.m.noParameter(name)
		}
	}
	v, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer v.leave()
	v.content.RLock()
	defer v.content.RUnlock()
	out := map[string]tensor.Datum{}
	for i, p := range s.m.params {
		if len(names) == 0 || slices.Contains(names, p.Name) {
			out[p.Name] = v.contents[i].Clone()
		}
	}
	return out, nil
}

// Publish replaces the content of another set of the model by a copy of this one's, as Replace does.
func (s *Set) Publish(ctx context.Context, to *Set) error {
	if to.m != s.m {
		return &OptionError{"set", "is a set of another model"}
	}
	if to == s {
		return nil
	}
	if !s.m.gate.enter() {
		return ErrClosed
	}
	defer s.m.gate.leave()
	v, err := s.enter()
	if err != nil {
		return err
	}
	defer v.leave()
	if !s.updates {
		return to.replace(ctx, v.contents)
	}
	var copies []*tensor.Tensor // nothing holds the locks of two versions
	if err := ended(func() { copies = copyOf(ctx, v.contents, &v.content) }); err != nil {
		return err
	}
	return to.replace(ctx, copies)
}

// Hash is the Model.Hash of a model that is compiled with this content and the same parameters. It reads all weights
// after each change.
func (s *Set) Hash() ([sha256.Size]byte, error) {
	if !s.m.gate.enter() {
		return [sha256.Size]byte{}, ErrClosed
	}
	defer s.m.gate.leave()
	v, err := s.enter()
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	defer v.leave()
	return v.hash()
}
