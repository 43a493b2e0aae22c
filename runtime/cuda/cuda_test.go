package cuda_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/ref"
)

type data = map[string]tensor.Datum

func floats(v ...float32) tensor.Datum { return tensor.FromSlice(v, len(v)) }

func numbers(n int, from float32) tensor.Datum {
	v := make([]float32, n)
	for i := range v {
		v[i] = from + float32(i)
	}
	return floats(v...)
}

// backend returns the backend on a driver.
func backend(t testing.TB, d driver.Driver, o cuda.Options) runtime.Backend {
	t.Helper()
	b, err := cuda.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// load returns a model, which is closed with the test.
func load(t testing.TB, d driver.Driver, o cuda.Options, g *ir.Graph, options runtime.Options) *runtime.Model {
	t.Helper()
	options.Backend = backend(t, d, o)
	m, err := runtime.New(g, options)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answers returns the interpreter's outputs.
func answers(t testing.TB, g *ir.Graph, in data) data {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func equal(a, b data) bool {
	for name := range a {
		x, ok := a[name].(*tensor.Tensor)
		y, ok2 := b[name].(*tensor.Tensor)
		if !ok || !ok2 || !tensor.Equal(x, y) {
			return false
		}
	}
	return len(a) == len(b)
}

const long = "a = Double x; b = Sum a z; v = Same b; c1 = Shift v; d = Sum c1 a; e = Odd d; f = Sum e c; g = Double f"

// Runs of several shapes and sessions give the interpreter's answers, and everything is given back.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		name, text string
		outputs    []string
		fallback   string
	}{
		{"one", "y = Double x", []string{"y"}, ""},
		{"chain", long, []string{"g"}, ""},
		{"many outputs", long, []string{"g", "b", "v", "x", "g2", "c", "a"}, ""},
		{"view of an input", "y = Same x", []string{"y", "x"}, ""},
		{"views", "a = Same x; b = Same a; y = Sum a b", []string{"y", "b"}, ""},
		{"fallback", "a = Double x; b = None a; y = Sum a b", []string{"y", "b"}, "cpu"},
		{"fallback at the ends", "a = None x; b = Double a; y = None b", []string{"y", "a"}, "cpu"},
		{"view on the host", "a = Same x; b = None a; y = Sum b a", []string{"y"}, "cpu"},
		{"fallback alone", "a = None x; y = None a", []string{"y"}, "cpu"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := test.text
			outputs := slices.Clone(test.outputs)
			if i := slices.Index(outputs, "g2"); i >= 0 {
				text += "; g2 = Same g"
			}
			g := chain(t, text, outputs...)
			n := tested()
			m := load(t, n, cuda.Options{Fallback: test.fallback}, g, runtime.Options{})
			s := m.NewSession()
			for round := range 3 {
				in := data{"x": numbers(6, float32(round)), "z": numbers(6, 100)}
				got, err := s.Run(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				if want := answers(t, g, in); !equal(got, want) {
					t.Fatalf("run %d: found %v, expected %v", round, got, want)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if l := n.leaks(); l != nil {
				t.Errorf("not given back: %v", l)
			}
		})
	}
}

// Tables of shapes that nobody uses any more are kept up to a limit, the last ones.
func TestTables(t *testing.T) {
	const tables = 25 // of four bytes
	n := tested()
	b := cuda.Idle(backend(t, n, cuda.Options{}), 4*tables)
	m, err := runtime.New(chain(t, "y = Shift x", "y"), runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	run := func(size int) {
		t.Helper()
		s := m.NewSession()
		in := data{"x": numbers(size, 1), "z": numbers(size, 2)}
		got, err := s.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if y, want := got["y"].(*tensor.Tensor), float32(4); tensor.Data[float32](y)[0] != want {
			t.Errorf("size %d: found %s", size, y)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for size := range 60 {
		run(size + 1)
	}
	if k := n.kept(4); k != tables {
		t.Errorf("%d tables are kept, expected %d", k, tables)
	}
	before := n.count("AllocFromPool")
	for range 3 {
		run(60)
	}
	if k := n.count("AllocFromPool") - before; k != 3 { // arenas
		t.Errorf("%d allocations for a shape whose table is there", k)
	}
	run(1) // again
	if k := n.kept(4); k != tables {
		t.Errorf("%d tables are kept, expected %d", k, tables)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if l := n.leaks(); l != nil {
		t.Errorf("not given back: %v", l)
	}
}

// The second run of a shape is one launch; kernels are compiled once, and constants uploaded once, for all sessions.
func TestShared(t *testing.T) {
	n := tested()
	m := load(t, n, cuda.Options{}, chain(t, long, "g"), runtime.Options{})
	defer m.Close()
	in := data{"x": numbers(6, 1), "z": numbers(6, 2)}
	for range 3 {
		s := m.NewSession()
		for range 4 {
			if _, err := s.Run(context.Background(), in); err != nil {
				t.Fatal(err)
			}
		}
	}
	if k := n.count("LoadModule"); k != 4 { // Double, Sum, Shift, Odd
		t.Errorf("%d kernels were compiled", k)
	}
	if k := n.count("Instantiate"); k != 3 {
		t.Errorf("%d graphs were made", k)
	}
	if k := n.count("LaunchGraph"); k != 9 {
		t.Errorf("%d graphs were launched", k)
	}
	if k := n.count("RetainContext"); k != 1 {
		t.Errorf("%d contexts", k)
	}
	if k := n.count("AllocFromPool"); k != 3+2 { // an arena for each session, and the constants of Shift and Sum
		t.Errorf("%d allocations", k)
	}
}

// Many goroutines with sessions of their own get the answers of one.
func TestConcurrent(t *testing.T) {
	n := tested()
	g := chain(t, long, "g", "b")
	m := load(t, n, cuda.Options{}, g, runtime.Options{})
	var wait sync.WaitGroup
	for k := range 8 {
		in := data{"x": numbers(6, float32(k)), "z": numbers(6, 2)}
		want := answers(t, g, in)
		wait.Go(func() {
			s := m.NewSession()
			for range 20 {
				got, err := s.Run(context.Background(), in)
				if err != nil || !equal(got, want) {
					t.Errorf("found %v (%v), expected %v", got, err, want)
					return
				}
			}
		})
	}
	wait.Wait()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if l := n.leaks(); l != nil {
		t.Errorf("not given back: %v", l)
	}
}

// A node without a kernel is refused when the model is loaded, one without a kernel for its shapes when these are bound.
func TestRefused(t *testing.T) {
	n := tested()
	_, err := runtime.New(chain(t, "y = None x", "y"), runtime.Options{Backend: backend(t, n, cuda.Options{})})
	var u *runtime.UnsupportedError
	if !errors.As(err, &u) || u.Node.Op.Name != "None" || !strings.Contains(err.Error(), "Fallback") {
		t.Errorf("found %v", err)
	}
	m := load(t, n, cuda.Options{}, chain(t, "y = Odd x", "y"), runtime.Options{})
	s := m.NewSession()
	_, err = s.Run(context.Background(), data{"x": numbers(5, 1), "z": numbers(5, 1)})
	if !errors.As(err, &u) || u.Node.Op.Name != "Odd" || !strings.Contains(err.Error(), "no kernel for its shapes") {
		t.Errorf("found %v", err)
	}
	if _, err := s.Run(context.Background(), data{"x": numbers(4, 1), "z": numbers(4, 1)}); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if l := n.leaks(); l != nil {
		t.Errorf("not given back: %v", l)
	}
}

// Cards and drivers that do not fit are refused by name.
func TestCards(t *testing.T) {
	for _, test := range []struct {
		change func(*null, *cuda.Options)
		want   string
	}{
		{func(n *null, _ *cuda.Options) { n.major = 7 }, "device 0 (null) has compute capability 7.0: 8.0 or newer is needed"},
		{func(n *null, _ *cuda.Options) { n.version = 10020 }, "the driver is for CUDA 10.2: CUDA 11.4 or newer is needed"},
		{func(_ *null, o *cuda.Options) { o.Device = 3 }, "option Device: the driver has 1 devices"},
		{func(_ *null, o *cuda.Options) { o.Fallback = "gpu" }, "option Fallback"},
	} {
		n, o := newNull(), cuda.Options{}
		test.change(n, &o)
		if _, err := cuda.New(n, o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("found %v, expected %q", err, test.want)
		}
	}
}

// A request that does not fit the device names its shape and its bytes, and the session works on with a smaller one. The same
// holds for the caller's limit.
func TestMemory(t *testing.T) {
	for _, limit := range []bool{false, true} {
		n, o := tested(), runtime.Options{}
		if n.capacity = 64 << 10; limit {
			n.capacity, o.MaxMemory = 0, 64<<10
		}
		m := load(t, n, cuda.Options{}, chain(t, "a = Double x; y = Sum a z", "y"), o)
		s := m.NewSession()
		for range 2 {
			_, err := s.Run(context.Background(), data{"x": numbers(10000, 1), "z": numbers(10000, 1)})
			var full *runtime.MemoryError
			if !errors.As(err, &full) || full.Need < 80000 || !limit && !strings.Contains(err.Error(), "x float32[10000]") {
				t.Errorf("found %v", err)
			}
			if _, err := s.Run(context.Background(), data{"x": numbers(100, 1), "z": numbers(100, 1)}); err != nil {
				t.Error(err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if l := n.leaks(); l != nil {
			t.Errorf("not given back: %v", l)
		}
	}
}

// After a fault of a kernel, each call on the device reports it in one line, and Close returns. A model that is
// loaded then opens the device anew.
func TestLost(t *testing.T) {
	n := tested()
	b := backend(t, n, cuda.Options{})
	m, err := runtime.New(chain(t, "a = Double x; y = Crash a", "y"), runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	in := data{"x": numbers(4, 1), "z": numbers(4, 1)}
	_, err = s.Run(context.Background(), in)
	var node *runtime.NodeError
	if !errors.As(err, &node) || node.Node.Op.Name != "Crash" || !strings.Contains(err.Error(), "device 0 (null)") {
		t.Errorf("found %v", err)
	}
	other, err := runtime.New(chain(t, "y = Double x", "y"), runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*runtime.Session{s, m.NewSession(), other.NewSession()} {
		_, err = s.Run(context.Background(), in)
		var lost *cuda.LostError
		if !errors.As(err, &lost) || strings.Contains(err.Error(), "\n") {
			t.Errorf("found %v", err)
		}
	}
	for _, m := range []*runtime.Model{m, other} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	n.lost = nil // the driver ends the fault with the context
	m, err = runtime.New(chain(t, "y = Double x", "y"), runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.NewSession().Run(context.Background(), in); err != nil {
		t.Error(err)
	}
}

// A kernel that refuses the content of its input fails the run, by the error of its node, and the next run is as any.
func TestFault(t *testing.T) {
	n := tested()
	g := chain(t, "a = Positive x; b = None a; c = Double b; d = Positive z; y = Sum c d", "y")
	m := load(t, n, cuda.Options{Fallback: "cpu"}, g, runtime.Options{})
	s := m.NewSession()
	for round := range 4 {
		for k, in := range []data{{"x": numbers(4, 1), "z": numbers(4, 1)}, {"x": numbers(4, -1), "z": numbers(4, 1)},
			{"x": numbers(4, 1), "z": numbers(4, -1)}} {
			out, err := s.Run(context.Background(), in)
			var node *runtime.NodeError
			want := []string{"", "a", "d"}[k]
			if k > 0 && (!errors.As(err, &node) || node.Node.Outputs[0].Name != want ||
				!strings.Contains(err.Error(), "a number is negative")) {
				t.Errorf("run %d: found %v, expected an error of %s", round, err, want)
			}
			if k == 0 && (err != nil || tensor.Data[float32](out["y"].(*tensor.Tensor))[1] != 8) {
				t.Errorf("run %d: found %v, %v", round, out, err)
			}
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if l := n.leaks(); l != nil {
		t.Errorf("not given back: %v", l)
	}
}

// A run ends at its context between launches.
func TestCancel(t *testing.T) {
	n := tested()
	m := load(t, n, cuda.Options{}, chain(t, "a = Double x; b = Sum a z; y = Double b", "y"), runtime.Options{})
	defer m.Close()
	in := data{"x": numbers(4, 1), "z": numbers(4, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	double := n.kernels["test_Double"]
	n.kernels["test_Double"] = func(n *null, params []byte, grid driver.Dim) error {
		cancel()
		return double(n, params, grid)
	}
	s := m.NewSession()
	if _, err := s.Run(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
	if k := n.count("Launch"); k != 1 {
		t.Errorf("%d launches", k)
	}
	n.kernels["test_Double"] = double
	if _, err := s.Run(context.Background(), in); err != nil {
		t.Error(err)
	}
}

// Profiles measure each unit, and the copies.
func TestProfile(t *testing.T) {
	n := tested()
	m := load(t, n, cuda.Options{Fallback: "cpu"}, chain(t, "a = Double x; b = None a; y = Sum b a", "y"),
		runtime.Options{Profile: true})
	defer m.Close()
	s := m.NewSession()
	for range 3 {
		if _, err := s.Run(context.Background(), data{"x": numbers(4, 1), "z": numbers(4, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	for _, p := range s.Profile() {
		found = append(found, p.Op+": "+p.Form)
		if p.Calls != 3 || p.Time <= 0 {
			t.Errorf("found %+v", p)
		}
	}
	want := []string{"copy: crossing", "copy: crossing", "test.Double: test_Double", "test.None: on the host: no kernel",
		"test.Sum: test_Sum"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q", found)
	}
}

// The text of plans, and Explain, show the values that cross.
func TestExplain(t *testing.T) {
	m := load(t, tested(), cuda.Options{Fallback: "cpu"}, chain(t, "a = Double x; b = None a; y = Sum b a", "y"),
		runtime.Options{})
	defer m.Close()
	text, err := m.Lowered(map[string]int64{"N": 4})
	if err != nil {
		t.Fatal(err)
	}
	const want = `2 launches, 0 floating-point operations; 768 bytes on the device, 1024 on the host
in   x: float[4]
in   z: float[4]
0    a: float[4] @256 until 2 = test.Double(x)  # test_Double
1    b: float[4] @0 until 2 = test.None(a)  # on the host: no kernel; copied to the host: a (16 bytes); copied to the device: b (16 bytes)
2    y: float[4] @512 = test.Sum(b, a)  # test_Sum
out  y
`
	if text != want {
		t.Errorf("found\n%s\nexpected\n%s", text, want)
	}
	all, err := m.Explain(map[string]int64{"N": 4})
	if err != nil || len(all) != 1 || all[0].Op != "test.None" || all[0].Form != "host" ||
		!strings.Contains(all[0].Why, "no kernel; copied to the host: a (16 bytes)") {
		t.Errorf("found %+v, %v", all, err)
	}
}
