package grad_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/grad"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// parse reads a graph.
func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := irtext.Parse([]byte(text), "g", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// value finds a value of a graph by its name.
func value(t *testing.T, g *ir.Graph, name string) *ir.Value {
	t.Helper()
	for _, v := range g.Inputs {
		if v.Name == name {
			return v
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v != nil && v.Name == name {
				return v
			}
		}
	}
	t.Fatalf("no value %s", name)
	return nil
}

const fanOut = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,3] x, float[3] w, float[2] other) => (float loss) {
	a = Mul (x, w)
	b = Tanh (a)
	c = Add (a, b)
	d = Mul (c, b)
	loss = ReduceSum <keepdims = 0> (d)
}`

// TestFanOut adds up the gradients of a value with several readers, and sums over what was broadcast. A value on
// which the loss does not depend has the gradient zero. The graph is IR like any other: it prints, is read again,
// optimised and run.
func TestFanOut(t *testing.T) {
	g := parse(t, fanOut)
	wrt := []*ir.Value{value(t, g, "x"), value(t, g, "w"), value(t, g, "other"), value(t, g, "a"), value(t, g, "loss")}
	grads, err := grad.Of(context.Background(), g, value(t, g, "loss"), wrt)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = append(g.Outputs, grads...)
	var text bytes.Buffer
	if err := irtext.Print(&text, g, irtext.Options{}); err != nil {
		t.Fatal(err)
	}
	again := parse(t, text.String())
	x, w := []float32{0.5, -1, 2, 0.25, 1, -0.5}, []float32{1, 0.5, -0.75}
	want := map[string][]float64{"x.grad": make([]float64, 6), "w.grad": make([]float64, 3), "other.grad": {0, 0},
		"a.grad": make([]float64, 6), "loss.grad": {1}}
	for i := range x {
		a := float64(x[i]) * float64(w[i%3])
		b := math.Tanh(a)
		slope := b + (1-b*b)*(a+2*b) // of (a + b)·b
		want["a.grad"][i] = slope
		want["x.grad"][i] = slope * float64(w[i%3])
		want["w.grad"][i%3] += slope * float64(x[i])
	}
	in := map[string]tensor.Datum{"x": tensor.FromSlice(x, 2, 3), "w": tensor.FromSlice(w, 3),
		"other": tensor.FromSlice([]float32{1, 2}, 2)}
	check := func(g *ir.Graph, o runtime.Options, tolerance float64) {
		t.Helper()
		m, err := runtime.New(g, o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		out, err := m.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for name, list := range want {
			got, err := out[name].(*tensor.Tensor).Float64s()
			if err != nil || len(got) != len(list) {
				t.Fatalf("%s: expected %v, found %v, %v", name, list, got, err)
			}
			for i := range list {
				if !(math.Abs(got[i]-list[i]) <= tolerance) {
					t.Errorf("%s: expected %v, found %v", name, list, got)
					break
				}
			}
		}
	}
	wide := runtime.Options{Backend: ref.New(), Precision: tensor.Float64}
	check(g, wide, 1e-12)
	check(again, wide, 1e-12)
	check(g, runtime.Options{Backend: cpu.New()}, 1e-5)
	if err := passes.Run(g, passes.Pipeline(), passes.Options{}); err != nil {
		t.Fatal(err)
	}
	check(g, wide, 1e-12)
	check(g, runtime.Options{Backend: cpu.New()}, 1e-5)
}

// TestRefuses checks messages: they name node, operator and reason, or the value.
func TestRefuses(t *testing.T) {
	head := `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[2,2] x, int64[2] k, bool c) => (float loss) { `
	for _, c := range []struct{ nodes, wrt, want string }{
		{"d = Det (x) loss = Squeeze (d)", "x", "operator Det has no gradient: it is not differentiated yet"},
		{"d = If <then_branch = a () => (float[2,2] y) { y = Neg (x) }, else_branch = b () => (float[2,2] z) { z = Exp (x) }> (c) loss = ReduceSum <keepdims = 0> (d)",
			"x", "operator If has no gradient: it has subgraphs"},
		{"loss = ReduceSum <keepdims = 0> (x)", "k", "value k: expected a tensor of floats, found int64[2]"},
		{"y = Neg (x) loss = ReduceSum <keepdims = 0> (y)", "y x", ""},
		{"i = Cast <to = 7> (x) f = Cast <to = 1> (i) loss = ReduceSum <keepdims = 0> (f)", "x",
			""}, // constant by steps
	} {
		text := head + c.nodes + "}"
		g := parse(t, text)
		var wrt []*ir.Value
		for _, name := range strings.Fields(c.wrt) {
			wrt = append(wrt, value(t, g, name))
		}
		_, err := grad.Of(context.Background(), g, value(t, g, "loss"), wrt)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: expected an error with %q, found %v", c.nodes, c.want, err)
		}
		none := (*ops.NoGradientError)(nil)
		if strings.Contains(c.want, "has no gradient") && !errors.As(err, &none) {
			t.Errorf("%s: expected an *ops.NoGradientError, found %T", c.nodes, err)
		}
	}
	g := parse(t, fanOut)
	if _, err := grad.Of(context.Background(), g, value(t, g, "a"), nil); err == nil || !strings.Contains(err.Error(),
		"one element") {
		t.Errorf("loss of several elements: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g = parse(t, fanOut)
	if _, err := grad.Of(ctx, g, value(t, g, "loss"), []*ir.Value{value(t, g, "x")}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	g = parse(t, strings.Replace(fanOut, `"" : 24`, `"" : 12`, 1))
	if _, err := grad.Of(context.Background(), g, value(t, g, "loss"), []*ir.Value{value(t, g, "x")}); err == nil {
		t.Error("operators of an earlier version are accepted")
	}
}

// TestTrain replaces batch norms, and updates their statistics if they are parameters.
func TestTrain(t *testing.T) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", 2))
	vector := func(name string, v ...float32) *ir.Value { return b.Parameter(name, tensor.FromSlice(v, len(v))) }
	y := b.Op("essm", "BatchNorm", []*ir.Value{x, vector("weight", 1, 2), vector("bias", 0, 1), vector("mean", 0.5,
		0), vector("var", 1, 4)})
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := grad.Train(g, 0.1); n != 1 || err != nil {
		t.Fatalf("%d changes, %v", n, err)
	}
	if err := ir.Verify(g); err != nil {
		t.Fatal(err)
	}
	if len(g.Updates) != 2 || g.Updates[0].Parameter.Name != "mean" || g.Updates[0].Output.Name != "mean.next" {
		t.Errorf("updates: %v", g.Updates)
	}
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := m.Run(context.Background(), map[string]tensor.Datum{"x": tensor.FromSlice([]float32{1, 2, 3, 2, 5, 5},
		3, 2)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"mean.next": {0.75, 0.3}, "var.next": {1.3,
		3.9}} { // means 3, 3; variances 4, 3
		got, err := out[name].(*tensor.Tensor).Float64s()
		if err != nil || math.Abs(got[0]-want[0]) > 1e-6 || math.Abs(got[1]-want[1]) > 1e-6 {
			t.Errorf("%s: expected %v, found %v, %v", name, want, got, err)
		}
	}
}
