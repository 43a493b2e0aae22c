package open_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
	"github.com/essmc/essmc/runtime/ref"
)

type data = map[string]tensor.Datum

// small writes a model directory with random weights: input float[B,L,2] → output float[B,3].
func small(t testing.TB) string {
	t.Helper()
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "linear", DInput: 2}
	c.DModel, c.NLayers, c.Norm = 8, 2, "batch"
	c.Layer.Heads, c.Layer.DState, c.Layer.Bidirectional = 2, 8, false
	c.Layer.Dt, c.Layer.D = "per_state", "diagonal"
	c.Decoder = essm.Decoder{Type: "sequence", Mode: "pool", DOutput: 3}
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "model")
	must(t, checkpoint.WriteDir(dir, c, w))
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file opens a model, which must succeed.
func file(t testing.TB, path string, o open.Options) *open.Model {
	t.Helper()
	m, err := open.File(path, o)
	must(t, err)
	return m
}

func graph(t testing.TB, m *open.Model) *ir.Graph {
	t.Helper()
	g, err := m.Graph()
	must(t, err)
	return g
}

// parse reads a graph from text.
func parse(t testing.TB, text string) *ir.Graph {
	t.Helper()
	g, err := irtext.Parse([]byte(text), "text", ops.Default, irtext.Options{})
	must(t, err)
	return g
}

// onnxFile returns an ONNX file of a graph.
func onnxFile(t testing.TB, g *ir.Graph) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, onnx.Write(&b, g, onnx.WriteOptions{}))
	return b.Bytes()
}

// stored writes the small model in all forms, under neutral names. It returns paths and, for single files, bytes by
// kind.
func stored(t *testing.T) (paths map[open.Kind]string, whole map[open.Kind][]byte) {
	dir := small(t)
	m := file(t, dir, open.Options{})
	g := graph(t, m)
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	paths = map[open.Kind]string{open.Directory: dir, open.Plan: at("plan.onnx"), open.ONNX: at("standard"),
		open.Text: at("text.essm")}
	must(t, plan.WriteFile(paths[open.Plan], g))
	standard, _, err := lower.Lower(g, lower.Options{OmitOptional: true})
	must(t, err)
	must(t, onnx.WriteFile(paths[open.ONNX], standard, onnx.WriteOptions{}))
	source, err := m.Source()
	must(t, err)
	must(t, irtext.WriteFile(paths[open.Text], source))
	whole = map[open.Kind][]byte{open.Text: []byte(irtext.String(source))}
	for _, k := range []open.Kind{open.Plan, open.ONNX} {
		whole[k], err = os.ReadFile(paths[k])
		must(t, err)
	}
	return paths, whole
}

// run returns the answer of a model to a sequence.
func run(t *testing.T, m *runtime.Model) []float32 {
	t.Helper()
	defer m.Close()
	x := tensor.FromSlice([]float32{0, 1, -1, 0.5, 2, -0.25, 0.125, 1}, 1, 4, 2)
	out, err := m.NewSession().Run(context.Background(), data{"input": x})
	must(t, err)
	return tensor.Data[float32](out["output"].(*tensor.Tensor))
}

func near(a, b []float32, tol float64) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= tol })
}

// TestForms checks that a model gives the same answer in every form, from a file or from memory, under any name.
func TestForms(t *testing.T) {
	paths, whole := stored(t)
	first, err := open.Load(paths[open.Directory], open.Options{})
	must(t, err)
	hash, err := first.Hash()
	must(t, err)
	want := run(t, first)
	hashed := func(m *open.Model) (sum [32]byte) {
		model, err := m.Compile(runtime.Options{})
		must(t, err)
		sum, err = model.Hash()
		must(t, err)
		if got := run(t, model); !near(got, want, 1e-5) {
			t.Errorf("%v: found %v, expected %v", m.Kind, got, want)
		}
		return sum
	}
	for _, kind := range slices.Sorted(maps.Keys(paths)) {
		t.Run(kind.String(), func(t *testing.T) {
			m := file(t, paths[kind], open.Options{})
			if m.Kind != kind || m.Name != paths[kind] {
				t.Fatalf("opened as %v, %s", m.Kind, m.Name)
			}
			if (m.Config != nil) != (kind == open.Directory) || (m.Info != nil) != (kind == open.ONNX) {
				t.Errorf("configuration %v, file %v", m.Config, m.Info)
			}
			source, err := m.Source()
			must(t, err)
			if g := graph(t, m); (g == source) != (kind == open.Plan) || len(g.Nodes) == 0 {
				t.Errorf("the source has %d nodes, the graph %d; the same: %v", len(source.Nodes), len(g.Nodes),
					g == source)
			}
			if !strings.Contains(irtext.String(graph(t, m)), "essm.") {
				t.Error("no layer was put together")
			}
			plain, err := m.CompileSource(runtime.Options{Backend: ref.New()})
			must(t, err)
			if got := run(t, plain); !near(got, want, 1e-5) {
				t.Errorf("as written: %v, expected %v", got, want)
			}
			sum := hashed(m)
			if (kind == open.Plan || kind == open.Directory) && sum != hash {
				t.Error("the plan has another hash than the directory that it was made of")
			}
			b, ok := whole[kind]
			if !ok {
				return
			}
			inMemory, err := open.Bytes(b, "a name", open.Options{})
			must(t, err)
			read, err := open.Reader(iotest(b), "a name", open.Options{})
			must(t, err)
			for _, o := range []*open.Model{inMemory, read} {
				if o.Kind != kind || o.Name != "a name" || hashed(o) != sum {
					t.Errorf("from memory: %v, %s, another graph", o.Kind, o.Name)
				}
			}
		})
	}
}

// iotest returns a reader of one byte at a time.
func iotest(b []byte) io.Reader { return &slow{b} }

type slow struct{ b []byte }

func (s *slow) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1)], s.b)
	s.b = s.b[n:]
	return n, nil
}

const follower = `<ir_version: 10, opset_import: ["" : 24], metadata_props: ["essmc.batch": "B"]>
g (float[B,2] x, float[1,B,2] s) => (float[B,2] y, float[1,B,2] next) <int64[1] zero = {0}, float half = {0.5}> {
	h = Mul (s, half)
	u = Unsqueeze (x, zero)
	next = Add (h, u)
	y = Squeeze (next, zero)
}`

// TestGraph checks that a program's own graph is opened like a file, and does not change.
func TestGraph(t *testing.T) {
	g := parse(t, follower)
	before := irtext.String(g)
	o := open.Options{Shapes: []string{"B=1"}, Carry: map[string]string{"s": "next"}}
	m, err := open.Graph(g, "follower", o)
	must(t, err)
	if m.Kind != open.Memory || m.Dims["B"] != 1 {
		t.Errorf("opened as %v with %v", m.Kind, m.Dims)
	}
	model, err := m.Compile(runtime.Options{})
	must(t, err)
	defer model.Close()
	s, err := model.NewStream(1)
	must(t, err)
	for _, want := range []float32{1, 1.5, 1.75} {
		out := data{}
		must(t, s.Step(t.Context(), data{"x": tensor.FromSlice([]float32{1, 0}, 1, 2)}, out))
		if y := tensor.Data[float32](out["y"].(*tensor.Tensor)); y[0] != want {
			t.Errorf("found %v, expected %v", y, want)
		}
	}
	if after := irtext.String(g); after != before {
		t.Errorf("the program's graph became\n%s", after)
	}
	if _, err := open.Graph(nil, "none", open.Options{}); err == nil ||
		!strings.Contains(err.Error(), "none: no graph") {
		t.Errorf("without a graph: %v", err)
	}
	bad := g.Clone()
	bad.Nodes = bad.Nodes[1:]
	if _, err := open.Graph(bad, "bad", open.Options{}); err == nil || !strings.HasPrefix(err.Error(), "bad: ") {
		t.Errorf("a graph that is none: %v", err)
	}
}

// TestCarry checks that every form carries state, including plans that were compiled without.
func TestCarry(t *testing.T) {
	g := parse(t, follower)
	var compiled bytes.Buffer
	must(t, plan.Write(&compiled, g))
	for _, b := range [][]byte{[]byte(follower), onnxFile(t, g), compiled.Bytes()} {
		m, err := open.Bytes(b, "m", open.Options{Carry: map[string]string{"s": "next"}})
		must(t, err)
		if got := graph(t, m).Meta[ir.MetaCarry]; got != `{"s":"next"}` {
			t.Errorf("%v: the graph says %q", m.Kind, got)
		}
		model, err := m.Compile(runtime.Options{})
		must(t, err)
		s, err := model.NewStream(1)
		must(t, err)
		if len(s.Inputs()) != 1 {
			t.Errorf("%v: the stream takes %v", m.Kind, s.Inputs())
		}
		model.Close()
	}
}

// TestRate checks that Rate multiplies the step sizes of a directory.
func TestRate(t *testing.T) {
	dir := small(t)
	plain, err := open.Load(dir, open.Options{Rate: 1})
	must(t, err)
	twice, err := open.Load(dir, open.Options{Rate: 2})
	must(t, err)
	if twice.Meta()[ir.MetaRate] != "2" || plain.Meta()[ir.MetaRate] != "" {
		t.Errorf("rates are %q and %q", plain.Meta()[ir.MetaRate], twice.Meta()[ir.MetaRate])
	}
	if near(run(t, plain), run(t, twice), 1e-6) {
		t.Error("the rate changes nothing")
	}
}

// TestShapes checks that Shapes fix dimensions before the passes.
func TestShapes(t *testing.T) {
	dir := small(t)
	m := file(t, dir, open.Options{Shapes: []string{"input=1,T,_"}})
	source, err := m.Source()
	must(t, err)
	if got := source.Input("input").Type.String(); got != "float[1,T,2]" {
		t.Errorf("the input is %s", got)
	}
	if got := graph(t, m).Outputs[0].Type.String(); got != "float[1,3]" || m.Dims["B"] != 1 {
		t.Errorf("the output is %s, dimensions %v", got, m.Dims)
	}
	p := filepath.Join(t.TempDir(), "plan")
	must(t, plan.WriteFile(p, graph(t, file(t, dir, open.Options{}))))
	m = file(t, p, open.Options{Shapes: []string{"L=7"}})
	if got := graph(t, m).Input("input").Type.String(); got != "float[B,L,2]" || m.Dims["L"] != 7 {
		t.Errorf("the plan's input is %s, dimensions %v", got, m.Dims)
	}
}

func TestOptionErrors(t *testing.T) {
	dir, text := small(t), []byte(follower)
	p := filepath.Join(t.TempDir(), "plan")
	must(t, plan.WriteFile(p, graph(t, file(t, dir, open.Options{}))))
	for _, c := range []struct {
		o    open.Options
		path string // "" for text
		want string
	}{
		{open.Options{Shapes: []string{"x=1"}}, "",
			"text: option Shapes: x=1: input x has 2 dimensions, [B,2], found 1"},
		{open.Options{Shapes: []string{"Q=1"}}, "",
			"text: option Shapes: Q=1: the model has neither an input nor a dimension Q; inputs: x, s; dimensions: B"},
		{open.Options{Shapes: []string{"x"}}, "",
			`text: option Shapes: expected NAME=DIM,…, as in L=1024 or input=1,L,64; found "x"`},
		{open.Options{Shapes: []string{"x=-1,2"}}, "",
			`text: option Shapes: x=-1,2: dimension 0 is "-1": expected a number`},
		{open.Options{Shapes: []string{"L=7", "L=8"}}, p, "plan: option Shapes: L=8: L is 7 elsewhere, found 8"},
		{open.Options{Carry: map[string]string{"s": "z"}}, "",
			`text: option Carry: the model has no output "z" that could be passed to input "s"`},
		{open.Options{Rate: 2}, "",
			"text: option Rate: only a model directory has step sizes to multiply, found IR text"},
		{open.Options{Skip: []string{"fold", "integer"}}, "", "text: option Skip: integer: no such pass; there are "},
		{open.Options{Skip: []string{"fold"}}, p, "plan: option Skip: fold: the passes of a plan have run"},
		{open.Options{Rate: 2}, p, "plan: option Rate: a plan keeps the rate that it was made with"},
		{open.Options{Rate: -1}, dir, "model: option Rate: expected a number above 0, found -1"},
		{open.Options{Rate: math.NaN()}, dir, "model: option Rate: expected a number above 0, found NaN"},
		{open.Options{Rate: math.Inf(1)}, dir, "model: option Rate: expected a number above 0, found +Inf"},
	} {
		m, err := open.Bytes(text, "text", c.o)
		if c.path != "" {
			m, err = open.File(c.path, c.o)
		}
		var o *open.OptionError
		if m != nil || !errors.As(err, &o) || !errors.Is(err, runtime.ErrOption) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v, expected %s", err, c.want)
		}
	}
	// For a plan, Carry is checked when the plan is read.
	m := file(t, p, open.Options{Carry: map[string]string{"s": "z"}})
	if _, err := m.Compile(runtime.Options{}); !errors.Is(err, runtime.ErrOption) {
		t.Errorf("a plan with a state that it does not have: %v", err)
	}
	if _, err := m.Graph(); !errors.Is(err, runtime.ErrOption) {
		t.Errorf("the graph of a plan with a state that it does not have: %v", err)
	}
	if _, err := open.Load(dir, open.Options{Run: runtime.Options{Threads: -1}}); !errors.Is(err, runtime.ErrOption) {
		t.Errorf("threads: %v", err)
	}
}

// TestLimits checks the limits of every form.
func TestLimits(t *testing.T) {
	paths, whole := stored(t)
	for kind, path := range paths {
		for name, l := range map[string]open.Limits{"bytes": {Bytes: 100}, "nodes": {Nodes: 1}} {
			if kind == open.Directory && name == "nodes" {
				continue // bounded by its configuration
			}
			m, err := open.File(path, open.Options{Limits: l})
			if err == nil {
				_, err = m.Compile(runtime.Options{}) // reads the plan
			}
			if err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("%v, %s: %v", kind, name, err)
			}
			b, ok := whole[kind]
			if !ok {
				continue
			}
			if m, err = open.Bytes(b, "memory", open.Options{Limits: l}); err == nil {
				_, err = m.Graph()
			}
			if err == nil || !strings.Contains(err.Error(), "memory") {
				t.Errorf("%v in memory, %s: %v", kind, name, err)
			}
		}
		loose := open.Limits{Bytes: 1 << 20, Nodes: 10_000, Depth: 8, Memory: 1 << 20}
		if _, err := open.Load(path, open.Options{Limits: loose}); err != nil {
			t.Errorf("%v within the limits: %v", kind, err)
		}
	}
	text := whole[open.Text]
	if _, err := open.Reader(bytes.NewReader(text), "r",
		open.Options{Limits: open.Limits{Bytes: int64(len(text))}}); err != nil {
		t.Errorf("a text as long as the limit: %v", err)
	}
	_, err := open.Reader(bytes.NewReader(text), "r", open.Options{Limits: open.Limits{Bytes: int64(len(text)) - 1}})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("r: more than %d bytes", len(text)-1)) {
		t.Errorf("a text that is one byte too long: %v", err)
	}
	if _, err := open.Reader(io.MultiReader(bytes.NewReader(text[:5]), broken{}), "r", open.Options{}); err == nil ||
		err.Error() != "r: broken" {
		t.Errorf("a reader that fails: %v", err)
	}
}

// TestPorts checks the limit of inputs and outputs for every form that states them.
func TestPorts(t *testing.T) {
	const text = `<ir_version: 10, opset_import: ["" : 22]> g (float[N] x, float[N] z) => (y, c) {
		[wide] s = Sum (x, z, x)
		[parts] a, b, c, d = Split <axis = 0, num_outputs = 4> (s)
		y = Add (a, b)
	}`
	g, err := irtext.Parse([]byte(text), "m", ops.Default, irtext.Options{})
	must(t, err)
	var standard, stored bytes.Buffer
	must(t, onnx.Write(&standard, g, onnx.WriteOptions{}))
	must(t, plan.Write(&stored, g))
	for kind, b := range map[open.Kind][]byte{open.Text: []byte(text), open.ONNX: standard.Bytes(), open.Plan: stored.Bytes()} {
		for ports, want := range map[int][]string{
			2: {`"wide"`, "Sum", "at most 2 inputs, found 3"},
			3: {`"parts"`, "Split", "at most 3 outputs, found 4"},
			4: nil,
		} {
			m, err := open.Bytes(b, "m", open.Options{Limits: open.Limits{Ports: ports}})
			if err == nil {
				_, err = m.Compile(runtime.Options{}) // reads the plan
			}
			if want == nil {
				must(t, err)
			}
			for _, w := range want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("%v: expected %s, found %v", kind, w, err)
				}
			}
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestContext checks that a context ends opening before the file is read, and before each pass.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ran := 0
	m, err := open.Bytes([]byte(follower), "m", open.Options{Context: ctx, Observe: func(s passes.Snapshot) {
		if ran++; s.Index == 1 {
			cancel(errors.New("enough"))
		}
	}})
	must(t, err)
	if _, err := m.Graph(); err == nil || !strings.Contains(err.Error(), "m: before pass 3 ") ||
		!strings.HasSuffix(err.Error(), "enough") || ran != 3 {
		t.Errorf("%v, after %d passes", err, ran)
	}
	if _, err := open.Bytes([]byte(follower), "m", open.Options{Context: ctx}); err == nil ||
		err.Error() != "m: enough" {
		t.Errorf("before it is read: %v", err)
	}
	if _, err := open.File(small(t), open.Options{Context: ctx}); err == nil ||
		!strings.HasSuffix(err.Error(), "enough") {
		t.Errorf("before a directory is read: %v", err)
	}
}

// TestOnce checks that the passes run once, however often the graph is used.
func TestOnce(t *testing.T) {
	var seen []string
	m, err := open.Bytes([]byte(follower), "m", open.Options{Observe: func(s passes.Snapshot) {
		if s.Pass != nil {
			seen = append(seen, s.Pass.Name)
		}
	}})
	must(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			model, err := m.Compile(runtime.Options{Threads: 1})
			if err != nil {
				t.Error(err)
				return
			}
			model.Close()
		})
	}
	wg.Wait()
	var want []string
	for _, p := range open.Pipeline() {
		want = append(want, p.Name)
	}
	if !slices.Equal(seen, want) {
		t.Errorf("passes %v, expected %v", seen, want)
	}
}

// TestLogger checks that warnings of passes go to the logger.
func TestLogger(t *testing.T) {
	var log bytes.Buffer
	o := open.Options{Run: runtime.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	o.Observe = func(s passes.Snapshot) {
		if s.Pass != nil && s.Pass.Name == "fold" {
			s.Graph.History = append(s.Graph.History, ir.Event{Pass: "fold", Notes: []string{"warning: it is late"}})
		}
	}
	path := filepath.Join(t.TempDir(), "m")
	must(t, os.WriteFile(path, []byte(follower), 0o666))
	m, err := open.Load(path, o)
	must(t, err)
	m.Close()
	if !strings.Contains(log.String(), `msg="it is late" model=`) {
		t.Errorf("the log is %q", log.String())
	}
}

// TestPanic checks that a panic becomes an error that names the model.
func TestPanic(t *testing.T) {
	m, err := open.Bytes([]byte(follower), "m", open.Options{Observe: func(passes.Snapshot) { panic("oh") }})
	must(t, err)
	if _, err := m.Graph(); !errors.Is(err, runtime.ErrInternal) || !strings.HasPrefix(err.Error(), "m: ") {
		t.Errorf("found %v", err)
	}
}

// TestUnsupported checks that the description of an ONNX file is returned even if its graph cannot be built.
func TestUnsupported(t *testing.T) {
	b := onnxFile(t, parse(t, follower))
	b = bytes.ReplaceAll(b, []byte("Unsqueeze"), []byte("Frobnicat"))
	m, err := open.Bytes(b, "m", open.Options{})
	var u *onnx.UnsupportedError
	if !errors.As(err, &u) || m == nil || m.Info == nil || m.Kind != open.ONNX {
		t.Fatalf("found %v, %v", m, err)
	}
	for _, f := range []func() error{
		func() error { _, err := m.Source(); return err },
		func() error { _, err := m.Graph(); return err },
		func() error { _, err := m.Compile(runtime.Options{}); return err },
		func() error { _, err := m.CompileSource(runtime.Options{}); return err },
	} {
		if got := f(); !errors.Is(got, err) {
			t.Errorf("found %v, expected %v", got, err)
		}
	}
	if m.Warnings() != nil {
		t.Errorf("warnings %v", m.Warnings())
	}
}

func TestMust(t *testing.T) {
	if got := open.Must(3, nil); got != 3 {
		t.Errorf("found %d", got)
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("panicked with %v", err)
		}
	}()
	open.Must(open.Load(filepath.Join(t.TempDir(), "nowhere"), open.Options{}))
}
