package cuda_test

import (
	"context"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
)

// looping is a graph whose values cross for a loop of m iterations, with a branch in it: h = Sum h a, and where the condition
// holds, h = Shift h. Double h is a scan output.
func looping(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("looping", ops.Default, map[string]int{"test": 1, "": ops.Opsets()[""]})
	apply := func(b *ir.Builder, op string, in ...*ir.Value) *ir.Value { return b.Apply(testOps[op], 1, in, nil)[0] }
	vector := ir.Tensor(tensor.Float32, "N")
	x, m := b.Input("x", vector), b.Input("m", ir.Tensor(tensor.Int64))
	z := b.Input("z", ir.Tensor(tensor.Bool))
	a := apply(b, "Double", x)
	body := b.Sub("body")
	body.Input("t", ir.Tensor(tensor.Int64))
	more, h := body.Input("more", ir.Tensor(tensor.Bool)), body.Input("h", vector)
	then, other := body.Sub("then"), body.Sub("else")
	k := apply(body, "Sum", h, a)
	then.Output("k1", apply(then, "Shift", k))
	other.Output("k2", apply(other, "Same", k))
	next := body.Op("", "If", []*ir.Value{z}, ir.A("then_branch", then.Graph()), ir.A("else_branch", other.Graph()))
	scan := apply(body, "Double", next)
	body.Output("again", body.Op("", "Identity", []*ir.Value{more}))
	body.Output("next", next)
	body.Output("scan", scan)
	out := b.Ops("", "Loop", 2, []*ir.Value{m, nil, a}, ir.A("body", body.Graph()))
	b.Output("y", apply(b, "Shift", out[0]))
	b.Output("all", out[1])
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Loops and branches run under the host's control, and their bodies on the device.
func TestControl(t *testing.T) {
	g := looping(t)
	n := tested()
	m := load(t, n, cuda.Options{}, g, runtime.Options{})
	s := m.NewSession()
	for round := range 6 {
		in := data{"x": numbers(6, float32(round)), "m": tensor.Scalar(int64(round)), "z": tensor.Scalar(round%2 == 0)}
		got, err := s.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if want := answers(t, g, in); !equal(got, want) {
			t.Fatalf("%d iterations: found %v, expected %v", round, got, want)
		}
	}
	if n.count("LaunchGraph") == 0 {
		t.Error("bodies are not recorded")
	}
	all, err := m.Explain(map[string]int64{"N": 6})
	if err != nil || len(all) < 2 || all[0].Form != "program" || !strings.Contains(all[0].Why, "copied to the host: Double (24 bytes)") {
		t.Errorf("found %+v, %v", all, err)
	}
	if _, err := m.Lowered(map[string]int64{"N": 6}); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if l := n.leaks(); l != nil {
		t.Errorf("not given back: %v", l)
	}
}
