package cpu

import (
	"context"
	"fmt"
	"slices"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest/samples"
	"github.com/essmc/essmc/runtime"
)

// TestSettledSamples replaces the parameters of every operator's samples.
func TestSettledSamples(t *testing.T) {
	tried := 0
	for _, op := range ops.Default.All() {
		for i, s := range samples.Of(op) {
			b := ir.NewBuilder("sample", ops.Default, ops.Opsets())
			args, feed := make([]*ir.Value, len(s.In)), map[string]tensor.Datum{}
			for k, d := range s.In {
				x, ok := d.(*tensor.Tensor)
				switch name := fmt.Sprintf("in%d", k); {
				case d == nil:
				case !ok:
					args = nil
				case args == nil:
				case k > 0:
					args[k] = b.Const(name, x)
				default:
					args[k], feed[name] = b.Input(name, ir.Of(x)), x
				}
			}
			if args == nil || !ops.Newest(op) {
				continue
			}
			for k, v := range b.Ops(op.Domain, op.Name, s.Outs, args, s.Attrs...) {
				if !slices.Contains(s.Absent, k) {
					b.Output(fmt.Sprintf("out%d", k), v)
				}
			}
			g, err := b.Build()
			if err != nil {
				continue
			}
			tried++
			on.Parameters(t, fmt.Sprintf("%s, sample %d", op.FullName(), i), g, feed, runtime.Options{})
		}
	}
	if tried < 100 {
		t.Errorf("expected samples of most operators, found %d", tried)
	}
}

// TestSettledChoice checks what follows from content: when a system becomes unstable, its forms are chosen anew, and the
// answers are those of a model that was compiled so.
func TestSettledChoice(t *testing.T) {
	for i, dir := range Directions {
		for _, s := range []system{{batch: 1, length: 300, ch: 1, heads: 3, n: 8, h: 1, m: 1, direction: dir},
			{batch: 1, length: 300, ch: 1, heads: 3, n: 4, h: 2, m: 3, direction: dir}} {
			g, in := s.graph(t, uint64(i))
			p := WithParameters(g)
			stable, grows := Contents(p, false), Contents(p, false)
			for k, v := range p.Parameters {
				if v.Name == "a_re" {
					tensor.Data[float64](grows[k])[1] = 0.01
				}
			}
			o := runtime.Options{Kernel: "fft", Threads: 1}
			answers := func(b Versioned) map[string]tensor.Datum {
				o := o
				o.Backend = b
				return Run(t, p, o, in)
			}
			b := Versioned{Backend: New(), Contents: Contents(p, false), Constants: &runtime.Constants{}}
			first := answers(b)
			for round, now := range [][]*tensor.Tensor{grows, stable, stable} {
				for k, c := range b.Contents {
					c.CopyParts(now[k], func() {})
				}
				before := b.Constants.Choices()
				if err := b.Constants.Settle(context.Background()); err != nil {
					t.Fatal(err)
				}
				if changed := b.Constants.Choices() > before; changed != (round < 2) {
					t.Errorf("%s: round %d: choices have changed: %v", s, round, changed)
				}
				want := answers(Versioned{Backend: New(), Contents: now, Constants: &runtime.Constants{}})
				got := answers(b)
				if !SameNumbers(got["y"].(*tensor.Tensor), want["y"].(*tensor.Tensor)) {
					t.Errorf("%s: round %d: other answers than those of a model compiled with this content", s, round)
				}
				if round > 0 && !SameNumbers(got["y"].(*tensor.Tensor), first["y"].(*tensor.Tensor)) {
					t.Errorf("%s: the former content gives other answers", s)
				}
			}
		}
	}
}

// TestSettledBindings checks that executables leave nothing behind in the cache of a version: after many shapes it has
// what it had after the first.
func TestSettledBindings(t *testing.T) {
	b := ir.NewBuilder("shapes", ops.Default, ops.Opsets())
	r := NewGen(3)
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 9))
	y := b.Op("", "Mul", []*ir.Value{x, b.Const("scale", r.Floats(1))})
	y = b.Op("essm", "LongConv", []*ir.Value{y, b.Const("k", r.Floats(1, 9, 200))}, ir.A("form", "fft"))
	y = b.Op("", "Conv", []*ir.Value{b.Op("", "Transpose", []*ir.Value{y}, ir.A("perm", []int64{0, 2, 1})),
		b.Const("w", r.Floats(1, 5, 9, 3))}, ir.A("pads", []int64{1, 1}))
	b.Output("y", b.Op("", "Add", []*ir.Value{y, b.Const("shift", r.Floats(1))}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := WithParameters(g)
	v := Versioned{Backend: New(), Contents: Contents(p, false), Constants: &runtime.Constants{}}
	m, err := runtime.New(p, runtime.Options{Backend: v})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, first := m.NewSession(), 0
	for length := 100; length < 600; length += 50 {
		for range 2 {
			if _, err := s.Run(context.Background(), map[string]tensor.Datum{"x": r.Floats(1, 1, length, 9)}); err != nil {
				t.Fatal(err)
			}
		}
		if first == 0 {
			first = v.Constants.Kept()
		}
	}
	if n := v.Constants.Kept(); n > first+2 { // another form of a convolution may be packed for long sequences
		t.Errorf("%d functions compute data again after 10 shapes, %d after the first", n, first)
	}
}
