package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// What BindShape and Warmup planned, Run does not plan again.
func TestBindShape(t *testing.T) {
	for name, prepare := range map[string]func(s *runtime.Session) error{
		"BindShape": func(s *runtime.Session) error { return s.BindShape(map[string]int64{"B": 2, "L": 5}) },
		"Warmup": func(s *runtime.Session) error {
			return s.Warmup(context.Background(), map[string]int64{"B": 2, "L": 5})
		},
	} {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New(), Logger: logger})
		s := m.NewSession()
		if err := prepare(s); err != nil {
			t.Fatal(name, err)
		}
		if n := strings.Count(log.String(), "shapes bound"); n != 1 || s.Memory() == 0 {
			t.Errorf("%s: bound %d times, %d bytes", name, n, s.Memory())
		}
		if _, err := s.Run(context.Background(), data{"input": noise(1, 2, 5, 2)}); err != nil {
			t.Fatal(name, err)
		}
		if n := strings.Count(log.String(), "shapes bound"); n != 1 {
			t.Errorf("%s: Run bound the same shapes again", name)
		}
	}
}

func TestBindShapeErrors(t *testing.T) {
	m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New()})
	s := m.NewSession()
	for _, c := range []struct {
		dims     map[string]int64
		optional []string
		want     string
	}{
		{map[string]int64{"B": 2}, nil, `input "input": dimension 1: `},
		{map[string]int64{"B": 2, "L": 0}, nil, `input "L": is 0: a sequence has at least one step`},
		{map[string]int64{"B": 2, "L": -1}, nil, `input "input": dimension 1: L is -1`},
		{map[string]int64{"B": 2, "L": 3}, []string{"lengths"}, `input "lengths": the model has no such optional input`},
		{map[string]int64{"B": 1 << 40, "L": 1 << 40}, nil, ``},
	} {
		for _, err := range []error{s.BindShape(c.dims, c.optional...),
			s.Warmup(context.Background(), c.dims, c.optional...)} {
			if err == nil || c.want != "" &&
				(!errors.Is(err, runtime.ErrInput) || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("%v: expected %q, found %v", c.dims, c.want, err)
			}
		}
	}
	if err := s.BindShape(map[string]int64{"B": 2, "L": 3}, "state_in"); err != nil {
		t.Error(err)
	}
	b := ir.NewBuilder("any", makeOps(), opset)
	b.Output("y", b.Op("test", "Double", []*ir.Value{b.Input("x", &ir.TensorType{Elem: tensor.Float32, NoRank: true})}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := model(t, g, runtime.Options{}).NewSession().BindShape(nil); !errors.Is(err, runtime.ErrInput) {
		t.Errorf("an input of any rank: %v", err)
	}
}

// Warmup asks nothing of zeros, but tells of panics.
func TestWarmupOnZeros(t *testing.T) {
	for name, want := range map[string]error{"Fail": nil, "Panic": runtime.ErrInternal} {
		m := model(t, chain(t, ir.Tensor(tensor.Float32, "B", "L"), name), runtime.Options{})
		if err := m.NewSession().Warmup(context.Background(), map[string]int64{"B": 1, "L": 2}); !errors.Is(err, want) {
			t.Errorf("%s: found %v", name, err)
		}
	}
}

// A run into memory of the caller's allocates nothing, at any number of threads.
func TestRunIntoAllocations(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New(), Threads: threads})
		s := m.NewSession()
		in := data{"input": noise(1, 2, 1000, 2)}
		ctx := context.Background()
		out, err := s.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(50, func() {
			if err := s.RunInto(ctx, in, out); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%d threads: RunInto allocates %v times", threads, n)
		}
	}
}
