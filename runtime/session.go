package runtime

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/essmc/essmc/ir/tensor"
)

// planned is how many sets of input shapes a session keeps executables for.
const planned = 4

// Session runs a model. It holds working memory, so one goroutine uses it at a time (a second one gets ErrBusy); sessions
// of one model share its weights and run at the same time.
type Session struct {
	m      *Model
	busy   atomic.Bool
	bounds []*bound // most recently used first
	in     []tensor.Datum
	out    []tensor.Datum
	key    []byte
}

// bound is an executable for one set of input shapes.
type bound struct {
	key      string
	exe      Executable
	outShape [][]int // per output; nil where the inputs' shapes do not determine it
}

// NewSession makes a session; what it needs is allocated at its first Run.
func (m *Model) NewSession() *Session {
	return &Session{m: m, in: make([]tensor.Datum, len(m.inputs)), out: make([]tensor.Datum, len(m.outputs))}
}

// Run computes the outputs, by name, from the inputs, by name. The outputs are the caller's. Inputs may have a narrower
// element type than the model's (float16 for float32, int32 for int64), or a wider integer type whose numbers fit; an
// optional one may be left out or nil.
func (s *Session) Run(ctx context.Context, in map[string]tensor.Datum) (map[string]tensor.Datum, error) {
	out := make(map[string]tensor.Datum, len(s.m.outputs))
	if err := s.RunInto(ctx, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// RunInto is Run with memory of the caller's: an output for which out has a tensor is written to it (its element type and
// shape must be those of the output, as an earlier Run gave it, and it must not be one of the inputs); the others are added
// to out. When the inputs have the model's own element types and their shapes were seen before, and out is complete, it
// allocates no memory of its own. After an error the content of out's tensors is undefined.
func (s *Session) RunInto(ctx context.Context, in, out map[string]tensor.Datum) error {
	return s.own(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if out == nil {
			return errNoOut
		}
		if err := s.m.inputData(in, s.in); err != nil {
			return err
		}
		p, err := s.bind()
		if err != nil {
			return err
		}
		if err := s.m.outputData(out, p.outShape, s.in, s.out); err != nil {
			return err
		}
		if err := p.exe.Run(ctx, s.in, s.out); err != nil {
			return err
		}
		for i, o := range s.m.outputs {
			out[o.Name] = s.out[i]
		}
		return nil
	})
}

// own runs f while the session is the caller's.
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
		if v := recover(); v != nil {
			err = Recovered(nil, v)
			s.drop() // what panicked may have left its working memory in disorder
		}
	}()
	return f()
}

// BindShape plans for inputs of the dimensions dims, by symbol, so that the first Run with them does not have to. The inputs
// are the required ones, and the optional ones that are named.
func (s *Session) BindShape(dims map[string]int64, optional ...string) error {
	return s.own(func() error {
		b, err := s.m.bindShape(dims, optional)
		if err != nil {
			return err
		}
		_, err = s.find(appendTypes(s.key[:0], b.Inputs), func() (*Binding, error) { return b, nil })
		return err
	})
}

// Warmup is BindShape and one run over zeros, whose results are dropped: memory is there and caches are warm before the first
// caller waits. Where the model's operators refuse zeros, it has done what it can.
func (s *Session) Warmup(ctx context.Context, dims map[string]int64, optional ...string) error {
	return s.own(func() error {
		b, err := s.m.bindShape(dims, optional)
		if err != nil {
			return err
		}
		for i, t := range b.Inputs {
			if s.in[i], err = zeros(t, s.m.signature); err != nil {
				return &InputError{Name: s.m.inputs[i].Name, Msg: err.Error()}
			}
		}
		p, err := s.bind()
		if err != nil {
			return err
		}
		err = p.exe.Run(ctx, s.in, s.out)
		var node *NodeError
		if errors.As(err, &node) && !errors.Is(err, ErrInternal) {
			s.m.config.Logger.Debug("warm-up: the model refuses zeros", "graph", s.m.graph.Name, "error", err)
			return nil
		}
		return err
	})
}

// bind finds the executable for the shapes of s.in, or binds one.
func (s *Session) bind() (*bound, error) {
	return s.find(appendKey(s.key[:0], s.in), func() (*Binding, error) { return s.m.bindData(s.in) })
}

// find gives the executable that is kept under key, or binds the one that make describes.
func (s *Session) find(key []byte, make func() (*Binding, error)) (*bound, error) {
	s.key = key
	if i := slices.IndexFunc(s.bounds, func(p *bound) bool { return p.key == string(key) }); i >= 0 {
		p := s.bounds[i]
		copy(s.bounds[1:i+1], s.bounds[:i])
		s.bounds[0] = p
		return p, nil
	}
	b, err := make()
	if err != nil {
		return nil, err
	}
	if s.m.config.MaxMemory == 0 {
		s.evict(planned - 1)
	} else {
		s.evict(0) // the limit is for all that the session holds
	}
	exe, err := s.m.program.Bind(*b)
	if err != nil {
		return nil, err
	}
	if limit := s.m.config.MaxMemory; limit > 0 && exe.ArenaBytes() > limit {
		need := exe.ArenaBytes()
		_ = exe.Close() // the limit is what the caller needs to know
		return nil, &MemoryError{Need: need, Limit: limit, What: "the plan for " + b.String()}
	}
	s.m.config.Logger.Debug("shapes bound", "graph", s.m.graph.Name, "binding", b.String(), "bytes", exe.ArenaBytes())
	p := &bound{key: string(s.key), exe: exe, outShape: s.m.outputShapes(b.Dims)}
	s.bounds = slices.Insert(s.bounds, 0, p)
	return p, nil
}

// evict closes executables, the least recently used first, until at most n are left.
func (s *Session) evict(n int) {
	for len(s.bounds) > n {
		last := s.bounds[len(s.bounds)-1]
		s.bounds = s.bounds[:len(s.bounds)-1]
		if err := last.exe.Close(); err != nil {
			s.m.config.Logger.Warn("release of working memory failed", "error", err)
		}
	}
}

// drop forgets all executables.
func (s *Session) drop() {
	s.bounds = nil
}

// Memory is the working memory that the session holds between runs, in bytes.
func (s *Session) Memory() int64 {
	var sum int64
	for _, p := range s.bounds {
		sum += p.exe.ArenaBytes()
	}
	return sum
}

// Profile gives what each step took for the shapes of the last run, summed over all runs with them; nil unless
// Options.Profile was set.
func (s *Session) Profile() []StepTime {
	if len(s.bounds) == 0 {
		return nil
	}
	return s.bounds[0].exe.Profile()
}

// Close releases the session's working memory; the model lives on. A session may be used again after Close.
func (s *Session) Close() error {
	if !s.m.gate.enter() {
		return nil // the model released everything
	}
	defer s.m.gate.leave()
	if !s.busy.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer s.busy.Store(false)
	s.evict(0)
	return nil
}
