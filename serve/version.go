package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/serve/internal/wire"
	"github.com/essmc/essmc/serve/queue"
)

// version is a version of a model that is loaded. It is closed when it is retired and the last one who uses it is done:
// sequences go on with the version that they began with.
type version struct {
	name, number string
	o            ModelOptions
	kind         open.Kind
	m            *runtime.Model
	q            *queue.Queue
	inputs       []runtime.Port
	outputs      []runtime.Port
	batch        string // symbol; may be empty
	stateBytes   int64  // of a stream of one sample
	why          string // why it has no streams; empty if it has
	stats        stats

	mu      sync.Mutex
	users   int
	retired bool
}

// load opens a model, compiles it and runs it once.
func (s *Server) load(ctx context.Context, name, number, path string) (_ *version, err error) {
	o := s.o.of(name)
	v := &version{name: name, number: number, o: o}
	oo := open.Options{}
	if s.o.Untrusted {
		oo = open.Untrusted()
	}
	oo.Shapes, oo.Carry, oo.Parameters, oo.Context = o.Shapes, o.State, o.Parameters, ctx
	m, err := open.File(path, oo)
	if err != nil {
		return nil, err
	}
	v.kind = m.Kind
	ro := runtime.Options{Copy: true}
	if s.o.Untrusted {
		ro = runtime.Untrusted(cpu.New())
	}
	ro.Threads, ro.Outputs, ro.Context, ro.RefuseUpdates = max(o.Threads, 1), o.Outputs, ctx, true
	if v.m, err = m.Compile(ro); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	v.inputs, v.outputs = v.m.Inputs(), v.m.Outputs()
	if err := v.check(); err != nil {
		return nil, err
	}
	v.batch = o.Batch.Symbol
	or(&v.batch, v.m.Meta()[ir.MetaBatch])
	instances := o.Instances
	or(&instances, max(1, goruntime.GOMAXPROCS(0)/ro.Threads))
	if v.q, err = queue.New(v.m, queue.Options{Workers: instances, Max: o.Batch.Max, Preferred: o.Batch.Preferred,
		Delay: o.Batch.Delay, Limit: o.Batch.Queue, Levels: o.Batch.Levels, Default: o.Batch.Default, Batch: o.Batch.Symbol,
		Ran: v.stats.ran}); err != nil {
		return nil, err
	}
	if err := v.findStreams(ctx); err != nil {
		return nil, err
	}
	return v, v.warm(ctx)
}

// check refuses inputs and outputs that the protocol cannot encode.
func (v *version) check() error {
	for i, ports := range [][]runtime.Port{v.inputs, v.outputs} {
		kind := []string{"input", "output"}[i]
		for _, p := range ports {
			t, ok := p.Type.(*ir.TensorType)
			if !ok {
				return fmt.Errorf("%s %q: the protocol has no encoding of %v", kind, p.Name, p.Type)
			}
			if _, ok := wire.Name(t.Elem); !ok {
				return fmt.Errorf("%s %q: the protocol has no datatype for %v", kind, p.Name, t.Elem)
			}
		}
	}
	return nil
}

// findStreams finds out whether the model runs step by step.
func (v *version) findStreams(ctx context.Context) error {
	stream, err := v.m.NewStreamContext(ctx, 1)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		v.why = err.Error()
		return nil
	}
	states, err := stream.State()
	if err != nil {
		return err
	}
	for _, t := range states {
		v.stateBytes += int64(len(t.Bytes()))
	}
	return stream.Close()
}

// warm runs the model once on zeros, so that the first request need not wait for packing. Without sizes in serve.yaml
// it tries some, and a model may refuse them.
func (v *version) warm(ctx context.Context) error {
	sizes := []int64{64, 1}
	if len(v.o.Warmup) > 0 {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		dims := map[string]int64{}
		for _, name := range v.m.Graph().Symbols() {
			dims[name] = size
		}
		if v.batch != "" {
			dims[v.batch] = 1
		}
		maps.Copy(dims, v.o.Warmup)
		in, err := v.zeros(dims)
		if err == nil {
			_, err = v.q.Run(ctx, in, 0)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if len(v.o.Warmup) > 0 {
			return fmt.Errorf("warmup: %w", err)
		}
	}
	return nil
}

// zeros makes the required inputs.
func (v *version) zeros(dims map[string]int64) (map[string]tensor.Datum, error) {
	in := map[string]tensor.Datum{}
	for _, p := range v.inputs {
		if p.Optional {
			continue
		}
		t := p.Type.(*ir.TensorType)
		if t.NoRank {
			return nil, errors.New("an input has no known shape")
		}
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			n, err := d.Eval(dims)
			if err != nil || n < 0 || n > 1<<20 {
				return nil, fmt.Errorf("input %q: dimension %v is not known", p.Name, d)
			}
			shape[i] = int(n)
		}
		if n, err := tensor.Size(shape); err != nil || n > 1<<26 {
			return nil, fmt.Errorf("input %q is too large", p.Name)
		}
		in[p.Name] = tensor.New(t.Elem, shape...)
	}
	return in, nil
}

// samples returns the size of the batch dimension in the inputs of a request; 1 if there is none.
func (v *version) samples(in map[string]tensor.Datum) int {
	for _, p := range v.inputs {
		t, ok := p.Type.(*ir.TensorType)
		x, given := in[p.Name].(*tensor.Tensor)
		if !ok || !given || v.batch == "" {
			continue
		}
		axis := slices.IndexFunc(t.Shape, func(d ir.Dim) bool { s, ok := d.Symbol(); return ok && s == v.batch })
		if axis >= 0 && axis < x.Rank() {
			return x.Dim(axis)
		}
	}
	return 1
}

// replace takes over weights of the same shapes, without compiling again. It reports whether it did.
func (s *Server) replace(ctx context.Context, v *version, path string) (bool, error) {
	if v.kind != open.Directory || len(v.m.Parameters()) == 0 {
		return false, nil
	}
	oo := open.Options{}
	if s.o.Untrusted {
		oo = open.Untrusted()
	}
	oo.Context = ctx
	content, err := open.Weights(path, v.m, oo)
	if err != nil {
		return false, err
	}
	return true, v.m.Set().Replace(ctx, content)
}

// use counts a user, unless the version is closed.
func (v *version) use() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.retired && v.users == 0 {
		return false
	}
	v.users++
	return true
}

// done ends the use.
func (v *version) done() {
	v.mu.Lock()
	v.users--
	last := v.retired && v.users == 0
	v.mu.Unlock()
	if last {
		go v.close() // waits for workers, of which the caller may be one
	}
}

// retire closes the version when nobody uses it. It does not wait for that.
func (v *version) retire() {
	v.mu.Lock()
	first := !v.retired
	v.retired = true
	idle := v.users == 0
	v.mu.Unlock()
	if first && idle {
		v.close()
	}
}

func (v *version) close() {
	if v.q != nil {
		v.q.Close()
	}
	v.m.Close()
}

// stats are what a version has done since it was loaded.
type stats struct {
	mu                            sync.Mutex
	success, fail, waited, ranFor duration
	inferences, executions        uint64
	last                          time.Time
	batches                       map[int]duration
}

// duration is a number of events with their time.
type duration struct {
	count uint64
	time  time.Duration
}

func (d *duration) add(t time.Duration) { d.count++; d.time += t }

// ran counts a batch.
func (s *stats) ran(requests int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executions++
	if s.batches == nil {
		s.batches = map[int]duration{}
	}
	d := s.batches[requests]
	d.add(took)
	s.batches[requests] = d
}

// answered counts a request.
func (s *stats) answered(res queue.Result, samples int, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if err != nil {
		s.fail.add(took)
		return
	}
	s.success.add(took)
	s.waited.add(res.Waited)
	s.ranFor.add(res.Ran)
	s.inferences += uint64(samples)
}
