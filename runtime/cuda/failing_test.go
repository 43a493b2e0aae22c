package cuda_test

import (
	"context"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

// TestFailing lets each call of the driver fail in turn, by an error that passes and by one that stays: each run has the right
// answer or an error, nothing hangs, and everything is given back, if the device still works.
func TestFailing(t *testing.T) {
	failing(t, chain(t, "a = Double x; b = None a; s = Shift b; o = Odd s; y = Sum o c", "y", "b"), false, true)
	failing(t, carrying(t, "k = Sum h a; j = Shift g; s = Double k", "k", "j", "s"), false)
}

func failing(t *testing.T, g *ir.Graph, profiles ...bool) {
	m := tensor.Scalar(int64(2))
	in := []data{{"x": numbers(6, 1), "z": numbers(6, 2), "m": m}, {"x": numbers(6, 3), "z": numbers(6, 4), "m": m}}
	if len(g.Inputs) < 3 {
		delete(in[0], "m")
		delete(in[1], "m")
	}
	want := []data{answers(t, g, in[0]), answers(t, g, in[1])}
	codes := []driver.Code{driver.OutOfMemory, driver.NotSupported, driver.LaunchFailed}
	if race.Enabled && testing.Short() {
		codes = codes[:1]
	}
	for _, profile := range profiles {
		for i, code := range codes {
			calls := 0
			for at := 0; at <= calls; at++ {
				if at > 0 && len(codes) == 3 && at%3 != i && !longMode() { // each call fails by one of the codes
					continue
				}
				n := tested()
				n.failAt, n.failWith = at, code
				errs := scenario(t, n, g, profile, in, want)
				if calls == 0 {
					calls = len(n.calls)
				}
				if at == 0 && errs != nil {
					t.Fatalf("without a failure: %v", errs)
				}
				if at == 0 {
					continue
				}
				name := n.calls[at-1]
				if errs == nil && name != "AllocFromPool" { // asked for again
					t.Errorf("%s: call %d (%s) fails by %v, and nobody is told", g.Name, at, name, code)
				}
				for _, err := range errs {
					if s := err.Error(); !strings.Contains(s, "cuda") && !strings.Contains(s, "memory") {
						t.Errorf("%s: call %d (%s): %v", g.Name, at, name, err)
					}
				}
				if l := n.leaks(); l != nil && n.lost == nil {
					t.Errorf("%s: call %d (%s) fails by %v: not given back: %v", g.Name, at, name, code, l)
				}
			}
		}
	}
}

// scenario loads a model, runs it in two sessions and closes it. It returns the errors.
func scenario(t *testing.T, n *null, g *ir.Graph, profile bool, in, want []data) (errs []error) {
	t.Helper()
	b, err := cuda.New(n, cuda.Options{Fallback: "cpu"})
	if err != nil {
		return []error{err}
	}
	m, err := runtime.New(g, runtime.Options{Backend: b, Profile: profile})
	if err != nil {
		return []error{err}
	}
	for range 2 {
		s := m.NewSession()
		for k := range 4 {
			got, err := s.Run(context.Background(), in[k%2])
			if err != nil {
				errs = append(errs, err)
			} else if !equal(got, want[k%2]) {
				t.Errorf("call %d (%s) fails: found %v, expected %v", n.failAt, n.calls[n.failAt-1], got, want[k%2])
			}
		}
	}
	if err := m.Close(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// TestFailingStream lets each call fail in turn while two streams step, together and separately. A step that fails
// leaves the states unchanged, so that the same step gives the right answer after it, if the device still works.
func TestFailingStream(t *testing.T) {
	g := follower(t, "Shift")
	ctx := context.Background()
	calls, alone := 0, 0
	for at := 0; at <= calls; at++ {
		n := tested()
		n.failAt, n.failWith = at, driver.NotSupported
		failures := 0
		try := func(f func() error) bool {
			for range 2 {
				err := f()
				if err == nil {
					return true
				}
				failures++
			}
			return n.lost != nil || failures > 2
		}
		var b runtime.Backend
		var m *runtime.Model
		var all [2]*runtime.Stream
		try(func() (err error) { b, err = cuda.New(n, cuda.Options{}); return err })
		try(func() (err error) {
			m, err = runtime.New(g, runtime.Options{Backend: b, Carry: map[string]string{"s": "next", "r": "then"}})
			return err
		})
		for i := range all {
			// A model whose steps could not be compiled reports this from then on.
			try(func() (err error) { all[i], err = m.NewStream(1); return err })
		}
		var s, r float32
		for round := range 6 {
			if all[0] == nil || all[1] == nil {
				break
			}
			if at == 0 && round == 3 {
				alone = len(n.calls)
			}
			x := float32(round)
			outs := [2]data{{}, {}}
			for k := range 2 {
				try(func() error {
					if round < 3 {
						return all[k].Step(ctx, data{"x": floats(x)}, outs[k])
					}
					if k == 1 {
						return nil
					}
					return m.StepMany(ctx, []runtime.StreamStep{{Stream: all[0], In: data{"x": floats(x)}, Out: outs[0]},
						{Stream: all[1], In: data{"x": floats(x)}, Out: outs[1]}})
				})
			}
			want := 2*x + s + r
			s, r = 3*x+s, r+3
			for k := range 2 {
				y, ok := outs[k]["y"].(*tensor.Tensor)
				if failures < 2 && (!ok || tensor.Data[float32](y)[0] != want) {
					t.Errorf("call %d (%s) fails: stream %d: found %s, expected %v", at, n.calls[max(at-1, 0)], k, y, want)
				}
			}
		}
		if err := m.Close(); err != nil {
			failures++
		}
		if calls == 0 {
			calls = len(n.calls)
			if failures > 0 {
				t.Fatalf("%d failures", failures)
			}
		} else if failures == 0 && at <= alone { // of steps together, each is tried separately
			t.Errorf("call %d (%s) fails, and nobody is told", at, n.calls[at-1])
		}
		if l := n.leaks(); l != nil {
			t.Errorf("call %d fails: not given back: %v", at, l)
		}
	}
}
