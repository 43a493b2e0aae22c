package cpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest/samples"
	"github.com/essmc/essmc/runtime"
)

// versioned is a backend whose programs have parameters of one version.
type versioned struct {
	runtime.Backend
	contents  []*tensor.Tensor
	constants *runtime.Constants
}

func (b versioned) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	c.Parameters, c.Constants = b.contents, b.constants
	return b.Backend.Compile(g, c)
}

// withParameters returns a copy of g whose constants are parameters, as far as its operators allow; nil if there are
// none.
func withParameters(g *ir.Graph) *ir.Graph {
	g = g.Clone()
	seen := map[*ir.Value]bool{}
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v == nil || v.Const == nil || seen[v] || v.Const.DType() == tensor.String {
				continue
			}
			seen[v] = true
			if d := v.Const.DType(); d == tensor.Int64 || d == tensor.Bool { // sizes, axes, and switches
				continue
			}
			v.Init, v.Const = v.Const, nil
			g.Parameters = append(g.Parameters, v)
			if ir.Verify(g) != nil {
				v.Init, v.Const = nil, v.Init
				g.Parameters = g.Parameters[:len(g.Parameters)-1]
			}
		}
	}
	if len(g.Parameters) == 0 {
		return nil
	}
	return g
}

// contentsOf returns the contents of a graph's parameters; with other, different ones of the same kind.
func contentsOf(g *ir.Graph, other bool) (all []*tensor.Tensor) {
	for _, v := range g.Parameters {
		x, err := v.Init.Float64s()
		if other && err == nil && v.Init.DType().IsFloat() {
			slices.Reverse(x)
			for i := range x {
				x[i] *= 0.75
			}
			t, err := tensor.FromFloat64s(v.Init.DType(), x, v.Init.Shape()...)
			if err != nil {
				panic(err)
			}
			all = append(all, t)
			continue
		}
		all = append(all, v.Init.Clone())
	}
	return all
}

// ways lists how the steps of a session's runs were computed.
func ways(s *runtime.Session) (all []string) {
	for _, p := range s.Profile() {
		all = append(all, p.Op+" "+p.Form)
	}
	return all
}

// checkParameters compares a graph whose constants have become parameters: after their content has been replaced, it
// gives the same bits as one that was compiled with that content, and these are close to the answers with constants. All
// are computed by the same kernels.
func checkParameters(t *testing.T, what string, g *ir.Graph, feed map[string]tensor.Datum, o runtime.Options) {
	t.Helper()
	p := withParameters(g)
	if p == nil {
		return
	}
	o.Threads, o.Profile = 1, true
	ctx := context.Background()
	start := func(b runtime.Backend, g *ir.Graph) *runtime.Session {
		o := o
		o.Backend = b
		m, err := runtime.New(g, o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Cleanup(func() { m.Close() })
		return m.NewSession()
	}
	konst := start(New(), g)
	near, err := konst.Run(ctx, feed)
	if err != nil {
		return
	}
	old := versioned{New(), contentsOf(p, true), &runtime.Constants{}}
	s := start(old, p)
	for range 2 { // tables are made in the first run
		if _, err := s.Run(ctx, feed); err != nil {
			t.Logf("%s: with other parameters: %v", what, err)
		}
	}
	truth := contentsOf(p, false)
	for i, c := range old.contents {
		c.CopyParts(truth[i], func() {})
	}
	if err := old.constants.Settle(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if old.constants.Choices() > 0 {
		s = start(old, p)
	}
	fresh := start(versioned{New(), truth, &runtime.Constants{}}, p)
	want, err := fresh.Run(ctx, feed)
	if err != nil {
		t.Fatalf("%s: with parameters: %v", what, err)
	}
	for range 2 {
		got, err := s.Run(ctx, feed)
		if err != nil {
			t.Fatalf("%s: with new parameters: %v", what, err)
		}
		for name, w := range want {
			a, ok := got[name].(*tensor.Tensor)
			b, _ := w.(*tensor.Tensor)
			if ok && (a.DType() != b.DType() || !slices.Equal(a.Shape(), b.Shape()) || !sameNumbers(a, b)) {
				t.Errorf("%s: output %s is %s after parameters were replaced, expected %s", what, name, a, b)
				return
			}
		}
	}
	if a, b := ways(konst), ways(fresh); !slices.Equal(a, b) {
		if explained(t, p, o, feed) {
			return
		}
		t.Errorf("%s: with parameters it runs as %v, with constants as %v", what, b, a)
	}
	closeEnough(t, what, want, near)
}

// explained reports whether Explain says that constants are recognised by their numbers.
func explained(t *testing.T, g *ir.Graph, o runtime.Options, feed map[string]tensor.Datum) bool {
	t.Helper()
	o.Backend = New()
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dims := map[string]int64{}
	for _, v := range g.Inputs {
		for i, d := range v.Shape() {
			if _, err := d.Eval(nil); err != nil {
				dims[d.String()] = int64(feed[v.Name].(*tensor.Tensor).Dim(i))
			}
		}
	}
	all, err := m.Explain(dims)
	return err == nil && slices.ContainsFunc(all, func(c runtime.Choice) bool {
		return strings.Contains(c.Why, "parameters take their place")
	})
}

// closeEnough compares answers with parameters to those with constants, whose expressions may be simpler.
func closeEnough(t *testing.T, what string, got, want map[string]tensor.Datum) {
	t.Helper()
	for name, w := range want {
		a, ok := got[name].(*tensor.Tensor)
		b, _ := w.(*tensor.Tensor)
		if !ok || a.DType() != tensor.Float32 || b.DType() != tensor.Float32 {
			continue
		}
		closeTo(t, what, map[string]tensor.Datum{name: a}, map[string]tensor.Datum{name: b}, 2e-5)
	}
}

// TestSettledSamples replaces the parameters of every operator's samples.
func TestSettledSamples(t *testing.T) {
	tried := 0
	for _, op := range ops.Default.All() {
		for i, s := range samples.Of(op) {
			b := ir.NewBuilder("sample", ops.Default, ops.Opsets())
			args, feed := make([]*ir.Value, len(s.In)), map[string]tensor.Datum{}
			for k, d := range s.In {
				x, ok := d.(*tensor.Tensor)
				switch name := fmt.Sprintf("in%d", k); {
				case d == nil:
				case !ok:
					args = nil
				case args == nil:
				case k > 0:
					args[k] = b.Const(name, x)
				default:
					args[k], feed[name] = b.Input(name, ir.Of(x)), x
				}
			}
			if args == nil || !ops.Newest(op) {
				continue
			}
			for k, v := range b.Ops(op.Domain, op.Name, s.Outs, args, s.Attrs...) {
				if !slices.Contains(s.Absent, k) {
					b.Output(fmt.Sprintf("out%d", k), v)
				}
			}
			g, err := b.Build()
			if err != nil {
				continue
			}
			tried++
			checkParameters(t, fmt.Sprintf("%s, sample %d", op.FullName(), i), g, feed, runtime.Options{})
		}
	}
	if tried < 100 {
		t.Errorf("expected samples of most operators, found %d", tried)
	}
}

// TestSettledChoice checks what follows from content: when a system becomes unstable, its forms are chosen anew, and the
// answers are those of a model that was compiled so.
func TestSettledChoice(t *testing.T) {
	for i, dir := range directions {
		for _, s := range []system{{batch: 1, length: 300, ch: 1, heads: 3, n: 8, h: 1, m: 1, direction: dir},
			{batch: 1, length: 300, ch: 1, heads: 3, n: 4, h: 2, m: 3, direction: dir}} {
			g, in := s.graph(t, uint64(i))
			p := withParameters(g)
			stable, grows := contentsOf(p, false), contentsOf(p, false)
			for k, v := range p.Parameters {
				if v.Name == "a_re" {
					tensor.Data[float64](grows[k])[1] = 0.01
				}
			}
			o := runtime.Options{Kernel: "fft", Threads: 1}
			answers := func(b versioned) map[string]tensor.Datum {
				o := o
				o.Backend = b
				return run(t, p, o, in)
			}
			b := versioned{New(), contentsOf(p, false), &runtime.Constants{}}
			first := answers(b)
			for round, now := range [][]*tensor.Tensor{grows, stable, stable} {
				for k, c := range b.contents {
					c.CopyParts(now[k], func() {})
				}
				before := b.constants.Choices()
				if err := b.constants.Settle(context.Background()); err != nil {
					t.Fatal(err)
				}
				if changed := b.constants.Choices() > before; changed != (round < 2) {
					t.Errorf("%s: round %d: choices have changed: %v", s, round, changed)
				}
				want := answers(versioned{New(), now, &runtime.Constants{}})
				got := answers(b)
				if !sameNumbers(got["y"].(*tensor.Tensor), want["y"].(*tensor.Tensor)) {
					t.Errorf("%s: round %d: other answers than those of a model compiled with this content", s, round)
				}
				if round > 0 && !sameNumbers(got["y"].(*tensor.Tensor), first["y"].(*tensor.Tensor)) {
					t.Errorf("%s: the former content gives other answers", s)
				}
			}
		}
	}
}

// TestSettledBindings checks that executables leave nothing behind in the cache of a version: after many shapes it has
// what it had after the first.
func TestSettledBindings(t *testing.T) {
	b := ir.NewBuilder("shapes", ops.Default, ops.Opsets())
	r := newGen(3)
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 9))
	y := b.Op("", "Mul", []*ir.Value{x, b.Const("scale", r.floats(1))})
	y = b.Op("essm", "LongConv", []*ir.Value{y, b.Const("k", r.floats(1, 9, 200))}, ir.A("form", "fft"))
	y = b.Op("", "Conv", []*ir.Value{b.Op("", "Transpose", []*ir.Value{y}, ir.A("perm", []int64{0, 2, 1})),
		b.Const("w", r.floats(1, 5, 9, 3))}, ir.A("pads", []int64{1, 1}))
	b.Output("y", b.Op("", "Add", []*ir.Value{y, b.Const("shift", r.floats(1))}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := withParameters(g)
	v := versioned{New(), contentsOf(p, false), &runtime.Constants{}}
	m, err := runtime.New(p, runtime.Options{Backend: v})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, first := m.NewSession(), 0
	for length := 100; length < 600; length += 50 {
		for range 2 {
			if _, err := s.Run(context.Background(), map[string]tensor.Datum{"x": r.floats(1, 1, length, 9)}); err != nil {
				t.Fatal(err)
			}
		}
		if first == 0 {
			first = v.constants.Kept()
		}
	}
	if n := v.constants.Kept(); n > first+2 { // another form of a convolution may be packed for long sequences
		t.Errorf("%d functions compute data again after 10 shapes, %d after the first", n, first)
	}
}
