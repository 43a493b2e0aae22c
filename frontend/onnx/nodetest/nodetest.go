// Package nodetest runs folders of ONNX's node tests: a model of one or a few operators, inputs, and expected
// outputs. It serves `essmc test` and the project's tests of its backends.
//
// It imports frontend/onnx, runtime, ir and ir/tensor. The caller supplies the backend and registers the operators.
// Outputs are compared as by the standard's own runner; shapes and element types must also be equal. A test is only
// skipped with a reason. A test that panics or runs too long fails, and the others continue. Results are sorted by
// name.
package nodetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// Options are the options of Run. Backend is required.
type Options struct {
	Backend runtime.Backend
	// Prepare, if not nil, changes a model's graph before it is compiled, like passes. It keeps inputs and outputs.
	Prepare func(g *ir.Graph) error
	// Match selects tests by name. Nil selects all.
	Match *regexp.Regexp
	// Skip maps tests that are not run to the reasons. It must not name tests that do not exist.
	Skip map[string]string
	// Jobs is the number of tests to run at once. 0 means 1.
	Jobs int
	// Timeout is the limit for one test. 0 means a minute.
	Timeout time.Duration
	// Done, if not nil, is called with each result when it is known, from one goroutine at a time.
	Done func(Result)
}

// Status is the outcome of a test.
type Status string

// The outcomes of a test.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result is the result of one test.
type Result struct {
	Name string
	// Ops lists the operators of the model, sorted, as far as it could be read: "Add", "ai.onnx.ml.Scaler".
	Ops      []string
	Status   Status
	Reason   string // reason of a failure or a skip
	Err      error  // of a failure, for errors.Is: runtime.ErrUnsupported where the backend refuses the model
	Duration time.Duration
	// Unsupported lists the operators that prevent the model from being read.
	Unsupported []string
}

// Find lists the tests in or below root by the last element of their names, sorted: folders with a model.onnx, and the
// names before .onnx of other models with an output beside them, as in the standard's set "light".
func Find(root fs.FS) ([]string, error) {
	var dirs []string
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		name, model := strings.CutSuffix(p, ".onnx")
		switch {
		case err != nil || d.IsDir() || !model:
		case path.Base(p) == "model.onnx":
			dirs = append(dirs, path.Dir(p))
		default:
			if _, err := fs.Stat(root, name+"_output_0.pb"); err == nil {
				dirs = append(dirs, name)
			}
		}
		return err
	})
	slices.SortFunc(dirs, func(a, b string) int {
		return cmp.Or(cmp.Compare(path.Base(a), path.Base(b)), cmp.Compare(a, b))
	})
	return dirs, err
}

// Run runs the selected tests in and below root.
func Run(ctx context.Context, root fs.FS, o Options) ([]Result, error) {
	dirs, err := Find(root)
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return nil, errors.New("no folder contains a model.onnx, or another model with outputs beside it")
	}
	for _, name := range sortedKeys(o.Skip) {
		if !slices.ContainsFunc(dirs, func(d string) bool { return path.Base(d) == name }) {
			return nil, fmt.Errorf("the list of skipped tests names %s, which does not exist", name)
		}
	}
	if o.Match != nil {
		dirs = slices.DeleteFunc(dirs, func(d string) bool { return !o.Match.MatchString(path.Base(d)) })
	}
	results := make([]Result, len(dirs))
	var wg sync.WaitGroup
	var mu sync.Mutex
	work := make(chan int)
	for range max(1, o.Jobs) {
		wg.Go(func() {
			for i := range work {
				results[i] = runOne(ctx, root, dirs[i], o)
				if o.Done != nil {
					mu.Lock()
					o.Done(results[i])
					mu.Unlock()
				}
			}
		})
	}
	for i := range dirs {
		if ctx.Err() != nil {
			break
		}
		work <- i
	}
	close(work)
	wg.Wait()
	return results, ctx.Err()
}

// runOne runs one test, within its time.
func runOne(ctx context.Context, root fs.FS, dir string, o Options) Result {
	name := path.Base(dir)
	if why, ok := o.Skip[name]; ok {
		return Result{Name: name, Status: Skipped, Reason: why}
	}
	limit := o.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	done := make(chan Result, 1)
	go func() {
		t := test{root: root, dir: dir, backend: o.Backend, prepare: o.Prepare}
		err := t.guarded(ctx)
		r := Result{Name: name, Ops: t.ops, Status: Passed, Unsupported: t.unsupported}
		if err != nil {
			r.Status, r.Reason, r.Err = Failed, err.Error(), err
		}
		done <- r
	}()
	var r Result
	select {
	case r = <-done:
	case <-ctx.Done():
		err := fmt.Errorf("not finished after %v: %w", limit, ctx.Err())
		r = Result{Name: name, Status: Failed, Reason: err.Error(), Err: err}
	}
	r.Duration = time.Since(start)
	return r
}

type test struct {
	root        fs.FS
	dir         string
	backend     runtime.Backend
	prepare     func(*ir.Graph) error
	ops         []string
	unsupported []string
	light       bool // the model and its outputs are not in a folder of their own, and its input is a ramp
}

func (t *test) guarded(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return t.run(ctx)
}

func (t *test) run(ctx context.Context) error {
	b, err := fs.ReadFile(t.root, path.Join(t.dir, "model.onnx"))
	if errors.Is(err, fs.ErrNotExist) {
		t.light = true
		b, err = fs.ReadFile(t.root, t.dir+".onnx")
	}
	if err != nil {
		return err
	}
	g, _, err := onnx.Parse(b, "model.onnx", onnx.Options{Resolver: t.backend.Resolver()})
	if err != nil {
		var u *onnx.UnsupportedError
		if errors.As(err, &u) {
			for _, op := range u.Operators {
				t.unsupported = append(t.unsupported, fullName(op.Domain, op.Op))
			}
			t.ops = slices.Compact(slices.Clone(t.unsupported))
		}
		return err
	}
	t.ops = operators(g)
	if t.prepare != nil {
		if err := t.prepare(g); err != nil {
			return err
		}
	}
	m, err := runtime.New(g, runtime.Options{Backend: t.backend, Threads: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	if t.light {
		return t.set(ctx, m, t.dir+"_")
	}
	sets, err := fs.Glob(t.root, path.Join(t.dir, "test_data_set_*"))
	if err != nil {
		return err
	}
	if len(sets) == 0 {
		return errors.New("no test_data_set folder")
	}
	for _, set := range sets {
		if err := t.set(ctx, m, set+"/"); err != nil {
			if len(sets) > 1 {
				return fmt.Errorf("%s: %w", path.Base(set), err)
			}
			return err
		}
	}
	return nil
}

// set runs the files whose names begin with set.
func (t *test) set(ctx context.Context, m *runtime.Model, set string) error {
	g := m.Graph()
	in := map[string]tensor.Datum{}
	for i, v := range g.Inputs {
		if t.light {
			var err error
			if in[v.Name], err = ramp(v.Type); err != nil {
				return fmt.Errorf("input %s: %w", v.Name, err)
			}
			continue
		}
		d, err := t.datum(set, "input", i, v.Type)
		if errors.Is(err, fs.ErrNotExist) {
			if _, optional := v.Type.(*ir.OptionalType); optional {
				continue
			}
		}
		if err != nil {
			return err
		}
		in[v.Name] = d
	}
	s := m.NewSession()
	defer s.Close()
	got, err := s.Run(ctx, in)
	if err != nil {
		return err
	}
	for i, v := range g.Outputs {
		want, err := t.datum(set, "output", i, v.Type)
		if err != nil {
			return err
		}
		if err := Compare(got[v.Name], want); err != nil {
			return fmt.Errorf("output %s: %w", v.Name, err)
		}
	}
	return nil
}

func (t *test) datum(set, what string, i int, typ ir.Type) (tensor.Datum, error) {
	name := fmt.Sprintf("%s_%d.pb", what, i)
	b, err := fs.ReadFile(t.root, set+name)
	if err != nil {
		return nil, err
	}
	return onnx.ParseDatum(b, name, typ)
}

// ramp returns the input of a light test, as the standard's runner makes it: n numbers k/n, for k from 0 on. Open
// dimensions are 1.
func ramp(typ ir.Type) (tensor.Datum, error) {
	t, ok := typ.(*ir.TensorType)
	if !ok || t.Elem != tensor.Float32 || t.NoRank {
		return nil, fmt.Errorf("expected a float tensor of known rank, found %v", typ)
	}
	shape := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = 1
		if n, ok := d.Known(); ok {
			shape[i] = int(n)
		}
	}
	if n, err := tensor.Size(shape); err != nil || n > 1<<26 {
		return nil, fmt.Errorf("expected a tensor of at most %d elements, found %v", 1<<26, typ)
	}
	x := tensor.New(tensor.Float32, shape...)
	v := tensor.Data[float32](x)
	for k := range v {
		v[k] = float32(float64(k) / float64(len(v)))
	}
	return x, nil
}

// operators lists the operators of g and its subgraphs, sorted.
func operators(g *ir.Graph) []string {
	var ops []string
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		ops = append(ops, n.Op.FullName())
		return nil
	})
	slices.Sort(ops)
	return slices.Compact(ops)
}

func fullName(domain, op string) string { return strings.TrimPrefix(domain+"."+op, ".") }
