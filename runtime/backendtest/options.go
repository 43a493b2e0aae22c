package backendtest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/runtime"
)

// lossy holds the largest error in a precision, relative to the largest absolute value of the truth.
var lossy = map[tensor.DType]float64{tensor.Float64: 1e-9, tensor.BFloat16: 5e-2, tensor.Int8: 1e-1}

// options checks that an option has its effect, or is refused with an OptionError that names it. It must not be
// ignored.
func (s *suite) options(t *testing.T) {
	g := network(t, essm.Bidirectional, 0)
	in := inputs(9, 2, 70, true)
	want, err := truth(g, in)
	if err != nil {
		t.Fatal(err)
	}
	// try returns a session with options, or nil if the backend refuses the named option.
	try := func(t *testing.T, name string, o runtime.Options) *runtime.Session {
		t.Helper()
		o.Backend = s.make()
		m, err := runtime.New(g, o)
		var refused *runtime.OptionError
		if errors.As(err, &refused) {
			if refused.Option != name || refused.Msg == "" {
				t.Errorf("a refusal of %s says %q: %q", name, refused.Option, refused.Msg)
			}
			t.Logf("refused: %v", err)
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m.NewSession()
	}
	for _, p := range []tensor.DType{tensor.Float64, tensor.BFloat16, tensor.Int8} {
		s.sub(t, fmt.Sprint("precision-", p), func(t *testing.T) {
			session := try(t, "Precision", runtime.Options{Precision: p})
			if session == nil {
				return
			}
			got := s.mustRun(t, session, in)
			for _, name := range names(want) {
				x := got[name].(*tensor.Tensor)
				if p == tensor.Float64 != (x.DType() == tensor.Float64) {
					t.Errorf("output %s is %v", name, x)
				}
				if d := Diff(x, want[name], ir.Tolerance{Ulps: lossy[p] / opstest.Unit(x.DType())}); d != "" {
					t.Errorf("output %s: %s", name, d)
				}
			}
		})
	}
	s.sub(t, "tf32", func(t *testing.T) {
		if session := try(t, "TF32", runtime.Options{TF32: true}); session != nil {
			got := s.mustRun(t, session, in)
			for _, name := range names(want) {
				x := got[name].(*tensor.Tensor)
				if d := Diff(x, want[name], ir.Tolerance{Ulps: 1e-2 / opstest.Unit(x.DType())}); d != "" {
					t.Errorf("output %s: %s", name, d)
				}
			}
		}
	})
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
