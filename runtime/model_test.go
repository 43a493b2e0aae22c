package runtime_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// testOps are operators for these tests alone: they do what the tests need to see.
type testOps map[string]*ir.Op

func (m testOps) Resolve(_, name string, _ int) *ir.Op { return m[name] }

var opset = map[string]int{"test": 1}

func elementwise(name string, eval func(c *ir.EvalCtx, v []float64) error) *ir.Op {
	op := &ir.Op{Domain: "test", Name: name, Since: 1, In: ops.Sig("x:T[...]"), Out: ops.Sig("y:T[...]")}
	op.Infer = signature
	op.Eval = func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		v := ops.F64(nil, in, 0)
		if err := eval(c, v); err != nil {
			return nil, err
		}
		return ops.One(ops.Real(c, c.Node.Inputs[0].Elem(), v, ops.Tensor(in, 0).Shape()...))
	}
	return op
}

func signature(n *ir.Node) ([]ir.Type, error) {
	b, err := ops.Bind(n)
	if err != nil {
		return nil, err
	}
	return b.Outputs(n.Op)
}

// blocker tells that a blocking evaluation has begun, and ends it.
type blocker struct{ began, end chan struct{} }

type blockerKey struct{}

func makeOps() testOps {
	m := testOps{}
	add := func(op *ir.Op) { m[op.Name] = op }
	add(elementwise("Double", func(_ *ir.EvalCtx, v []float64) error {
		for i := range v {
			v[i] *= 2
		}
		return nil
	}))
	add(elementwise("Panic", func(_ *ir.EvalCtx, v []float64) error { v[len(v)] = 1; return nil }))
	add(elementwise("Fail", func(*ir.EvalCtx, []float64) error { return errors.New("does not want to") }))
	add(elementwise("Block", func(c *ir.EvalCtx, _ []float64) error {
		if b, ok := c.Ctx.Value(blockerKey{}).(blocker); ok {
			b.began <- struct{}{}
			<-b.end
		}
		return nil
	}))
	return m
}

func backend() runtime.Backend { return ref.With(makeOps()) }

// chain is a graph that applies unary test operators to x, one after another.
func chain(t testing.TB, x *ir.TensorType, names ...string) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("chain", makeOps(), opset)
	v := b.Input("x", x)
	for _, name := range names {
		v = b.Op("test", name, []*ir.Value{v})
	}
	b.Output("y", v)
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func model(t testing.TB, g *ir.Graph, o runtime.Options) *runtime.Model {
	t.Helper()
	if o.Backend == nil {
		o.Backend = backend()
	}
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

type data = map[string]tensor.Datum

func floats(shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](t) {
		tensor.Data[float32](t)[i] = float32(i) + 0.5
	}
	return t
}

func TestRun(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "B", "L"), "Double", "Double"), runtime.Options{})
	out, err := m.NewSession().Run(context.Background(), data{"x": floats(2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	y := out["y"].(*tensor.Tensor)
	want := tensor.FromSlice([]float32{2, 6, 10, 14, 18, 22}, 2, 3)
	if !tensor.Equal(y, want) {
		t.Errorf("found %s %v", y, tensor.Data[float32](y))
	}
	if in := m.Inputs(); len(in) != 1 || in[0].Name != "x" || in[0].Optional || in[0].Type.String() != "float[B,L]" {
		t.Errorf("inputs are %v", in)
	}
	if o := m.Outputs(); len(o) != 1 || o[0].Name != "y" {
		t.Errorf("outputs are %v", o)
	}
}

// The outputs are the caller's: they share nothing with inputs, constants, each other, or later runs.
func TestOutputsAreFresh(t *testing.T) {
	b := ir.NewBuilder("g", makeOps(), opset)
	x := b.Input("x", ir.Tensor(tensor.Float32, 2))
	y := b.Op("test", "Double", []*ir.Value{x})
	b.Output("y", y)
	g := b.Graph()
	g.Outputs = append(g.Outputs, x, ir.NewConst("c", floats(2)))
	s := model(t, g, runtime.Options{}).NewSession()
	run := func() data {
		out, err := s.Run(context.Background(), data{"x": floats(2)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, d := range run() {
		tensor.Data[float32](d.(*tensor.Tensor))[0] = -1
	}
	for name, d := range run() {
		if tensor.Data[float32](d.(*tensor.Tensor))[0] == -1 {
			t.Errorf("output %s shares storage", name)
		}
	}
}

func TestRunInto(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "B", "L"), "Double"), runtime.Options{})
	s := m.NewSession()
	x, y := floats(1, 4), tensor.New(tensor.Float32, 1, 4)
	if err := s.RunInto(context.Background(), data{"x": x}, data{"y": y}); err != nil {
		t.Fatal(err)
	}
	if got := tensor.Data[float32](y)[3]; got != 7 {
		t.Errorf("found %v", got)
	}
	for _, c := range []struct {
		out  data
		want string
	}{
		{data{"y": x}, `output "y": is also input "x"`},
		{data{"y": floats(1, 5)}, `output "y": expected shape [1,4] to write to, found float32[1,5]`},
		{data{"y": tensor.New(tensor.Float64, 1, 4)}, `output "y": expected a tensor of float32`},
		{data{"z": y}, `output "z": the model has no such output; it has y`},
	} {
		err := s.RunInto(context.Background(), data{"x": x}, c.out)
		if !errors.Is(err, runtime.ErrInput) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
}

func TestOptions(t *testing.T) {
	g := chain(t, ir.Tensor(tensor.Float32, "L"), "Double")
	for _, c := range []struct {
		o    runtime.Options
		want string
	}{
		{runtime.Options{}, "option Backend: is required: runtime.Options{Backend: cpu.New()}, of package runtime/cpu"},
		{runtime.Options{Backend: backend(), Threads: -1}, "option Threads: expected 0 or more, found -1"},
		{runtime.Options{Backend: backend(), Sessions: -1}, "option Sessions: expected 0 to 1048576, found -1"},
		{runtime.Options{Backend: backend(), Kernel: "magic"},
			`option Kernel: expected one of ["auto" "scan" "chunked" "fft" "direct"], found "magic"`},
		{runtime.Options{Backend: backend(), Precision: tensor.Int16},
			"option Precision: expected float32, float64, bfloat16 or int8, found int16"},
		{runtime.Options{Backend: ref.New(), Precision: tensor.Int8},
			"option Precision: the ref backend computes in float32 or float64; the cpu backend offers products in int8"},
		{runtime.Options{Backend: backend(), MaxMemory: -5}, "option MaxMemory: expected 0 or more, found -5"},
	} {
		if _, err := runtime.New(g, c.o); !errors.Is(err, runtime.ErrOption) || err.Error() != c.want {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
	if _, err := runtime.New(nil, runtime.Options{Backend: backend()}); err == nil {
		t.Error("a nil graph is accepted")
	}
}

// A graph that breaks the rules is refused before a backend sees it.
func TestNewVerifies(t *testing.T) {
	g := chain(t, ir.Tensor(tensor.Float32, "L"), "Double", "Double")
	g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0]
	var v *ir.VerifyError
	if _, err := runtime.New(g, runtime.Options{Backend: backend()}); !errors.As(err, &v) {
		t.Errorf("found %v", err)
	}
}

func TestErrorsNameTheNode(t *testing.T) {
	for name, want := range map[string]string{
		"Fail":  "node test.Fail -> y: does not want to",
		"Panic": "node test.Panic -> y: internal error: runtime error: index out of range [3] with length 3",
	} {
		m := model(t, chain(t, ir.Tensor(tensor.Float32, "L"), "Double", name), runtime.Options{})
		_, err := m.NewSession().Run(context.Background(), data{"x": floats(3)})
		var ne *runtime.NodeError
		if err == nil || err.Error() != want || !errors.As(err, &ne) || ne.Node.Op.Name != name {
			t.Errorf("%s: expected %q, found %v", name, want, err)
		}
		if name == "Panic" && !errors.Is(err, runtime.ErrInternal) {
			t.Errorf("%v is not internal", err)
		}
	}
}

func TestCancel(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "L"), "Block", "Double"), runtime.Options{})
	b := blocker{make(chan struct{}), make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), blockerKey{}, b))
	res := make(chan error)
	go func() {
		_, err := m.NewSession().Run(ctx, data{"x": floats(3)})
		res <- err
	}()
	<-b.began
	cancel()
	close(b.end)
	if err := <-res; !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
	if _, err := m.NewSession().Run(ctx, data{"x": floats(3)}); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

// Close waits for the call that runs, refuses those that come later, and may be called again.
func TestClose(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "L"), "Block"), runtime.Options{})
	b := blocker{make(chan struct{}), make(chan struct{})}
	ctx := context.WithValue(context.Background(), blockerKey{}, b)
	ran := make(chan error, 1)
	go func() {
		_, err := m.NewSession().Run(ctx, data{"x": floats(3)})
		ran <- err
	}()
	<-b.began
	closed := make(chan error)
	for range 2 {
		go func() { closed <- m.Close() }()
	}
	s := m.NewSession()
	for { // until one of the calls of Close has begun
		if _, err := s.Run(context.Background(), data{"x": floats(3)}); errors.Is(err, runtime.ErrClosed) {
			break
		}
	}
	select {
	case <-closed:
		t.Fatal("closed while a call was running")
	case <-time.After(10 * time.Millisecond):
	}
	close(b.end)
	if err := <-ran; err != nil {
		t.Errorf("the call that ran: %v", err)
	}
	for range 2 {
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Explain(nil); !errors.Is(err, runtime.ErrClosed) {
		t.Errorf("found %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSessionIsForOne(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "L"), "Block"), runtime.Options{})
	b := blocker{make(chan struct{}), make(chan struct{})}
	s := m.NewSession()
	ran := make(chan error, 1)
	go func() {
		_, err := s.Run(context.WithValue(context.Background(), blockerKey{}, b), data{"x": floats(3)})
		ran <- err
	}()
	<-b.began
	if _, err := s.Run(context.Background(), data{"x": floats(3)}); !errors.Is(err, runtime.ErrBusy) {
		t.Errorf("found %v", err)
	}
	close(b.end)
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

func TestConcurrentSessions(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "B", "L"), "Double", "Double", "Double"), runtime.Options{})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			s := m.NewSession()
			for j := range 8 {
				x := floats(1+i%3, 1+j)
				out, err := s.Run(context.Background(), data{"x": x})
				if err != nil {
					t.Error(err)
					return
				}
				for k, v := range tensor.Data[float32](out["y"].(*tensor.Tensor)) {
					if want := 8 * tensor.Data[float32](x)[k]; v != want {
						t.Errorf("expected %v, found %v", want, v)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestProfile(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "L"), "Double", "Double"), runtime.Options{Profile: true})
	s := m.NewSession()
	for range 3 {
		if _, err := s.Run(context.Background(), data{"x": floats(3)}); err != nil {
			t.Fatal(err)
		}
	}
	p := s.Profile()
	if len(p) != 2 || p[1].Calls != 3 || p[1].Op != "test.Double" {
		t.Errorf("found %+v", p)
	}
}
