package cuda_test

import (
	"context"
	"fmt"
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
	if err != nil || len(all) < 2 || all[0].Form != "program" ||
		!strings.Contains(all[0].Why, "copied to the host: Double (24 bytes)") {
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

// counted is the work of a stream: launches, and copies to the device, to the host, and on the device.
type counted struct{ launches, in, out, on int }

func (n *null) counted() counted {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := counted{n.done["Launch"], n.done["CopyToDevice"], n.done["CopyToHost"], n.done["CopyOnDevice"]}
	clear(n.done)
	return c
}

// carrying returns a loop over test operators as text, "k = Sum h a; …", in which h and g are carried: from x and z, as the
// first two values of next. The others are scan outputs. a is Double x, of the graph around it.
func carrying(t *testing.T, text string, next ...string) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("carrying", ops.Default, map[string]int{"test": 1, "": ops.Opsets()[""]})
	vector := ir.Tensor(tensor.Float32, "N")
	x, z, m := b.Input("x", vector), b.Input("z", vector), b.Input("m", ir.Tensor(tensor.Int64))
	a := b.Apply(testOps["Double"], 1, []*ir.Value{x}, nil)[0]
	body := b.Sub("body")
	body.Input("t", ir.Tensor(tensor.Int64))
	more := body.Input("more", ir.Tensor(tensor.Bool))
	values := map[string]*ir.Value{"a": a, "h": body.Input("h", vector), "g": body.Input("g", vector)}
	for _, line := range strings.Split(text, ";") {
		f := strings.Fields(line)
		var in []*ir.Value
		for _, name := range f[3:] {
			in = append(in, values[name])
		}
		values[f[0]] = body.Apply(testOps[f[2]], 1, in, nil)[0]
	}
	body.Output("again", body.Op("", "Identity", []*ir.Value{more}))
	for _, name := range next {
		body.Output("", values[name])
	}
	for i, v := range b.Ops("", "Loop", len(next), []*ir.Value{m, nil, x, z}, ir.A("body", body.Graph())) {
		b.Output(fmt.Sprint("y", i), v)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Values that a loop carries stay on the device from one iteration to the next, and those that it captures; others cross.
func TestCarried(t *testing.T) {
	for _, test := range []struct {
		name, text string
		next       []string
		each       counted // of an iteration behind the first
		more       counted // of the first, of the loop's end, and of the graph around it, beside that
	}{
		// a goes to the host once; x, z and a to the device; h and g to the host
		{"both", "k = Sum h a; j = Sum g k", []string{"k", "j"}, counted{2, 0, 0, 2}, counted{1, 4, 3, -2}},
		{"with a scan output", "k = Sum h a; j = Sum g k; s = Double j", []string{"k", "j", "s"}, counted{3, 0, 1, 2},
			counted{1, 4, 3, -2}},
		{"a value twice", "k = Sum h a; j = Sum g k", []string{"k", "j", "k"}, counted{2, 0, 1, 2}, counted{1, 4, 3, -2}},
		{"a value for both", "k = Sum h a; j = Sum g k", []string{"j", "j"}, counted{2, 0, 1, 2}, counted{1, 4, 3, -2}},
		{"views", "k = Sum h a; v = Same k; j = Sum g v", []string{"v", "j"}, counted{2, 0, 0, 2}, counted{1, 4, 3, -2}},
		{"views of inputs", "v = Same h; w = Same g; s = Sum h a", []string{"w", "v", "s"}, counted{1, 2, 3, 0},
			counted{1, 2, 1, 0}},
		{"on the host", "k = None h; j = Sum g k", []string{"k", "j"}, counted{1, 1, 0, 1}, counted{1, 2, 1, -1}},
		{"read by the host", "k = Sum h a; l = None k; j = Sum g l", []string{"k", "j"}, counted{2, 2, 1, 1},
			counted{1, 3, 2, -1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := carrying(t, test.text, test.next...)
			n := tested()
			m := load(t, n, cuda.Options{Fallback: "cpu"}, g, runtime.Options{})
			s := m.NewSession()
			for round, trips := range []int{3, 0, 1, 2, 7, 4} {
				in := data{"x": numbers(6, float32(round)), "z": numbers(6, 100), "m": tensor.Scalar(int64(trips))}
				n.counted()
				got, err := s.Run(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				if want := answers(t, g, in); !equal(got, want) {
					t.Fatalf("%d iterations: found %v, expected %v", trips, got, want)
				}
				e, c := test.each, test.more
				want := counted{c.launches + trips*e.launches, c.in + trips*e.in, c.out + trips*e.out, c.on + trips*e.on}
				if k := n.counted(); round > 0 && trips > 0 && k != want {
					t.Errorf("%d iterations: %+v, expected %+v", trips, k, want)
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
