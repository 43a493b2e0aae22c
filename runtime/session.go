package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// planned is the number of sets of input shapes for which a session keeps executables.
const planned = 4

// Session runs a model. It holds working memory, so only one goroutine can use it at a time; a second one gets ErrBusy.
// Sessions of one model share its weights and can run at the same time.
type Session struct {
	m      *Model
	set    *Set
	busy   atomic.Bool
	bounds []*bound // most recently used first
	in     []tensor.Datum
	out    []tensor.Datum
	key    []byte
	calls  charges // shares its budget with the executables
	full   func()  // evict(0)
}

// bound is an executable for one set of input shapes, and one version of the parameters.
type bound struct {
	key      string
	of       *version
	epoch    int // of the version, when it was bound
	exe      Executable
	outShape [][]int          // per output; nil if the inputs' shapes do not determine it
	next     []*tensor.Tensor // per update: the new content of its parameter; nil if the set runs no updates
}

// NewSession makes a session. Its memory is allocated at its first Run.
func (m *Model) NewSession() *Session {
	s := &Session{m: m, set: m.set, in: make([]tensor.Datum, len(m.inputs)), out: make([]tensor.Datum, len(m.outputs)),
		calls: charges{budget: m.newBudget()}}
	s.full = func() { s.evict(0) }
	return s
}

// Use makes the session compute with the parameters of a set of its model, from its next run on. A set that runs
// updates belongs to the first session that uses it; the error is an *OptionError for another one, and for a set of
// another model.
func (s *Session) Use(set *Set) error {
	return s.own(func() error {
		if set.m != s.m {
			return &OptionError{"set", "is a set of another model"}
		}
		if err := set.belongTo(s); err != nil {
			return err
		}
		s.set = set
		return nil
	})
}

// Run computes the outputs from the inputs, both by name. The caller owns the outputs. Inputs may have a narrower
// element type than the model's (float16 for float32, int32 for int64), or a wider integer type if the numbers fit.
// Optional inputs may be absent or nil.
func (s *Session) Run(ctx context.Context, in map[string]tensor.Datum) (map[string]tensor.Datum, error) {
	out := make(map[string]tensor.Datum, len(s.m.outputs))
	if err := s.RunInto(ctx, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// RunInto is like Run but writes outputs to the tensors in out. Such a tensor must have the element type and shape of
// the output, as an earlier Run returned it, and must not be an input. Outputs without a tensor are added to out. If
// the inputs have the model's element types and shapes that were seen before, and out is complete, RunInto allocates no
// memory. After an error the content of out's tensors is undefined. If the session's set runs updates, the outputs that
// update parameters are written into these, and not to out.
func (s *Session) RunInto(ctx context.Context, in, out map[string]tensor.Datum) error {
	return s.own(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if out == nil {
			return errNoOut
		}
		if err := s.inputs(func(c *charges) error { return s.m.inputData(ctx, in, s.in, c) }); err != nil {
			return err
		}
		v, err := s.version(ctx)
		if err != nil {
			return err
		}
		defer v.leave()
		p, err := s.bind(ctx, v)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.m.outputData(out, p.outShape, s.in, s.out, &s.calls); err != nil {
			return err
		}
		for i, t := range p.next {
			s.out[s.m.updatedBy[i]] = t
		}
		if err := p.exe.Run(ctx, s.in, s.out); err != nil {
			return err
		}
		if p.next != nil {
			if err := v.update(s.out); err != nil {
				return err
			}
		}
		for i, o := range s.m.outputs {
			if p.next == nil || !s.m.updating[i] {
				out[o.Name] = s.out[i]
			}
		}
		return nil
	})
}

// version returns the version of the parameters for a run, which leaves it. If the set runs updates, the version is its
// own.
func (s *Session) version(ctx context.Context) (*version, error) {
	if s.set.updates {
		if err := s.set.private(ctx); err != nil {
			return nil, err
		}
	}
	return s.set.enter()
}

// inputs calls make, which sets s.in. Plans are dropped to free memory for the inputs if necessary.
func (s *Session) inputs(make func(c *charges) error) error {
	if b := s.calls.budget; b != nil {
		b.WhenFull(s.full)
		defer b.WhenFull(nil)
	}
	return make(&s.calls)
}

// own runs f while no other goroutine uses the session.
func (s *Session) own(f func() error) (err error) {
	if !s.m.gate.enter() {
		return ErrClosed
	}
	defer s.m.gate.leave()
	if !s.busy.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer s.busy.Store(false)
	defer func() {
		clear(s.in)
		clear(s.out)
		s.calls.release()
		if v := recover(); v != nil {
			err = Recovered(nil, v)
			if _, ended := v.(*ir.Ended); !ended {
				s.drop() // after a panic, working memory may be inconsistent
			}
		}
	}()
	return f()
}

// BindShape plans for inputs with the given values of the symbols, so that the first Run with them need not. It
// assumes the required inputs and the named optional ones.
func (s *Session) BindShape(dims map[string]int64, optional ...string) error {
	return s.own(func() error {
		b, err := s.m.bindShape(dims, optional)
		if err != nil {
			return err
		}
		v, err := s.version(context.Background())
		if err != nil {
			return err
		}
		defer v.leave()
		_, err = s.find(context.Background(), v, appendTypes(s.key[:0], b.Inputs),
			func() (*Binding, error) { return b, nil })
		return err
	})
}

// Warmup calls BindShape and runs the model once on zeros, so that memory is allocated and caches are warm. It
// ignores the results. It is not an error if an operator refuses zeros.
func (s *Session) Warmup(ctx context.Context, dims map[string]int64, optional ...string) error {
	return s.own(func() error {
		b, err := s.m.bindShape(dims, optional)
		if err != nil {
			return err
		}
		for i, t := range b.Inputs {
			err := s.inputs(func(c *charges) (err error) {
				s.in[i], err = zeros(t, s.m.signature, c)
				return err
			})
			if errors.Is(err, ErrMemory) {
				return fmt.Errorf("input %q: %w", s.m.inputs[i].Name, err)
			}
			if err != nil {
				return &InputError{Name: s.m.inputs[i].Name, Msg: err.Error()}
			}
		}
		v, err := s.version(ctx)
		if err != nil {
			return err
		}
		defer v.leave()
		p, err := s.bind(ctx, v)
		if err != nil {
			return err
		}
		err = p.exe.Run(ctx, s.in, s.out) // no update: the parameters keep their content
		var node *NodeError
		if errors.As(err, &node) && !errors.Is(err, ErrInternal) {
			s.m.config.Logger.Debug("warm-up: the model refuses zeros", "graph", s.m.graph.Name, "error", err)
			return nil
		}
		return err
	})
}

// bind finds the executable for the shapes of s.in, or binds one.
func (s *Session) bind(ctx context.Context, v *version) (*bound, error) {
	return s.find(ctx, v, appendKey(s.key[:0], s.in), func() (*Binding,
		error) {
		return s.m.bindData(&s.calls.moves, s.in)
	})
}

// find returns the executable of a version for key, or binds one for the binding that make returns.
func (s *Session) find(ctx context.Context, v *version, key []byte, make func() (*Binding, error)) (*bound, error) {
	s.key = key
	epoch := v.epoch()
	if i := slices.IndexFunc(s.bounds, func(p *bound) bool {
		return p.of == v && p.epoch == epoch && p.key == string(key)
	}); i >= 0 {
		p := s.bounds[i]
		copy(s.bounds[1:i+1], s.bounds[:i])
		s.bounds[0] = p
		return p, nil
	}
	b, err := make()
	if err != nil {
		return nil, err
	}
	s.sweep(v)
	if s.m.config.MaxMemory == 0 {
		s.evict(s.others(v) + planned - 1)
	} else {
		s.evict(0) // the limit is for the whole session
	}
	b.Budget, b.Ctx = s.calls.budget, ctx
	steps := ir.EvalCtx{Ctx: ctx}
	shapes := s.m.outputShapes(&steps, b.Dims)
	exe, err := v.program.Bind(*b)
	if err != nil {
		return nil, err
	}
	if limit := s.m.config.MaxMemory; limit > 0 && exe.ArenaBytes() > limit {
		need := exe.ArenaBytes()
		_ = exe.Close() // the error to return is the limit
		return nil, &MemoryError{Need: need, Limit: limit, What: "the plan for " + b.String()}
	}
	if s.m.config.Logger.Enabled(ctx, slog.LevelDebug) {
		s.m.config.Logger.Debug("shapes bound", "graph", s.m.graph.Name, "binding", b.String(), "bytes",
			exe.ArenaBytes())
	}
	p := &bound{key: string(s.key), of: v, epoch: epoch, exe: exe, outShape: shapes}
	if s.set.updates {
		if p.next, err = s.m.nextContents(s.calls.budget); err != nil {
			_ = exe.Close() // err is the first error
			return nil, err
		}
	}
	v.hold()
	s.bounds = slices.Insert(s.bounds, 0, p)
	return p, nil
}

// nextContents returns tensors for the new content of the parameters that the graph updates, charged to a budget.
func (m *Model) nextContents(budget *ir.Budget) (all []*tensor.Tensor, err error) {
	var taken int64
	for _, at := range m.updated {
		t := m.params[at].Type.(*ir.TensorType)
		shape, _ := t.Shape.Known()
		n, err := tensor.Size(shape)
		if err != nil {
			return nil, err
		}
		elem := m.signature.elem(t)
		size := int64(tensor.ByteSize(elem, n))
		if err := budget.Take(size); err != nil {
			budget.Release(taken)
			return nil, refused(err, fmt.Sprintf("the update of parameter %q, with memory already held,",
				m.params[at].Name))
		}
		taken += size
		all = append(all, tensor.New(elem, shape...))
	}
	return all, nil
}

// sweep closes the executables of versions that no set has any more, and those of v whose choices have changed.
func (s *Session) sweep(v *version) {
	kept := s.bounds[:0]
	for _, p := range s.bounds {
		if p.of.gone() || p.of == v && p.epoch != v.epoch() {
			s.close(p)
		} else {
			kept = append(kept, p)
		}
	}
	clear(s.bounds[len(kept):])
	s.bounds = kept
}

// others returns the number of executables of versions other than v that are kept beside those of v: at most as many as
// one version has, since a set uses two versions in turn.
func (s *Session) others(v *version) (n int) {
	for _, p := range s.bounds {
		if p.of != v {
			n++
		}
	}
	return min(n, planned)
}

// close closes an executable, which is not in use.
func (s *Session) close(p *bound) {
	if err := p.exe.Close(); err != nil {
		s.m.config.Logger.Warn("release of working memory failed", "error", err)
	}
	for _, t := range p.next {
		s.calls.budget.Release(int64(len(t.Bytes())))
	}
	p.of.drop(&p.of.bound)
}

// evict closes executables, the least recently used first, until at most n are left.
func (s *Session) evict(n int) {
	for len(s.bounds) > n {
		last := s.bounds[len(s.bounds)-1]
		s.bounds = s.bounds[:len(s.bounds)-1]
		s.close(last)
	}
}

// drop drops all executables.
func (s *Session) drop() {
	for _, p := range s.bounds {
		p.of.drop(&p.of.bound)
	}
	s.bounds, s.calls = nil, charges{budget: s.m.newBudget()}
}

// Memory returns the working memory that the session holds between runs, in bytes.
func (s *Session) Memory() int64 {
	var sum int64
	for _, p := range s.bounds {
		sum += p.exe.ArenaBytes()
	}
	return sum
}

// Profile returns the time of each step for the shapes of the last run, summed over all runs with these shapes. It
// returns nil unless Options.Profile is set.
func (s *Session) Profile() []StepTime {
	if len(s.bounds) == 0 {
		return nil
	}
	return s.bounds[0].exe.Profile()
}

// Close releases the session's working memory, but not the model. A session may be used again after Close.
func (s *Session) Close() error {
	if !s.m.gate.enter() {
		return nil // the model has released everything
	}
	defer s.m.gate.leave()
	if !s.busy.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer s.busy.Store(false)
	s.evict(0)
	return nil
}
