package backendtest

import (
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
)

// options checks that an option has its effect, or is refused with an OptionError that names it, if Options.Refuses has it. It
// must not be ignored.
func (s *suite) options(t *testing.T) {
	g := network(t, essm.Bidirectional, 0)
	in := inputs(9, 2, 70, true)
	want, err := truth(g, in)
	if err != nil {
		t.Fatal(err)
	}
	// try returns a session with options, or nil if the backend refuses the named option.
	tryOn := func(t *testing.T, g *ir.Graph, name string, o runtime.Options) *runtime.Session {
		t.Helper()
		o.Backend = s.make()
		m, err := runtime.New(g, o)
		var refused *runtime.OptionError
		part := path.Base(t.Name())
		listed := slices.Contains(s.o.Refuses, part)
		if errors.As(err, &refused) {
			if refused.Option != name || refused.Msg == "" {
				t.Errorf("a refusal of %s says %q: %q", name, refused.Option, refused.Msg)
			}
			if !listed {
				t.Errorf("refused: %v; expected that it is honored, since Options.Refuses lacks %q", err, part)
			}
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if listed {
			t.Errorf("honored: expected that it is refused, since Options.Refuses has %q", part)
		}
		t.Cleanup(func() { m.Close() })
		return m.NewSession()
	}
	try := func(t *testing.T, name string, o runtime.Options) *runtime.Session {
		t.Helper()
		return tryOn(t, g, name, o)
	}
	s.sub(t, "precision-float64", func(t *testing.T) {
		session := try(t, "Precision", runtime.Options{Precision: tensor.Float64})
		if session == nil {
			return
		}
		got := s.mustRun(t, session, in)
		for _, name := range names(want) {
			x := got[name].(*tensor.Tensor)
			if x.DType() != tensor.Float64 {
				t.Errorf("output %s is %v", name, x)
			}
			if d := Diff(x, want[name], ir.Tolerance{Ulps: mostUnits}); d != "" {
				t.Errorf("output %s: %s", name, d)
			}
		}
	})
	plain := newNetworkCase(t, g, in)
	for _, l := range lowerings {
		s.sub(t, l.name, func(t *testing.T) {
			if session := try(t, l.option, l.options); session != nil { // its products are small, and so stay in float32
				expect(t, "small products", s.mustRun(t, session, in), want, s.allowed(plain, "auto"))
			}
			s.lowered(t, l, tryOn)
		})
	}
	s.sub(t, "observe", func(t *testing.T) {
		seen := map[string]bool{}
		session := try(t, "Observe", runtime.Options{Threads: 1, Observe: func(v *ir.Value, d tensor.Datum) {
			if d != nil {
				seen[v.Name] = true
			}
		}})
		if session == nil {
			return
		}
		s.mustRun(t, session, in)
		for _, n := range g.Nodes {
			if v := n.Outputs[0]; !seen[v.Name] {
				t.Errorf("value %s was not observed", v.Name)
			}
		}
	})
	s.sub(t, "profile", func(t *testing.T) {
		session := try(t, "Profile", runtime.Options{Profile: true})
		if session == nil {
			return
		}
		const runs = 3
		for range runs {
			s.mustRun(t, session, in)
		}
		steps := session.Profile()
		if len(steps) == 0 {
			t.Fatal("no step was measured")
		}
		for _, p := range steps {
			if p.Name == "" || p.Op == "" || p.Calls != runs || p.Time < 0 {
				t.Errorf("after %d runs: %+v", runs, p)
			}
		}
		plain := s.model(t, g, runtime.Options{}).NewSession()
		s.mustRun(t, plain, in)
		if steps := plain.Profile(); steps != nil {
			t.Errorf("nothing was to be measured, found %v", steps)
		}
	})
	s.sub(t, "explain", func(t *testing.T) {
		for _, kernel := range runtime.Kernels() {
			choices, err := s.model(t, g, runtime.Options{Kernel: kernel}).Explain(map[string]int64{"B": 2, "L": 70})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range choices {
				if c.Node == "" || c.Op == "" || c.Form == "" {
					t.Errorf("kernel %s: %+v", kernel, c)
				}
			}
		}
	})
	if _, err := runtime.New(g, runtime.Options{Backend: s.make(), Kernel: "none"}); !errors.Is(err,
		runtime.ErrOption) {
		t.Errorf("a kernel that there is not: %v", err)
	}
}
