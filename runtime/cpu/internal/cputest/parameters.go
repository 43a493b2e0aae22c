package cputest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// Versioned is a backend whose programs have parameters of one version.
type Versioned struct {
	runtime.Backend
	Contents  []*tensor.Tensor
	Constants *runtime.Constants
}

// Compile compiles a graph with the version.
func (b Versioned) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	c.Parameters, c.Constants = b.Contents, b.Constants
	return b.Backend.Compile(g, c)
}

// WithParameters returns a copy of g whose constants are parameters, as far as its operators allow; nil if there are
// none.
func WithParameters(g *ir.Graph) *ir.Graph {
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

// Contents returns the contents of a graph's parameters; with other, different ones of the same kind.
func Contents(g *ir.Graph, other bool) (all []*tensor.Tensor) {
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

// Ways lists how the steps of a session's runs were computed.
func Ways(s *runtime.Session) (all []string) {
	for _, p := range s.Profile() {
		all = append(all, p.Op+" "+p.Form)
	}
	return all
}

// Parameters compares a graph whose constants have become parameters: after their content has been replaced, it
// gives the same bits as one that was compiled with that content, and these are close to the answers with constants. All
// are computed by the same kernels.
func (on On) Parameters(t *testing.T, what string, g *ir.Graph, feed map[string]tensor.Datum, o runtime.Options) {
	t.Helper()
	p := WithParameters(g)
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
	konst := start(on(), g)
	near, err := konst.Run(ctx, feed)
	if err != nil {
		return
	}
	old := Versioned{Backend: on(), Contents: Contents(p, true), Constants: &runtime.Constants{}}
	s := start(old, p)
	for range 2 { // tables are made in the first run
		if _, err := s.Run(ctx, feed); err != nil {
			t.Logf("%s: with other parameters: %v", what, err)
		}
	}
	truth := Contents(p, false)
	for i, c := range old.Contents {
		c.CopyParts(truth[i], func() {})
	}
	if err := old.Constants.Settle(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if old.Constants.Choices() > 0 {
		s = start(old, p)
	}
	fresh := start(Versioned{Backend: on(), Contents: truth, Constants: &runtime.Constants{}}, p)
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
			if ok && (a.DType() != b.DType() || !slices.Equal(a.Shape(), b.Shape()) || !SameNumbers(a, b)) {
				t.Errorf("%s: output %s is %s after parameters were replaced, expected %s", what, name, a, b)
				return
			}
		}
	}
	if a, b := Ways(konst), Ways(fresh); !slices.Equal(a, b) {
		if on.explained(t, p, o, feed) {
			return
		}
		t.Errorf("%s: with parameters it runs as %v, with constants as %v", what, b, a)
	}
	closeEnough(t, what, want, near)
}

// explained reports whether Explain says that constants are recognised by their numbers.
func (on On) explained(t *testing.T, g *ir.Graph, o runtime.Options, feed map[string]tensor.Datum) bool {
	t.Helper()
	o.Backend = on()
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
		CloseTo(t, what, map[string]tensor.Datum{name: a}, map[string]tensor.Datum{name: b}, 2e-5)
	}
}
