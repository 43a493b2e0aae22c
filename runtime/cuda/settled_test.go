package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/ref"
)

// parameterized returns a graph of one node, in which the weights of a sample are parameters: its constants of floats or,
// if it has none, its float inputs after the first. The others are constants and inputs as in the sample. It returns nil
// if there are no weights.
func parameterized(t *testing.T, op *ir.Op, s opstest.Sample) (*ir.Graph, map[string]tensor.Datum) {
	t.Helper()
	float := func(i int) bool {
		x, ok := s.In[i].(*tensor.Tensor)
		return ok && x.DType().IsFloat() && x.Len() > 0
	}
	weight := func(i int) bool { return i > 0 && float(i) }
	if slices.ContainsFunc(s.Consts, float) {
		weight = func(i int) bool { return slices.Contains(s.Consts, i) && float(i) }
	}
	b, in := ir.NewBuilder("sample", ops.Default, ops.Opsets()), map[string]tensor.Datum{}
	var values []*ir.Value
	any := false
	for i, d := range s.In {
		name := fmt.Sprintf("in%d", i)
		switch x, ok := d.(*tensor.Tensor); {
		case d == nil:
			values = append(values, nil)
		case weight(i):
			values, any = append(values, b.Parameter(name, x)), true
		case ok && slices.Contains(s.Consts, i):
			values = append(values, b.Const(name, x))
		default:
			values = append(values, b.Input(name, opstest.TypeOf(d, func(_, size int) ir.Dim { return ir.Const(int64(size)) })))
			in[name] = d
		}
	}
	for i, v := range b.Apply(op, s.Outs, values, ir.NewAttrs(s.Attrs...)) {
		if v != nil && !slices.Contains(s.Absent, i) {
			b.Output(fmt.Sprintf("out%d", i), v)
		}
	}
	g, err := b.Build()
	if err != nil || !any || len(in) == 0 {
		return nil, nil
	}
	return g, in
}

// scaled returns the parameters of g times numbers from 0.6 to 1, so that systems stay stable and variances positive.
func scaled(t *testing.T, g *ir.Graph, seed uint64) map[string]tensor.Datum {
	t.Helper()
	r, all := rand.New(rand.NewPCG(seed, 7)), map[string]tensor.Datum{}
	for _, p := range g.Parameters {
		x, err := p.Init.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		for i := range x {
			x[i] *= 0.6 + 0.4*r.Float64()
		}
		if all[p.Name], err = tensor.FromFloat64s(p.Init.DType(), x, p.Init.Shape()...); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// replaces replaces the parameters of g several times. The answers are bit by bit those of a program that is compiled with
// the content, and to the operator's tolerance those of the interpreter. It returns an error for a graph that is refused.
func replaces(t *testing.T, back runtime.Backend, g *ir.Graph, in map[string]tensor.Datum, o runtime.Options) error {
	t.Helper()
	ctx := context.Background()
	o.Backend = back
	m, err := runtime.New(g, o)
	if err != nil {
		return err
	}
	defer m.Close()
	session := m.NewSession()
	var got map[string]tensor.Datum
	var content map[string]tensor.Datum
	for round := range 4 { // the third one and the fourth are written to memory that an executable has used
		content = scaled(t, g, uint64(round))
		if err := m.Set().Replace(ctx, content); err != nil {
			t.Fatal(err)
		}
		if got, err = session.Run(ctx, in); err != nil {
			return err
		}
	}
	fresh := backendtest.WithContent(g, content)
	want := outputsOf(t, fresh, o, in)
	for name, d := range want {
		if !bytes.Equal(d.(*tensor.Tensor).Bytes(), got[name].(*tensor.Tensor).Bytes()) {
			t.Errorf("output %s differs from that of a program that is compiled with the content", name)
		}
	}
	truth := outputsOf(t, fresh, runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, in)
	n := fresh.Nodes[len(fresh.Nodes)-1]
	operands := make([]tensor.Datum, len(n.Inputs))
	for i, v := range n.Inputs {
		switch {
		case v == nil:
		case v.Const != nil:
			operands[i] = v.Const
		case v.Init != nil:
			operands[i] = v.Init
		default:
			operands[i] = in[v.Name]
		}
	}
	for _, v := range fresh.Outputs {
		if len(n.Subgraphs()) > 0 || len(fresh.Nodes) > 1 { // the tolerance is that of the body, or of all nodes
			if d := backendtest.Diff(got[v.Name], truth[v.Name], ir.Summing); d != "" {
				t.Errorf("%s: %s", n, d)
			}
			continue
		}
		if d := backendtest.DiffNode(n, operands, slices.Index(n.Outputs, v), got[v.Name], truth[v.Name]); d != "" {
			t.Errorf("%s: %s", n, d)
		}
	}
	return nil
}

// outputsOf runs a model once.
func outputsOf(t *testing.T, g *ir.Graph, o runtime.Options, in map[string]tensor.Datum) map[string]tensor.Datum {
	t.Helper()
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The weights of each operator may be parameters.
func TestSettled(t *testing.T) {
	hurry(t)
	back := emulated(t, cuda.Options{})()
	computed := map[string]int{}
	for _, op := range ops.Default.All() {
		if !ops.Newest(op) || op.Random {
			continue
		}
		left := 2
		for i, s := range samples.Of(op) {
			if left == 0 {
				break
			}
			g, in := parameterized(t, op, s)
			if g == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", op.FullName(), i), func(t *testing.T) {
				if err := replaces(t, back, g, in, runtime.Options{}); err != nil {
					t.Skip(err)
				}
				computed[op.FullName()]++
				left--
			})
		}
	}
	backendtest.Seeded(t, 4, func(c backendtest.Case) bool {
		if c.Suite != "ops" || len(c.Graph.Nodes) != 1 || c.Graph.Nodes[0].Op.Domain != "essm" {
			return false
		}
		g, name := backendtest.Parameterized(c.Graph), c.Graph.Nodes[0].Op.FullName()
		if len(g.Parameters) == 0 {
			return false
		}
		forms := []string{""}
		if slices.Contains(withForms, name) {
			forms = runtime.Kernels()
		}
		for _, form := range forms {
			t.Run(c.Name+"/"+form, func(t *testing.T) {
				if err := replaces(t, back, g, c.In[0], runtime.Options{Kernel: form}); err != nil {
					t.Skip(err)
				}
				computed[name]++
			})
		}
		return true
	})
	graphs := systems(t)
	for _, name := range slices.Sorted(maps.Keys(graphs)) {
		g, in := graphs[name], map[string]tensor.Datum{"u": opstest.Normal(2, 70, 8)}
		for _, form := range []string{"scan", "fft", "direct"} {
			t.Run(name+"/"+form, func(t *testing.T) {
				if err := replaces(t, back, g, in, runtime.Options{Kernel: form}); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	for _, name := range settledOps {
		if computed[name] == 0 {
			t.Errorf("%s: nothing computed with parameters", name)
		}
	}
	t.Log(len(computed), computed)
}

// systems returns graphs of diagonal systems over parameters: a scan, systems of heads with one input and with several, and
// a layer around one.
func systems(t *testing.T) map[string]*ir.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 9))
	all := map[string]*ir.Graph{}
	graph := func(name string, build func(b *ir.Builder, u *ir.Value, p func(lo, hi float64, shape ...int) *ir.Value) *ir.Value) {
		b := ir.NewBuilder(name, ops.Default, ops.Opsets())
		u := b.Input("u", ir.Tensor(tensor.Float32, "B", "L", 8))
		y := build(b, u, func(lo, hi float64, shape ...int) *ir.Value {
			x := tensor.New(tensor.Float64, shape...)
			for i := range tensor.Data[float64](x) {
				tensor.Data[float64](x)[i] = lo + (hi-lo)*r.Float64()
			}
			return b.Parameter(fmt.Sprintf("p%d", len(b.Graph().Parameters)), x)
		})
		b.Output("y", y)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = g
	}
	type numbers = func(lo, hi float64, shape ...int) *ir.Value
	// system has 8/h heads of h inputs and n states.
	system := func(b *ir.Builder, u *ir.Value, p numbers, h, n int) *ir.Value {
		s := 8 / h
		return b.Op("essm", "SSM", []*ir.Value{u, p(-1, -0.1, 1, s, n), p(-2, 2, 1, s, n), p(0, 1, 1, s, n), p(0, 1, 1, s, n),
			p(-1, 1, 1, s, n, h), p(-1, 1, 1, s, h, n), nil, nil, p(-1, 1, 1, s, h)})
	}
	graph("scan", func(b *ir.Builder, u *ir.Value, p numbers) *ir.Value {
		return b.Op("essm", "Scan", []*ir.Value{u, p(-1, -0.1, 1, 2, 4), p(-2, 2, 1, 2, 4), p(0, 1, 1, 2, 4), p(0, 1, 1, 2, 4)})
	})
	graph("heads of one", func(b *ir.Builder, u *ir.Value, p numbers) *ir.Value { return system(b, u, p, 1, 3) })
	graph("heads of four", func(b *ir.Builder, u *ir.Value, p numbers) *ir.Value { return system(b, u, p, 4, 5) })
	graph("layer", func(b *ir.Builder, u *ir.Value, p numbers) *ir.Value {
		x := b.Op("essm", "Affine", []*ir.Value{u, p(0.5, 1, 8), p(-1, 1, 8)})
		y := b.Op("essm", "Linear", []*ir.Value{system(b, x, p, 4, 5), p(-0.5, 0.5, 8, 8), p(-1, 1, 8)})
		k := b.Parameter("scalar", tensor.Scalar(float32(0.5)))
		return b.Op("", "Add", []*ir.Value{b.Op("", "Mul", []*ir.Value{y, k}), u})
	})
	graph("low rank", func(b *ir.Builder, u *ir.Value, p numbers) *ir.Value {
		return b.Op("essm", "DPLRScan", []*ir.Value{u, p(0, 0.6, 8, 3), p(-0.4, 0.4, 8, 3), p(0, 0.1, 8, 1, 3), p(0, 0.1, 8, 1, 3),
			p(0, 0.1, 8, 1, 3), p(0, 0.1, 8, 1, 3), p(0, 1, 8, 3), p(0, 1, 8, 3), p(0, 1, 8, 3), p(0, 1, 8, 3)})
	})
	return all
}

// A content with which a system is unstable has another form than one with which it is stable.
func TestSettledForms(t *testing.T) {
	hurry(t)
	ctx, g := context.Background(), systems(t)["heads of one"]
	o := runtime.Options{Backend: emulated(t, cuda.Options{})(), Kernel: "fft"}
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	session, in := m.NewSession(), map[string]tensor.Datum{"u": opstest.Normal(1, 40, 8)}
	for round, stable := range []bool{true, true, false, false, true} {
		content := scaled(t, g, uint64(round))
		if !stable {
			tensor.Data[float64](content["p0"].(*tensor.Tensor))[3] = 0.01
		}
		if err := m.Set().Replace(ctx, content); err != nil {
			t.Fatal(err)
		}
		got, err := session.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		want := outputsOf(t, backendtest.WithContent(g, content), o, in)
		if !tensor.Equal(got["y"].(*tensor.Tensor), want["y"].(*tensor.Tensor)) {
			t.Errorf("round %d, stable %v: the answer differs from that of a program that is compiled with the content", round, stable)
		}
	}
}

// withForms are operators that are computed in several forms.
var withForms = []string{"essm.SSM", "essm.DPLRScan", "essm.DenseScan", "essm.LongConv"}

// settledOps are operators whose records take constants, and hence settled values.
var settledOps = []string{"essm.Linear", "essm.HeadLinear", "essm.HeadScale", "essm.Affine", "essm.ScalarNorm",
	"essm.DenseScan", "essm.LongConv", "essm.SoftmaxConv", "essm.MatrixConv",
	"essm.ContinuousConv", "essm.SelectiveScan", "essm.Embedding", "Conv", "MatMul", "Gemm", "LSTM", "GRU", "RNN",
	"LayerNormalization", "RMSNormalization", "QLinearMatMul"}

// The memory of a version on the device is that of its constants, and is given back when the last set leaves it.
func TestSettledFreed(t *testing.T) {
	ctx, g := context.Background(), systems(t)["layer"]
	d := emu.New(emu.Options{})
	m, err := runtime.New(g, runtime.Options{Backend: cuda.Kept(backend(t, d, cuda.Options{}), 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := map[string]tensor.Datum{"u": opstest.Normal(1, 20, 8)}
	run := func(s *runtime.Session) {
		t.Helper()
		if _, err := s.Run(ctx, in); err != nil {
			t.Fatal(err)
		}
	}
	run(m.NewSession())
	start := d.Held(0)
	set, session := m.NewSet(), m.NewSession()
	if err := session.Use(set); err != nil {
		t.Fatal(err)
	}
	var held []uint64
	for round := range 6 {
		if err := set.Replace(ctx, scaled(t, g, uint64(round))); err != nil {
			t.Fatal(err)
		}
		run(session)
		held = append(held, d.Held(0))
	}
	if held[0] <= start || held[len(held)-1] != held[1] {
		t.Errorf("%d bytes before, and after each replacement: %d; expected those of two versions from the second one on", start, held)
	}
	if err := errors.Join(session.Close(), set.Close()); err != nil {
		t.Fatal(err)
	}
	if now := d.Held(0); now != start {
		t.Errorf("%d bytes are held after the set is closed, and %d before it", now, start)
	}
}
