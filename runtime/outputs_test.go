package runtime_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

func portNames(ports []runtime.Port) string {
	var all []string
	for _, p := range ports {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

func TestOutputsErrors(t *testing.T) {
	g := network(t, small("pool"))
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"outptu"}, `option Outputs: "outptu": the model has no such output; it has output, state_out; did you mean "output"?`},
		{[]string{"output", "input"}, `option Outputs: "input": the model has no such output; it has output, state_out`},
		{[]string{"output", ""}, `option Outputs: "": the model has no such output; it has output, state_out`},
		{[]string{"output", "output"}, `option Outputs: names "output" twice`},
	} {
		_, err := runtime.New(g, runtime.Options{Backend: ref.New(), Outputs: c.names})
		if !errors.Is(err, runtime.ErrOption) || err.Error() != c.want {
			t.Errorf("%q: expected %s, found %v", c.names, c.want, err)
		}
	}
}

// The answer of a causal model does not depend on whether its state is computed, and neither do its streams.
func TestOutputsOfCausalModel(t *testing.T) {
	for _, b := range []runtime.Backend{cpu.New(), ref.New()} {
		g := network(t, small("pool"))
		before := g.Clone()
		all := model(t, g, runtime.Options{Backend: b, Kernel: "scan"})
		one := model(t, g, runtime.Options{Backend: b, Kernel: "scan", Outputs: []string{models.Output}})
		last := model(t, g, runtime.Options{Backend: b, Kernel: "scan", Outputs: []string{models.StateOut}})
		both := model(t, g, runtime.Options{Backend: b, Outputs: []string{models.StateOut, models.Output}})
		if found := portNames(all.Outputs()) + ", " + portNames(one.Outputs()) + ", " + portNames(last.Outputs()) + ", " +
			portNames(both.Outputs()); found != "output state_out, output, state_out, output state_out" {
			t.Errorf("found outputs %s", found)
		}
		if portNames(one.Inputs()) != portNames(all.Inputs()) || one.Graph() != g || len(one.Graph().Nodes) != len(before.Nodes) {
			t.Error("Outputs changes the inputs or the graph")
		}
		x := noise(3, 2, 90, 2)
		run := func(m *runtime.Model) data {
			t.Helper()
			out, err := m.NewSession().Run(context.Background(), data{"input": x})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		want := run(all)
		for m, name := range map[*runtime.Model]string{one: models.Output, last: models.StateOut} {
			got := run(m)
			if len(got) != 1 || apart(t, want[name].(*tensor.Tensor), got[name].(*tensor.Tensor)) != 0 {
				t.Errorf("%s, only %s: found %v", b.Name(), name, slices.Sorted(maps.Keys(got)))
			}
		}
		h, err := all.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if k, err := one.Hash(); err != nil || k != h {
			t.Errorf("Outputs changes the hash: %x, %v", k, err)
		}

		long, short := stream(t, all, 2), stream(t, one, 2)
		if portNames(long.Outputs()) != "output" || portNames(short.Outputs()) != "output" ||
			portNames(long.States()) != portNames(short.States()) {
			t.Errorf("found streams with %v %v and %v %v", long.Outputs(), long.States(), short.Outputs(), short.States())
		}
		sequence(t, long, cut(x, 0, 50), every(50))
		taken, err := long.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := short.Restore(taken); err != nil {
			t.Fatal(err)
		}
		y, z := sequence(t, long, cut(x, 50, 90), every(40)), sequence(t, short, cut(x, 50, 90), every(40))
		if apart(t, y, z) != 0 {
			t.Errorf("%s: streams go on differently", b.Name())
		}
		if _, err := last.NewStream(1); !errors.Is(err, runtime.ErrStream) ||
			!strings.Contains(err.Error(), "the requested outputs, state_out, are its own state") {
			t.Errorf("found %v", err)
		}
	}
}

// Streams of several outputs have those that are asked for, alone and together, with the inputs that these need.
func TestOutputsOfStreams(t *testing.T) {
	b := ir.NewBuilder("two", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	x, w := b.Input("x", ir.Tensor(tensor.Float32, "B", "L")), b.Input("w", ir.Tensor(tensor.Float32, "B", "L"))
	b.Output("y", b.Op("", "Add", []*ir.Value{x, x}))
	b.Output("z", b.Op("", "Add", []*ir.Value{w, w}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ask, inputs, outputs string }{{"y", "x w?", "y"}, {"z", "x w", "z"}, {"", "x w", "y z"}} {
		m := model(t, g, runtime.Options{Backend: ref.New(), Outputs: strings.Fields(c.ask)})
		streams := []*runtime.Stream{stream(t, m, 1), stream(t, m, 1)}
		found := ""
		for _, p := range streams[0].Inputs() {
			found += " " + p.Name
			if p.Optional {
				found += "?"
			}
		}
		if found[1:] != c.inputs {
			t.Errorf("outputs %q: expected inputs %s, found%s", c.ask, c.inputs, found)
		}
		in := data{"x": floats(1, 3), "w": floats(1, 3)}
		if c.ask == "y" {
			delete(in, "w")
		}
		outs := []data{{}, {}}
		if err := m.StepMany(context.Background(), []runtime.StreamStep{{Stream: streams[0], In: in, Out: outs[0]},
			{Stream: streams[1], In: in, Out: outs[1]}}); err != nil {
			t.Fatal(err)
		}
		for _, out := range outs {
			if want := strings.Fields(c.outputs); !slices.Equal(slices.Sorted(maps.Keys(out)), want) {
				t.Errorf("outputs %q: expected %v, found %v", c.ask, want, slices.Sorted(maps.Keys(out)))
			}
			for name, d := range out {
				if got := tensor.Data[float32](d.(*tensor.Tensor)); got[2] != 5 {
					t.Errorf("outputs %q: %s is %v", c.ask, name, got)
				}
			}
		}
	}
}

// waiting is a backend that compiles until the context ends, once it is told to.
type waiting struct {
	runtime.Backend
	began chan struct{} // nil: does not wait
}

func (w *waiting) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if w.began == nil {
		return w.Backend.Compile(g, c)
	}
	close(w.began)
	<-c.Ctx.Done()
	return nil, c.Ctx.Err()
}

// The context of NewStreamContext ends compilation and waiting for it, and a later call compiles.
func TestNewStreamContext(t *testing.T) {
	b := &waiting{Backend: ref.New()}
	old, cancelled := context.WithCancel(context.Background())
	m := model(t, network(t, small("pool")), runtime.Options{Backend: b, Context: old})
	cancelled() // that of New does not reach streams
	b.began = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan error), make(chan error)
	go func() {
		_, err := m.NewStreamContext(ctx, 1)
		first <- err
	}()
	select {
	case <-b.began:
	case err := <-first:
		t.Fatal(err)
	}
	other, stop := context.WithCancel(context.Background())
	go func() {
		_, err := m.NewStreamContext(other, 1)
		second <- err
	}()
	stop()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the second stream: found %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first stream: found %v", err)
	}
	b.began = nil
	if _, err := m.NewStreamContext(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: found %v", err)
	}
	if _, err := m.NewStream(1); err != nil {
		t.Error(err)
	}
}

// twice is a context that is canceled from the second question on.
type twice struct {
	context.Context
	asked int
}

func (c *twice) Err() error {
	if c.asked++; c.asked > 1 {
		return context.Canceled
	}
	return nil
}

// The cpu backend asks the context while it compiles the step program.
func TestNewStreamEnds(t *testing.T) {
	m := model(t, network(t, sc35(t)), runtime.Options{Backend: cpu.New()})
	if _, err := m.NewStreamContext(&twice{Context: context.Background()}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
	stream(t, m, 1)
}
