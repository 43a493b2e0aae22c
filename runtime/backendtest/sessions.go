package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
)

// network returns a small model: x float[B,L,2] → Linear → state space → Gelu → residual → Linear → y float[B,L,3], and
// the mean z float[B,3] over optional lengths int64[B].
func network(t testing.TB, direction string, window int64) *ir.Graph {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	weights := func(scale float64, shape ...int) *tensor.Tensor {
		w := tensor.New(tensor.Float32, shape...)
		for i := range tensor.Data[float32](w) {
			tensor.Data[float32](w)[i] = float32(scale * rng.NormFloat64())
		}
		return w
	}
	doubles := func(make func() float64, shape ...int) *tensor.Tensor {
		w := tensor.New(tensor.Float64, shape...)
		for i := range tensor.Data[float64](w) {
			tensor.Data[float64](w)[i] = make()
		}
		return w
	}
	const heads, states, size = 2, 5, 3
	b := ir.NewBuilder("network", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 2))
	lengths := b.Input("lengths", &ir.OptionalType{Elem: ir.Tensor(tensor.Int64, "B")})
	u := b.Op("essm", "Linear", []*ir.Value{x, b.Const("w_in", weights(1, heads*size, 2)),
		b.Const("b_in", weights(1, heads*size))})
	h := b.Op("essm", "SSM", []*ir.Value{u,
		b.Const("a_re", doubles(func() float64 { return -0.002 - 0.2*rng.Float64() }, 1, heads, states)),
		b.Const("a_im", doubles(func() float64 { return 3 * rng.NormFloat64() }, 1, heads, states)),
		b.Const("b_re", doubles(rng.NormFloat64, 1, heads, states)),
		b.Const("b_im", doubles(rng.NormFloat64, 1, heads, states)),
		b.Const("B", weights(0.5, 1, heads, states, size)), b.Const("C", weights(0.5, 1, heads, size, states)),
		nil, nil, b.Const("D", weights(1, 1, heads, size)),
	}, ir.A("direction", direction), ir.A("window", window))
	h = b.Op("", "Gelu", []*ir.Value{h})
	h = b.Op("", "Add", []*ir.Value{h, u})
	y := b.Op("essm", "Linear", []*ir.Value{h, b.Const("w_out", weights(0.5, 3, heads*size)),
		b.Const("b_out", weights(1, 3))})
	b.Output("y", y)
	b.Output("z", b.Op("essm", "Pick", []*ir.Value{y, lengths}, ir.A("mode", "pool")))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// inputs returns x and, if wanted, lengths from a seed.
func inputs(seed uint64, batch, length int, lengths bool) Data {
	rng := rand.New(rand.NewPCG(seed, 3))
	x := tensor.New(tensor.Float32, batch, length, 2)
	for i := range tensor.Data[float32](x) {
		tensor.Data[float32](x)[i] = float32(rng.NormFloat64())
	}
	in := Data{"x": x}
	if lengths {
		n := tensor.New(tensor.Int64, batch)
		for i := range tensor.Data[int64](n) {
			tensor.Data[int64](n)[i] = int64(1 + rng.IntN(length))
		}
		in["lengths"] = n
	}
	return in
}

// mustRun returns the outputs of a run. If the backend refuses the shapes or types of in with a valid error, mustRun notes the
// refusal and skips the test.
func (s *suite) mustRun(t testing.TB, session *runtime.Session, in Data) Data {
	t.Helper()
	out, err := session.Run(context.Background(), in)
	s.skipRefused(t, err)
	if err != nil {
		t.Fatalf("%s: %v", describe(in), err)
	}
	return out
}

// forms checks that all forms give the same answer, in all directions, with and without a window (docs/math.md, Forms).
func (s *suite) forms(t *testing.T) {
	for _, direction := range []string{essm.Forward, essm.Backward, essm.Bidirectional} {
		for _, window := range []int64{0, 1, 7, 64} {
			g := network(t, direction, window)
			tol := GraphTolerance(g)
			for _, kernel := range runtime.Kernels() {
				s.sub(t, fmt.Sprintf("%s-%d-%s", direction, window, kernel), func(t *testing.T) {
					session := s.model(t, g, runtime.Options{Kernel: kernel}).NewSession()
					for _, size := range [][2]int{{1, 1}, {2, 2}, {1, 63}, {3, 200}} {
						in := inputs(4, size[0], size[1], size[0] > 1)
						want, err := truth(g, in)
						if err != nil {
							t.Fatal(err)
						}
						expect(t, describe(in), s.mustRun(t, session, in), want, tol)
					}
				})
			}
		}
	}
}

// shapes checks that one session runs many shapes in any order, with and without the optional input.
func (s *suite) shapes(t *testing.T) {
	g := network(t, essm.Forward, 0)
	session := s.model(t, g, runtime.Options{}).NewSession()
	tol := GraphTolerance(g)
	for _, length := range []int{1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 100, 257, 5, 1} {
		for _, batch := range []int{1, 2, 5} {
			for _, lengths := range []bool{false, true} {
				in := inputs(uint64(length), batch, length, lengths)
				want, err := truth(g, in)
				if err != nil {
					t.Fatal(err)
				}
				got := s.mustRun(t, session, in)
				expect(t, describe(in), got, want, tol)
				into := Data{"y": got["y"].(*tensor.Tensor).Clone(), "z": got["z"].(*tensor.Tensor).Clone()}
				y, z := into["y"], into["z"]
				if err := session.RunInto(context.Background(), in, into); err != nil {
					t.Fatal(err)
				}
				if into["y"] != y || into["z"] != z {
					t.Errorf("%s: outputs are not written to the memory given", describe(in))
				}
				if err := identical(got, into); err != nil {
					t.Errorf("%s: Run and RunInto: %v", describe(in), err)
				}
			}
		}
	}
	bad := inputs(1, 2, 0, false)
	if _, err := session.Run(context.Background(), bad); !errors.Is(err, runtime.ErrInput) {
		t.Errorf("%s: expected a refusal, found %v", describe(bad), err)
	}
}

// threads checks that the number of threads changes no bit of the answer, and that answers are right at sizes worth
// dividing.
func (s *suite) threads(t *testing.T) {
	for _, direction := range []string{essm.Forward, essm.Bidirectional} {
		g := network(t, direction, 0)
		for _, size := range [][2]int{{1, 1000}, {7, 130}, {64, 3}} {
			in := inputs(5, size[0], size[1], true)
			want, err := truth(g, in)
			if err != nil {
				t.Fatal(err)
			}
			var first Data
			for _, threads := range []int{1, 2, 3, 8, 0} {
				session := s.model(t, g, runtime.Options{Threads: threads}).NewSession()
				for range 3 {
					got := s.mustRun(t, session, in)
					if first == nil {
						first = got
						expect(t, describe(in), got, want, GraphTolerance(g))
					}
					if err := identical(first, got); err != nil {
						t.Errorf("%s %s: %d threads: %v", direction, describe(in), threads, err)
					}
				}
			}
		}
	}
}

// sessions checks that each of 64 goroutines with one model gets the same answer as it would without the others.
func (s *suite) sessions(t *testing.T) {
	g := network(t, essm.Bidirectional, 0)
	m := s.model(t, g, runtime.Options{Threads: 2})
	const kinds = 8
	var in, want [kinds]Data
	alone := m.NewSession()
	for k := range kinds {
		in[k] = inputs(uint64(k), 1+k%3, 1+17*k, k%2 == 0)
		want[k] = s.mustRun(t, alone, in[k])
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			session := m.NewSession()
			for j := range kinds {
				k := (i + j) % kinds
				got, err := session.Run(context.Background(), in[k])
				if err == nil {
					err = identical(want[k], got)
				}
				if err != nil {
					t.Errorf("goroutine %d, %s: %v", i, describe(in[k]), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// closing checks that Close waits for runs, which give the right answers, and that later runs are refused.
func (s *suite) closing(t *testing.T) {
	g := network(t, essm.Forward, 0)
	in := inputs(6, 2, 300, true)
	if s.small() {
		in = inputs(6, 1, 60, true)
	}
	for range 5 {
		m := s.model(t, g, runtime.Options{})
		want := s.mustRun(t, m.NewSession(), in)
		var wg, started sync.WaitGroup
		started.Add(8)
		for range 8 {
			wg.Go(func() {
				session := m.NewSession()
				for first := true; ; first = false {
					got, err := session.Run(context.Background(), in)
					if first {
						started.Done()
					}
					if errors.Is(err, runtime.ErrClosed) {
						return
					}
					if err == nil {
						err = identical(want, got)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		started.Wait()
		for range 2 {
			wg.Go(func() {
				if err := m.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		wg.Wait()
		if _, err := m.NewSession().Run(context.Background(), in); !errors.Is(err, runtime.ErrClosed) {
			t.Errorf("a run after Close: %v", err)
		}
	}
}

// cancel checks that a run ends soon after its context, and that the session works afterwards.
func (s *suite) cancel(t *testing.T) {
	g := network(t, essm.Bidirectional, 0)
	m := s.model(t, g, runtime.Options{Threads: 2})
	session := m.NewSession()
	small := inputs(7, 1, 20, false)
	want := s.mustRun(t, session, small)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := session.Run(done, small); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
	large := inputs(7, 16, 4000, true)
	for _, after := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond, 3 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		out, err := session.Run(ctx, large)
		cancel()
		if err == nil && out == nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled after %v: %v", after, err)
		}
		if err := identical(want, s.mustRun(t, session, small)); err != nil {
			t.Errorf("after a cancelled run: %v", err)
		}
	}
}

// memory checks that a session does not grow from run to run, nor with the number of shapes beyond those that it keeps,
// and that it observes the limit.
func (s *suite) memory(t *testing.T) {
	g := network(t, essm.Bidirectional, 0)
	m := s.model(t, g, runtime.Options{})
	session := m.NewSession()
	in := inputs(8, 2, 500, true)
	out := s.mustRun(t, session, in)
	heap := func() int64 {
		goruntime.GC()
		var stats goruntime.MemStats
		goruntime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	held := session.Memory()
	before := heap()
	for range 50 {
		if err := session.RunInto(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
	}
	if now := session.Memory(); now != held {
		t.Errorf("the session held %d bytes after one run, %d after 50 more", held, now)
	}
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("50 runs left %d bytes behind", grown)
	}
	for length := 500; length > 460; length-- {
		s.mustRun(t, session, inputs(8, 2, length, true))
	}
	if now := session.Memory(); now > 8*held {
		t.Errorf("the session held %d bytes for one shape, %d after 40 shapes", held, now)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if now := session.Memory(); now != 0 {
		t.Errorf("a closed session holds %d bytes", now)
	}
	s.mustRun(t, session, in)

	tight := s.model(t, g, runtime.Options{MaxMemory: 64 << 10}).NewSession()
	s.mustRun(t, tight, inputs(8, 1, 20, false))
	if _, err := tight.Run(context.Background(), inputs(8, 8, 20000, false)); !errors.Is(err, runtime.ErrMemory) {
		t.Errorf("a run that needs more memory than the limit: %v", err)
	}
	s.mustRun(t, tight, inputs(8, 1, 20, false))
}

// unsupported checks that an operator without definition is refused with the node's name, that failures and panics of
// an operator give errors with the node's name, and that the model works afterwards.
func (s *suite) unsupported(t *testing.T) {
	single := func(op *ir.Op) *ir.Graph {
		op.Domain, op.Since = "foreign", 1
		op.In, op.Out = ops.Sig("x:T[N]"), ops.Sig("y:T[N]")
		op.Infer = func(n *ir.Node) ([]ir.Type, error) { return []ir.Type{n.In(0).Type}, nil }
		b := ir.NewBuilder("foreign", ops.Default, map[string]int{"foreign": 1})
		x := b.Input("x", ir.Tensor(tensor.Float32, "N"))
		b.Output("y", b.Apply(op, 1, []*ir.Value{x}, nil)[0])
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	_, err := runtime.New(single(&ir.Op{Name: "Nothing"}), runtime.Options{Backend: s.make()})
	if !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), "foreign.Nothing -> y") {
		t.Errorf("expected a refusal that names the node, found %v", err)
	}
	s.sub(t, "fails", func(t *testing.T) {
		g := single(&ir.Op{Name: "Fragile", Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			switch x := ops.Tensor(in, 0); x.Len() {
			case 1:
				return nil, errors.New("one is not enough")
			case 2:
				return []tensor.Datum{tensor.FromSlice(tensor.Data[float32](x)[:x.Len()+1], 3)}, nil
			}
			return in, nil
		}})
		session := s.model(t, g, runtime.Options{}).NewSession()
		for n, want := range map[int]error{1: nil, 2: runtime.ErrInternal} {
			_, err := session.Run(context.Background(), Data{"x": tensor.New(tensor.Float32, n)})
			var ne *runtime.NodeError
			if !errors.As(err, &ne) || ne.Node != g.Nodes[0] || want != nil && !errors.Is(err, want) {
				t.Errorf("%d elements: expected an error of the node, found %v", n, err)
			}
			s.mustRun(t, session, Data{"x": tensor.New(tensor.Float32, 5)})
		}
	})
}
