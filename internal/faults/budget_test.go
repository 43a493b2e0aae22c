package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/faults"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

type data = map[string]tensor.Datum

// charged are graphs whose compilation and runs charge bytes in all ways that there are.
var charged = []struct {
	name, text string
	in         data
}{
	{"outputs", `g (float[N,4] x) => (y, z) <int64[2] r = {16, 4}> { y = Tile (x, r) z = Relu (x) }`,
		data{"x": ramp(3, 4)}},
	{"sizes from data", `g (int64 n, float[N] x) => (y, z) <int64 zero = {0}, int64 one = {1}> {
		a = Range (zero, n, one)
		y = Cast <to: int = 1> (a)
		b = NonZero (x)
		z = Transpose (b)
	}`, data{"n": tensor.Scalar(int64(50)), "x": ramp(9)}},
	{"constants", `g (float[N] x) => (y) <int64[1] n = {100}, int64[1] m = {10}> {
		a = ConstantOfShape (n)
		b = Exp (a)
		c = Tile (b, m)
		d = ReduceMax <keepdims: int = 0> (c)
		y = Add (x, d)
	}`, data{"x": ramp(9)}},
	{"conversion", `g (float[N] x) => (y) { y = ReduceSum <keepdims: int = 0> (x) }`,
		data{"x": tensor.New(tensor.Float16, 100)}},
	{"carried value", `g (float[N] a, int64 m) => (y) {
		y = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P] p) => (bool d, float[Q] q) {
			d = Identity (c)
			q = Concat <axis: int = 0> (p, p)
		}>
	}`, data{"a": ramp(16), "m": tensor.Scalar(int64(4))}},
	{"body bound late", `g (float[N,N] a, int64 m) => (y) {
		y = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P,P] p) => (bool d, float[Q,Q] q) {
			d = Identity (c)
			u = Concat <axis: int = 0> (p, p)
			v = Concat <axis: int = 1> (u, u)
			w = MatMul (v, v)
			q = Tanh (w)
		}>
	}`, data{"a": ramp(4, 4), "m": tensor.Scalar(int64(3))}},
	{"sequence", `g (float[N] a, int64 m) => (y) {
		e = SequenceEmpty ()
		y = Loop (m, "", e) <body: graph = step (int64 t, bool c, seq(float[]) s) => (bool d, seq(float[]) q) {
			d = Identity (c)
			v = Neg (a)
			q = SequenceInsert (s, v)
		}>
	}`, data{"a": ramp(16), "m": tensor.Scalar(int64(4))}},
	{"strings", `g (string[N] s, int64 m) => (y) {
		y = Loop (m, "", s) <body: graph = step (int64 t, bool c, string[N] p) => (bool d, string[N] q) {
			d = Identity (c)
			q = StringConcat (p, p)
		}>
	}`, data{"s": tensor.FromStrings([]string{"text"}, 1), "m": tensor.Scalar(int64(4))}},
	{"scan output", `g (float[N] a, int64 m) => (y, z) {
		y, z = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[N] p) => (bool d, float[N] q, float[N] r) {
			d = Identity (c)
			q = Neg (p)
			r = Abs (p)
		}>
	}`, data{"a": ramp(16), "m": tensor.Scalar(int64(4))}},
	{"loop in a branch", `g (float[N] a, int64 m, bool z) => (y) {
		y = If (z) <then_branch: graph = then () => (float[M] k1) {
			k1 = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P] p) => (bool d, float[Q] q) {
				d = Identity (c)
				q = Concat <axis: int = 0> (p, p)
			}>
		}, else_branch: graph = else () => (float[M] k2) { k2 = Neg (a) }>
	}`, data{"a": ramp(16), "m": tensor.Scalar(int64(4)), "z": tensor.Scalar(true)}},
	{"image", `g (uint8[N] x) => (y) { y = ImageDecoder (x) }`, data{"x": picture()}},
}

func ramp(shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](t) {
		tensor.Data[float32](t)[i] = float32(i%7) / 8
	}
	return t
}

func picture() *tensor.Tensor {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 30, 30))); err != nil {
		panic(err)
	}
	return tensor.FromSlice(b.Bytes(), b.Len())
}

// text is the content of outputs.
func text(out data) string {
	var b strings.Builder
	var write func(d tensor.Datum)
	write = func(d tensor.Datum) {
		switch d := d.(type) {
		case *tensor.Tensor:
			fmt.Fprintf(&b, "%s %x %q\n", d, d.Bytes(), d.Strings())
		case *tensor.Sequence:
			for _, x := range d.Items {
				write(x)
			}
		}
	}
	for _, name := range sorted(out) {
		fmt.Fprintf(&b, "%s ", name)
		write(out[name])
	}
	return b.String()
}

// budgets returns the cases' graphs, and a model's.
func budgets(t *testing.T, each func(t *testing.T, name string, graph func() *ir.Graph, in data)) {
	for _, c := range charged {
		each(t, c.name, func() *ir.Graph {
			g, err := backendtest.ParseGraph(c.text)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}, c.in)
	}
	each(t, "model", func() *ir.Graph { return network(t, 1) }, data{"input": ramp(1, 40, 2)})
}

var backends = []func() runtime.Backend{func() runtime.Backend { return ref.New() },
	func() runtime.Backend { return cpu.New() }}

// memoryError checks the error for bytes that a budget does not grant.
func memoryError(t *testing.T, about string, err error) {
	t.Helper()
	var memory *runtime.MemoryError
	if !errors.As(err, &memory) || !errors.Is(err, runtime.ErrMemory) || memory.What == "" || memory.Need == 0 ||
		errors.Is(err, runtime.ErrInternal) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: expected an error of memory, found %v", about, err)
	}
}

// Whichever bytes a budget does not grant on the way from a graph to its answer, through passes, compilation and run:
// there is an error of memory, or the right answer.
func TestBudgetsOfCompilation(t *testing.T) {
	total := 0
	for _, backend := range backends {
		budgets(t, func(t *testing.T, name string, graph func() *ir.Graph, in data) {
			b := backend()
			t.Run(name+"/"+b.Name(), func(t *testing.T) {
				answer := func() (string, error) {
					m, err := open.Graph(graph(), "graph", open.Options{})
					if err != nil {
						return "", err
					}
					model, err := m.Compile(runtime.Options{Backend: b, Threads: 2, MaxMemory: 64 << 20})
					if err != nil {
						return "", err
					}
					defer model.Close()
					out, err := model.NewSession().Run(context.Background(), in)
					return text(out), err
				}
				want, err := answer()
				if err != nil {
					t.Fatal(err)
				}
				n := faults.Budgets.Count(func() { answer() })
				if n == 0 {
					t.Errorf("nothing is charged")
				}
				for k := range n {
					var got string
					var err error
					faults.Budgets.At(k, func() { got, err = answer() })
					if about := fmt.Sprintf("charge %d of %d", k, n); err != nil {
						memoryError(t, about, err)
					} else if got != want {
						t.Errorf("%s: another answer, and no error", about)
					}
				}
				total += n
			})
		})
	}
	t.Logf("%d faults", total)
}

// Whichever bytes a budget does not grant in a run: there is an error of memory, and then the session gives right answers
// again. It has the least limit with which it does, so that nothing can stay charged.
func TestBudgetsOfSessions(t *testing.T) {
	total := 0
	for _, backend := range backends {
		budgets(t, func(t *testing.T, name string, graph func() *ir.Graph, in data) {
			b := backend()
			t.Run(name+"/"+b.Name(), func(t *testing.T) {
				g, ctx := graph(), context.Background()
				session := func(limit int64) *runtime.Session {
					m, err := runtime.New(g, runtime.Options{Backend: b, Threads: 2, MaxMemory: limit})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { m.Close() })
					return m.NewSession()
				}
				least := sort.Search(1<<20, func(limit int) bool {
					s := session(int64(limit) + 1)
					for range 3 {
						if _, err := s.Run(ctx, in); err != nil {
							return false
						}
					}
					return true
				}) + 1
				s := session(int64(least))
				out, err := s.Run(ctx, in)
				if err != nil {
					t.Fatal(err)
				}
				want := text(out)
				// A loop gives up bodies that it keeps for the next run where the limit is near, so that runs without
				// faults do not all end with the same bytes.
				usual := map[int64]bool{s.Memory(): true}
				other := session(int64(least))
				for range 8 {
					if _, err := other.Run(ctx, in); err != nil {
						t.Fatal(err)
					}
					usual[other.Memory()] = true
				}
				n := faults.Budgets.Count(func() { s.Run(ctx, in) })
				for _, fresh := range []bool{false, true} {
					if fresh {
						n = faults.Budgets.Count(func() { session(int64(least)).Run(ctx, in) })
					}
					for k := range n {
						about := fmt.Sprintf("limit %d, charge %d of %d", least, k, n)
						if fresh {
							s = session(int64(least))
						}
						var err error
						faults.Budgets.At(k, func() { out, err = s.Run(ctx, in) })
						if err != nil {
							memoryError(t, about, err)
						} else if text(out) != want {
							t.Errorf("%s: another answer, and no error", about)
						}
						for i := range 2 {
							if out, err := s.Run(ctx, in); err != nil || text(out) != want {
								t.Errorf("%s, run %d after that: %v", about, i, err)
							}
						}
						if now := s.Memory(); !usual[now] {
							t.Errorf("%s: %d bytes are held after that, expected one of %v", about, now, slices.Sorted(maps.Keys(usual)))
						}
					}
					total += n
				}
			})
		})
	}
	t.Logf("%d faults", total)
}

// Whichever bytes a budget does not grant in a step of streams, alone or together: there is an error of memory, the
// streams stay as they were, and then they go on.
func TestBudgetsOfStreams(t *testing.T) {
	total := 0
	for _, backend := range backends {
		b := backend()
		t.Run(b.Name(), func(t *testing.T) {
			ctx := context.Background()
			m, err := runtime.New(network(t, 1), runtime.Options{Backend: b, Threads: 2, MaxMemory: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			var streams [2]*runtime.Stream
			for i := range streams {
				if streams[i], err = m.NewStream(1); err != nil {
					t.Fatal(err)
				}
			}
			half := tensor.New(tensor.Float16, 1, 5, 2) // it is converted
			steps := map[string]func(out *[2]data) error{
				"alone": func(out *[2]data) error { return streams[0].Step(ctx, data{"input": half}, out[0]) },
				"together": func(out *[2]data) error {
					all := []runtime.StreamStep{{Stream: streams[0], In: data{"input": half}, Out: out[0]},
						{Stream: streams[1], In: data{"input": half}, Out: out[1]}}
					return errors.Join(m.StepMany(ctx, all), all[0].Err, all[1].Err)
				},
			}
			snapshots := func() string {
				var all []byte
				for _, s := range streams {
					b, err := s.Snapshot()
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, b...)
				}
				return string(all)
			}
			for _, name := range sorted(steps) {
				step := steps[name]
				reset := func() {
					for _, s := range streams {
						if err := s.Reset(); err != nil {
							t.Fatal(err)
						}
					}
				}
				run := func() (string, error) {
					out := [2]data{{}, {}}
					err := step(&out)
					return text(out[0]) + text(out[1]), err
				}
				reset()
				before := snapshots()
				want, err := run()
				if err != nil {
					t.Fatal(err)
				}
				n := faults.Budgets.Count(func() { run() })
				if n == 0 {
					t.Errorf("%s: nothing is charged", name)
				}
				for k := range n {
					reset()
					about := fmt.Sprintf("%s, charge %d of %d", name, k, n)
					var got string
					var err error
					faults.Budgets.At(k, func() { got, err = run() })
					switch {
					case err != nil:
						if memoryError(t, about, one(err)); name == "alone" && snapshots() != before {
							t.Errorf("%s: the stream has changed", about)
						}
					case got != want:
						t.Errorf("%s: another answer, and no error", about)
					}
					reset()
					if got, err := run(); err != nil || got != want {
						t.Errorf("%s: then: %v", about, err)
					}
				}
				total += n
			}
		})
	}
	t.Logf("%d faults", total)
}

// one returns the first of joined errors.
func one(err error) error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()[0]
	}
	return err
}
