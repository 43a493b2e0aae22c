package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// affine builds y = x W + b with W and b as parameters, and what follows from them: s = 2 b.
func affine(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("affine", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("B"), ir.Const(3)}})
	w := b.Parameter("w", filled(1, 3, 5))
	c := b.Parameter("c", filled(2, 5))
	twice := b.Op("", "Add", []*ir.Value{c, c})
	y := b.Op("", "Add", []*ir.Value{b.Op("", "MatMul", []*ir.Value{x, w}), twice})
	b.Output("y", y)
	return built(t, b)
}

// descent builds w ← w - η g of one step, with g = xᵀ(x w), and n ← n + 1.
func descent(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("descent", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("B"), ir.Const(3)}})
	w := b.Parameter("w", filled(1, 3, 5))
	n := b.Parameter("n", filled(0, 1))
	y := b.Op("", "MatMul", []*ir.Value{x, w})
	g := b.Op("", "Gemm", []*ir.Value{x, y}, ir.A("transA", 1))
	next := b.Op("", "Sub", []*ir.Value{w, b.Op("", "Mul", []*ir.Value{g, b.Const("eta", tensor.Scalar(float32(0.001)))})})
	b.Output("y", y)
	b.Output("w.next", next)
	b.Output("n.next", b.Op("", "Add", []*ir.Value{n, b.Const("one", tensor.FromSlice([]float32{1}, 1))}))
	b.Update(w, b.Graph().Outputs[1])
	b.Update(n, b.Graph().Outputs[2])
	return built(t, b)
}

func built(t *testing.T, b *ir.Builder) *ir.Graph {
	t.Helper()
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	return b.Graph()
}

// filled returns a tensor of numbers that depend on k and their places.
func filled(k float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i, v := range tensor.Data[float32](t) {
		_ = v
		tensor.Data[float32](t)[i] = float32(k + float64(i%7)/8 - float64(i%3))
	}
	return t
}

func backends() map[string]runtime.Backend {
	return map[string]runtime.Backend{"ref": ref.New(), "cpu": cpu.New()}
}

func modelOf(t *testing.T, g *ir.Graph, b runtime.Backend) *runtime.Model {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: b, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

type datums = map[string]tensor.Datum

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func same(t *testing.T, got, want tensor.Datum, what string) {
	t.Helper()
	g, w := got.(*tensor.Tensor), want.(*tensor.Tensor)
	if g.DType() != w.DType() || !slices.Equal(g.Shape(), w.Shape()) || !slices.Equal(g.Bytes(), w.Bytes()) {
		t.Errorf("%s: %v, expected %v", what, tensor.Data[float32](g), tensor.Data[float32](w))
	}
}

// withContent returns a copy of g whose parameters have other contents.
func withContent(g *ir.Graph, content datums) *ir.Graph {
	g = g.Clone()
	for _, p := range g.Parameters {
		if d := content[p.Name]; d != nil {
			p.Init = d.(*tensor.Tensor)
		}
	}
	return g
}

func TestReplace(t *testing.T) {
	for name, b := range backends() {
		t.Run(name, func(t *testing.T) {
			ctx, g := context.Background(), affine(t)
			m := modelOf(t, g, b)
			x := datums{"x": filled(3, 2, 3)}
			before := must[datums](t)(m.Run(ctx, x))["y"]
			for k := range 5 { // the third version takes the memory of the first one
				content := datums{"w": filled(float64(k)+0.5, 3, 5), "c": filled(float64(-k), 5)}
				if k%2 == 1 {
					delete(content, "c")
				}
				want := withContent(g, must[datums](t)(m.Set().Read()))
				other := modelOf(t, withContent(want, content), b)
				if err := m.Set().Replace(ctx, content); err != nil {
					t.Fatal(err)
				}
				same(t, must[datums](t)(m.Run(ctx, x))["y"], must[datums](t)(other.Run(ctx, x))["y"], fmt.Sprintf("content %d", k))
			}
			if err := m.Set().Replace(ctx, datums{"w": filled(1, 3, 5), "c": filled(2, 5)}); err != nil {
				t.Fatal(err)
			}
			same(t, must[datums](t)(m.Run(ctx, x))["y"], before, "the first content again")
		})
	}
}

func TestReplaceRefuses(t *testing.T) {
	ctx := context.Background()
	m := modelOf(t, affine(t), cpu.New())
	x := datums{"x": filled(3, 2, 3)}
	before := must[datums](t)(m.Run(ctx, x))["y"]
	half := tensor.New(tensor.Float16, 3, 5)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, c := range []struct {
		ctx     context.Context
		content data
		want    string
	}{
		{ctx, datums{"w": filled(0, 5, 3)}, `parameter "w": expected float32[3,5], found float32[5,3]`},
		{ctx, datums{"c": filled(0, 5), "w": half}, `parameter "w": expected float32[3,5], found float16[3,5]`},
		{ctx, datums{"c": filled(0, 5), "W": filled(0, 3, 5)}, `parameter "W": the model has no such parameter; it has 2; did you mean "w"?`},
		{ctx, datums{"c": nil}, `parameter "c": expected float32[5], found nothing`},
		{ended, datums{"c": filled(0, 5)}, "context canceled"},
	} {
		err := m.Set().Replace(c.ctx, c.content)
		if err == nil || err.Error() != c.want {
			t.Errorf("error %v, expected %s", err, c.want)
		}
		if c.ctx == ctx && !errors.Is(err, runtime.ErrParameter) {
			t.Errorf("%v is not an ErrParameter", err)
		}
		same(t, must[datums](t)(m.Run(ctx, x))["y"], before, "after "+c.want)
	}
}

// TestUpdates: a graph with updates computes in place what it gives as outputs otherwise.
func TestUpdates(t *testing.T) {
	for name, b := range backends() {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			m := modelOf(t, descent(t), b)
			set := m.NewSet()
			s, plain := m.NewSession(), m.NewSession()
			if err := s.Use(set); err != nil {
				t.Fatal(err)
			}
			x := datums{"x": filled(3, 2, 3)}
			out := datums{}
			for range 1000 {
				want := must[datums](t)(plain.Run(ctx, x))
				if err := s.RunInto(ctx, x, out); err != nil {
					t.Fatal(err)
				}
				if len(out) != 1 {
					t.Fatalf("outputs %v, expected y", out)
				}
				same(t, out["y"], want["y"], "y")
				if err := m.Set().Replace(ctx, datums{"w": want["w.next"], "n": want["n.next"]}); err != nil {
					t.Fatal(err)
				}
			}
			got, want := must[datums](t)(set.Read()), must[datums](t)(m.Set().Read())
			same(t, got["w"], want["w"], "w")
			same(t, got["n"], want["n"], "n")
			if name == "cpu" {
				if n := testing.AllocsPerRun(100, func() {
					if err := s.RunInto(ctx, x, out); err != nil {
						t.Fatal(err)
					}
				}); n > 0 {
					t.Errorf("a run that updates allocates %v times", n)
				}
			}
			if err := m.NewSession().Use(set); !errors.Is(err, runtime.ErrOption) {
				t.Errorf("a second session uses a set that updates: %v", err)
			}
			if err := set.Publish(ctx, m.Set()); err != nil {
				t.Fatal(err)
			}
			same(t, must[datums](t)(m.Set().Read("w"))["w"], must[datums](t)(set.Read("w"))["w"], "published")
		})
	}
}

// TestSwap: two parameters are exchanged by each run.
func TestSwap(t *testing.T) {
	for name, backend := range backends() {
		t.Run(name, func(t *testing.T) {
			b := ir.NewBuilder("swap", ops.Default, ops.Opsets())
			p, q := b.Parameter("p", filled(1, 4)), b.Parameter("q", filled(2, 4))
			b.Output("sum", b.Op("", "Add", []*ir.Value{p, q}))
			b.Output("", q)
			b.Output("p2", p)
			g := b.Graph()
			b.Update(p, g.Outputs[1])
			b.Update(q, g.Outputs[2])
			m := modelOf(t, built(t, b), backend)
			set, s := m.NewSet(), m.NewSession()
			if err := s.Use(set); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if _, err := s.Run(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				got := must[datums](t)(set.Read())
				same(t, got["p"], filled([]float64{2, 1}[i%2], 4), "p")
				same(t, got["q"], filled([]float64{1, 2}[i%2], 4), "q")
			}
		})
	}
}

// TestReplaceWhileRunning: each of many runs sees one version, while others replace it.
func TestReplaceWhileRunning(t *testing.T) {
	ctx, g := context.Background(), affine(t)
	m := modelOf(t, g, cpu.New())
	x := datums{"x": filled(3, 2, 3)}
	var wants []tensor.Datum
	var contents []data
	for k := range 3 {
		contents = append(contents, datums{"w": filled(float64(k)+0.5, 3, 5), "c": filled(float64(-k), 5)})
		wants = append(wants, must[datums](t)(modelOf(t, withContent(g, contents[k]), cpu.New()).Run(ctx, x))["y"])
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
				if !slices.ContainsFunc(wants, func(w tensor.Datum) bool {
					return slices.Equal(w.(*tensor.Tensor).Bytes(), y["y"].(*tensor.Tensor).Bytes())
				}) {
					t.Errorf("a run computed with no version: %v", y["y"])
					return
				}
			}
		})
	}
	for k := range 200 {
		if err := m.Set().Replace(ctx, contents[k%3]); err != nil {
			t.Error(err)
		}
	}
	close(done)
	group.Wait()
}

func TestUntrustedRefusesUpdates(t *testing.T) {
	_, err := runtime.New(descent(t), runtime.Untrusted(cpu.New()))
	if !errors.Is(err, runtime.ErrOption) || !strings.Contains(err.Error(), `parameter "w"`) {
		t.Errorf("error %v", err)
	}
}
