package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
)

// Parameterized returns a copy of g in which the constants of floats are parameters.
func Parameterized(g *ir.Graph) *ir.Graph {
	g = g.Clone()
	for _, v := range g.Constants() {
		if v.Const.DType().IsFloat() {
			v.Init, v.Const = v.Const, nil
			g.Parameters = append(g.Parameters, v)
		}
	}
	return g
}

// WithContent returns a copy of g whose parameters have the given contents. Others keep theirs.
func WithContent(g *ir.Graph, content Data) *ir.Graph {
	g = g.Clone()
	for _, p := range g.Parameters {
		if d := content[p.Name]; d != nil {
			p.Init = d.(*tensor.Tensor)
		}
	}
	return g
}

// constants returns a copy of g with constants in place of parameters.
func constants(g *ir.Graph) *ir.Graph {
	g = g.Clone()
	for _, p := range g.Parameters {
		p.Const, p.Init = p.Init, nil
	}
	g.Parameters, g.Updates = nil, nil
	return g
}

// otherContent returns contents for the parameters of g that differ from theirs by some percent, with the same signs.
func otherContent(g *ir.Graph, seed uint64) Data {
	rng := rand.New(rand.NewPCG(seed, 31))
	content := Data{}
	for _, p := range g.Parameters {
		v, err := p.Init.Float64s()
		if err != nil {
			continue
		}
		v = slices.Clone(v)
		for i := range v {
			v[i] *= 1 + 0.05*rng.Float64()
		}
		t := tensor.FromSlice(v, p.Init.Shape()...)
		if t, err = t.Convert(p.Init.DType(), true); err == nil {
			content[p.Name] = t
		}
	}
	return content
}

// parameters checks that models compute with the content that their parameters have.
func (s *suite) parameters(t *testing.T) {
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"networks", s.parameterNetworks},
		{"replaced", s.replaced},
		{"running", s.replacedWhileRunning},
		{"refused", s.refusedContent},
		{"updates", s.updates},
		{"swap", s.swapped},
		{"failing", s.failingUpdates},
		{"streams", s.parameterStreams},
		{"close", s.closedSets},
	} {
		s.sub(t, part.name, part.run)
	}
}

// parameterNetworks replaces the content of all constants of networks, in every form, repeatedly: the answers are those
// of a graph that is compiled from the content, bit by bit, and to tolerance of one that has it as constants.
func (s *suite) parameterNetworks(t *testing.T) {
	graphs := map[string]*ir.Graph{}
	for _, direction := range []string{essm.Forward, essm.Bidirectional} {
		graphs[direction] = network(t, direction, 0)
	}
	graphs["window"] = network(t, essm.Forward, 7)
	for seed := range s.graphs(20) {
		graphs[fmt.Sprintf("random-%02d", seed)] = randomNetwork(t, uint64(seed))
	}
	kernels := runtime.Kernels()
	for name, g := range graphs {
		for i, kernel := range kernels {
			if len(name) > 6 && name[:6] == "random" && len(name)%len(kernels) != i {
				continue
			}
			s.sub(t, name+"-"+kernel, func(t *testing.T) {
				g := Parameterized(g)
				ctx := context.Background()
				m := s.model(t, g, runtime.Options{Kernel: kernel})
				session := m.NewSession()
				in := inputs(4, 2, 33, false)
				for k := range 4 {
					content := otherContent(g, uint64(k))
					if err := m.Set().Replace(ctx, content); err != nil {
						t.Fatal(err)
					}
					with := WithContent(g, content)
					want := s.mustRun(t, s.model(t, with, runtime.Options{Kernel: kernel}).NewSession(), in)
					got := s.mustRun(t, session, in)
					if err := identical(got, want); err != nil {
						t.Errorf("content %d: replaced and compiled differ: %v", k, err)
					}
					right, err := truth(constants(with), in)
					if err != nil {
						t.Fatal(err)
					}
					expect(t, fmt.Sprintf("content %d", k), got, right, GraphTolerance(g))
				}
			})
		}
	}
}

// affine returns y = x w + 2 c, with w and c as parameters.
func affine(t testing.TB) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("affine", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("B"), ir.Const(3)}})
	w, c := b.Parameter("w", ramp(1, 3, 5)), b.Parameter("c", ramp(2, 5))
	twice := b.Op("", "Add", []*ir.Value{c, c})
	b.Output("y", b.Op("", "Add", []*ir.Value{b.Op("", "MatMul", []*ir.Value{x, w}), twice}))
	return build(t, b)
}

// descent returns a step of w ← w - η g with g = xᵀ(x w), and of n ← n + 1. Its output y is x w.
func descent(t testing.TB) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("descent", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("B"), ir.Const(3)}})
	w, n := b.Parameter("w", ramp(1, 3, 5)), b.Parameter("n", ramp(0, 1))
	y := b.Op("", "MatMul", []*ir.Value{x, w})
	g := b.Op("", "Gemm", []*ir.Value{x, y}, ir.A("transA", 1))
	eta, one := b.Const("eta", tensor.Scalar(float32(0.001))), b.Const("one", tensor.FromSlice([]float32{1}, 1))
	b.Output("y", y)
	b.Output("w.next", b.Op("", "Sub", []*ir.Value{w, b.Op("", "Mul", []*ir.Value{g, eta})}))
	b.Output("n.next", b.Op("", "Add", []*ir.Value{n, one}))
	b.Update(w, b.Graph().Outputs[1])
	b.Update(n, b.Graph().Outputs[2])
	return build(t, b)
}

func build(t testing.TB, b *ir.Builder) *ir.Graph {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ramp returns numbers that depend on k and their places.
func ramp(k float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](t) {
		tensor.Data[float32](t)[i] = float32(k + float64(i%7)/8 - float64(i%3))
	}
	return t
}

// replaced replaces all parameters, or some of them, more often than there is memory for versions.
func (s *suite) replaced(t *testing.T) {
	ctx, g := context.Background(), affine(t)
	m := s.model(t, g, runtime.Options{})
	x := Data{"x": ramp(3, 2, 3)}
	sessions := []*runtime.Session{m.NewSession(), m.NewSession()}
	first := s.mustRun(t, sessions[0], x)
	hash, err := m.Hash()
	if now, err2 := m.Set().Hash(); err != nil || err2 != nil || now != hash {
		t.Errorf("the first content has another hash than the model (%v, %v)", err, err2)
	}
	now := g
	for k := range 6 {
		content := Data{"w": ramp(float64(k)+0.5, 3, 5), "c": ramp(float64(-k), 5)}
		if k%2 == 1 {
			delete(content, "c")
		}
		now = WithContent(now, content)
		other := s.model(t, now, runtime.Options{})
		if err := m.Set().Replace(ctx, content); err != nil {
			t.Fatal(err)
		}
		if err := identical(s.mustRun(t, sessions[k/2%2], x), s.mustRun(t, other.NewSession(), x)); err != nil {
			t.Errorf("content %d: %v", k, err)
		}
		a, err := m.Set().Hash()
		b, err2 := other.Hash()
		if err != nil || err2 != nil || a != b {
			t.Errorf("content %d has another hash than a model that is compiled from it (%v, %v)", k, err, err2)
		}
	}
	if err := m.Set().Replace(ctx, Data{"w": ramp(1, 3, 5), "c": ramp(2, 5)}); err != nil {
		t.Fatal(err)
	}
	if err := identical(s.mustRun(t, sessions[0], x), first); err != nil {
		t.Errorf("the first content again: %v", err)
	}
}

// replacedWhileRunning checks that each of many runs sees one version.
func (s *suite) replacedWhileRunning(t *testing.T) {
	for name, c := range map[string]struct {
		g *ir.Graph
		x Data
	}{
		"affine":  {affine(t), Data{"x": ramp(3, 2, 3)}},
		"network": {Parameterized(network(t, essm.Bidirectional, 0)), inputs(4, 2, 33, false)},
	} {
		s.sub(t, name, func(t *testing.T) { s.replacedInRuns(t, c.g, c.x) })
	}
}

func (s *suite) replacedInRuns(t *testing.T, g *ir.Graph, x Data) {
	ctx := context.Background()
	m := s.model(t, g, runtime.Options{})
	var contents, wants []Data
	for k := range 3 {
		contents = append(contents, otherContent(g, uint64(k)))
		wants = append(wants, s.mustRun(t, s.model(t, WithContent(g, contents[k]), runtime.Options{}).NewSession(), x))
	}
	if err := m.Set().Replace(ctx, contents[0]); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				y, err := m.Run(ctx, x)
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.ContainsFunc(wants, func(w Data) bool { return identical(y, w) == nil }) {
					t.Errorf("a run has the answer of no version: %v", y["y"])
					return
				}
			}
		})
	}
	for k := range 50 {
		if err := m.Set().Replace(ctx, contents[k%3]); err != nil {
			t.Error(err)
		}
	}
	close(done)
	group.Wait()
}

// refusedContent checks that content that does not fit is refused, and the content before goes on.
func (s *suite) refusedContent(t *testing.T) {
	m := s.model(t, affine(t), runtime.Options{})
	session, x := m.NewSession(), Data{"x": ramp(3, 2, 3)}
	before := s.mustRun(t, session, x)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx     context.Context
		content Data
		want    string
	}{
		{t.Context(), Data{"w": ramp(0, 5, 3)}, `parameter "w": expected float32[3,5], found float32[5,3]`},
		{t.Context(), Data{"c": ramp(0, 5), "w": tensor.New(tensor.Float16, 3, 5)},
			`parameter "w": expected float32[3,5], found float16[3,5]`},
		{t.Context(), Data{"c": ramp(0, 5), "W": ramp(0, 3, 5)},
			`parameter "W": the model has no such parameter; it has w, c; did you mean "w"?`},
		{t.Context(), Data{"c": nil}, `parameter "c": expected float32[5], found nothing`},
		{ended, Data{"c": ramp(0, 5)}, "context canceled"},
	} {
		err := m.Set().Replace(c.ctx, c.content)
		if err == nil || err.Error() != c.want || c.ctx != ended && !errors.Is(err, runtime.ErrParameter) {
			t.Errorf("error %v, expected %s", err, c.want)
		}
		if err := identical(s.mustRun(t, session, x), before); err != nil {
			t.Errorf("after %s: %v", c.want, err)
		}
	}
}

// updates checks that a set computes in place, 1,000 times, what the same graph gives as outputs.
func (s *suite) updates(t *testing.T) {
	ctx := context.Background()
	m := s.model(t, descent(t), runtime.Options{})
	set, inPlace, plain := m.NewSet(), m.NewSession(), m.NewSession()
	if err := inPlace.Use(set); err != nil {
		t.Fatal(err)
	}
	x, out := Data{"x": ramp(3, 2, 3)}, Data{}
	runs := 1000
	if s.small() {
		runs = 50
	}
	for range runs {
		want := s.mustRun(t, plain, x)
		if err := inPlace.RunInto(ctx, x, out); err != nil {
			t.Fatal(err)
		}
		if len(out) != 1 {
			t.Fatalf("outputs %v, expected y only", names(out))
		}
		if err := identical(out, Data{"y": want["y"]}); err != nil {
			t.Fatal(err)
		}
		if err := m.Set().Replace(ctx, Data{"w": want["w.next"], "n": want["n.next"]}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := set.Read()
	want, err2 := m.Set().Read()
	if err != nil || err2 != nil || identical(got, want) != nil {
		t.Errorf("parameters in place %v, by outputs %v (%v, %v)", got["w"], want["w"], err, err2)
	}
	a, err := set.Hash()
	if b, err2 := m.Set().Hash(); err != nil || err2 != nil || a != b {
		t.Errorf("sets of the same content have different hashes (%v, %v)", err, err2)
	}
	if err := m.NewSession().Use(set); !errors.Is(err, runtime.ErrOption) {
		t.Errorf("a second session uses a set that updates: %v", err)
	}
	if err := inPlace.RunInto(ctx, x, out); err != nil {
		t.Fatal(err)
	}
	if err := set.Publish(ctx, m.Set()); err != nil {
		t.Fatal(err)
	}
	got, err = set.Read()
	want, err2 = m.Set().Read()
	if err != nil || err2 != nil || identical(got, want) != nil {
		t.Errorf("published %v, expected %v (%v, %v)", want["w"], got["w"], err, err2)
	}
}

// swapped exchanges two parameters in each run.
func (s *suite) swapped(t *testing.T) {
	b := ir.NewBuilder("swap", ops.Default, ops.Opsets())
	p, q := b.Parameter("p", ramp(1, 4)), b.Parameter("q", ramp(2, 4))
	b.Output("sum", b.Op("", "Add", []*ir.Value{p, q}))
	b.Output("", q)
	b.Output("p2", p)
	b.Update(p, b.Graph().Outputs[1])
	b.Update(q, b.Graph().Outputs[2])
	m := s.model(t, build(t, b), runtime.Options{})
	set, session := m.NewSet(), m.NewSession()
	if err := session.Use(set); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		got, err := set.Read()
		want := Data{"p": ramp(float64(1+i%2), 4), "q": ramp(float64(2-i%2), 4)}
		if err != nil || identical(got, want) != nil {
			t.Errorf("after %d runs: %v and %v (%v)", i, got["p"], got["q"], err)
		}
		s.mustRun(t, session, nil)
	}
}

// failingUpdates checks that a run that fails leaves the set as it was.
func (s *suite) failingUpdates(t *testing.T) {
	m := s.model(t, descent(t), runtime.Options{})
	set, session := m.NewSet(), m.NewSession()
	if err := session.Use(set); err != nil {
		t.Fatal(err)
	}
	x := Data{"x": ramp(3, 2, 3)}
	s.mustRun(t, session, x)
	before, err := set.Read()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for what, fail := range map[string]func() error{
		"context": func() error { return session.RunInto(ctx, x, Data{}) },
		"input":   func() error { return session.RunInto(t.Context(), Data{"x": ramp(1, 2, 4)}, Data{}) },
		"output":  func() error { return session.RunInto(t.Context(), x, Data{"y": ramp(1, 7)}) },
	} {
		if err := fail(); err == nil {
			t.Errorf("%s: no error", what)
		}
		if after, err := set.Read(); err != nil || identical(after, before) != nil {
			t.Errorf("%s: the parameters have changed (%v)", what, err)
		}
	}
}

// parameterStreams checks that streams keep their version until Use, that those of one version step together, and that
// snapshots are of the content.
func (s *suite) parameterStreams(t *testing.T) {
	ctx := context.Background()
	g := Parameterized(network(t, essm.Forward, 0))
	m := s.model(t, g, runtime.Options{})
	old, err := m.NewStream(1)
	s.skipRefused(t, err)
	if err != nil {
		t.Fatal(err)
	}
	content := otherContent(g, 1)
	other := s.model(t, WithContent(g, content), runtime.Options{})
	chunk := func(k uint64) Data { return inputs(k, 1, 5, false) }
	step := func(x *runtime.Stream, in Data) Data {
		t.Helper()
		out := Data{}
		if err := x.Step(ctx, in, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	fresh := func(m *runtime.Model) *runtime.Stream {
		t.Helper()
		x, err := m.NewStream(1)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	asBefore := fresh(s.model(t, g, runtime.Options{})) // of a model whose content is not replaced
	same := func(what string, a, b *runtime.Stream, k uint64) {
		t.Helper()
		if err := identical(step(a, chunk(k)), step(b, chunk(k))); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	same("before", old, asBefore, 1)
	for range 3 {
		if err := m.Set().Replace(ctx, content); err != nil {
			t.Fatal(err)
		}
	}
	same("the version of the stream", old, asBefore, 2)
	same("a stream after Replace", fresh(m), fresh(other), 3)

	// A snapshot is of the content, not of the model.
	b, err := old.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh(other).Restore(b); !errors.Is(err, runtime.ErrSnapshot) {
		t.Errorf("a snapshot of other content is restored: %v", err)
	}
	moved := fresh(m)
	if b, err = moved.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := fresh(other).Restore(b); err != nil {
		t.Errorf("a snapshot of the same content: %v", err)
	}

	// Streams of two versions in one call.
	streams := []*runtime.Stream{old, fresh(m), asBefore, fresh(other)}
	steps := []runtime.StreamStep{{Stream: streams[0], In: chunk(4), Out: Data{}}, {Stream: streams[1], In: chunk(4), Out: Data{}}}
	if err := m.StepMany(ctx, steps); err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		if err := identical(steps[i].Out, step(streams[2+i], chunk(4))); err != nil {
			t.Errorf("stream %d of two versions: %v", i, err)
		}
	}

	// Use keeps the state.
	state, err := old.State()
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Use(ctx, m.Set()); err != nil {
		t.Fatal(err)
	}
	continued := fresh(other)
	if err := continued.SetState(state); err != nil {
		t.Fatal(err)
	}
	same("after Use", old, continued, 5)
	if d, err := s.descentStream(t); err == nil {
		t.Errorf("a stream of a set that updates: %v", d)
	}
}

// descentStream tries to make a stream use a set that runs updates.
func (s *suite) descentStream(t *testing.T) (*runtime.Stream, error) {
	g := Parameterized(network(t, essm.Forward, 0))
	b := ir.Edit(g, ops.Default, ops.Opsets())
	p := g.Parameters[0]
	b.Output("next", b.Op("", "Neg", []*ir.Value{p}))
	b.Update(p, g.Outputs[len(g.Outputs)-1])
	m := s.model(t, build(t, b), runtime.Options{})
	x, err := m.NewStream(1)
	if err != nil {
		t.Fatal(err)
	}
	return x, x.Use(t.Context(), m.NewSet())
}

// closedSets checks that sets are independent, and that a closed one ends.
func (s *suite) closedSets(t *testing.T) {
	ctx, g := context.Background(), affine(t)
	m := s.model(t, g, runtime.Options{})
	x := Data{"x": ramp(3, 2, 3)}
	session, plain := m.NewSession(), m.NewSession()
	before := s.mustRun(t, plain, x)
	set := m.NewSet()
	if err := session.Use(set); err != nil {
		t.Fatal(err)
	}
	if err := identical(s.mustRun(t, session, x), before); err != nil {
		t.Errorf("a new set: %v", err)
	}
	if err := set.Replace(ctx, Data{"w": ramp(math.Pi, 3, 5)}); err != nil {
		t.Fatal(err)
	}
	if err := identical(s.mustRun(t, plain, x), before); err != nil {
		t.Errorf("another set was replaced: %v", err)
	}
	if identical(s.mustRun(t, session, x), before) == nil {
		t.Error("the set was not replaced")
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Run(ctx, x); !errors.Is(err, runtime.ErrClosed) {
		t.Errorf("a session of a closed set: %v", err)
	}
	if err := set.Replace(ctx, nil); !errors.Is(err, runtime.ErrClosed) {
		t.Errorf("a closed set is replaced: %v", err)
	}
	if err := session.Use(m.Set()); err != nil {
		t.Fatal(err)
	}
	if err := identical(s.mustRun(t, session, x), before); err != nil {
		t.Errorf("back to the model's set: %v", err)
	}
	// A deadline ends the making of a version.
	late, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	<-late.Done()
	if err := m.Set().Replace(late, Data{"w": ramp(0, 3, 5)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after a deadline: %v", err)
	}
}
