package cpu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// rowCalls is how many row kernels the regions of a graph have.
func rowCalls(t *testing.T, g *ir.Graph, dims map[string]int64) int {
	t.Helper()
	p, err := New().(backend).compile(g, runtime.Config{Constants: &runtime.Constants{}})
	if err != nil {
		t.Fatal(err)
	}
	b := runtime.Binding{Dims: dims}
	for _, v := range g.Inputs {
		b.Inputs = append(b.Inputs, v.Type)
	}
	n := 0
	for _, u := range p.lookup(b).units() {
		if u.region != nil {
			n += len(u.region.calls)
		}
	}
	return n
}

// Operators between products are computed by fused kernels, with the same results as separate operators.
func TestFused(t *testing.T) {
	r := NewGen(31)
	for _, c := range []struct {
		name  string
		calls int // row kernels, products included
		build func(b *ir.Builder, x, y *ir.Value, per func() *ir.Value, product func(x *ir.Value) *ir.Value) *ir.Value
	}{
		{"gate", 4, func(b *ir.Builder, x, _ *ir.Value, per func() *ir.Value,
			product func(x *ir.Value) *ir.Value) *ir.Value {
			a := b.Op("", "Gelu", []*ir.Value{product(x)})
			s := b.Op("", "Sigmoid", []*ir.Value{product(a)})
			v := b.Op("", "Add", []*ir.Value{x, b.Op("", "Mul", []*ir.Value{a, s})})
			return b.Op("", "Add", []*ir.Value{b.Op("", "Mul", []*ir.Value{v, per()}), per()})
		}},
		{"swish", 1, func(b *ir.Builder, x, y *ir.Value, _ func() *ir.Value, _ func(x *ir.Value) *ir.Value) *ir.Value {
			s := b.Op("", "Add", []*ir.Value{x, y})
			return b.Op("", "Mul", []*ir.Value{y, b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{y, s})})})
		}},
		{"through", 2, func(b *ir.Builder, x, _ *ir.Value, per func() *ir.Value,
			product func(x *ir.Value) *ir.Value) *ir.Value {
			d := b.Op("", "Mul", []*ir.Value{x, per()})
			return b.Op("", "Gelu", []*ir.Value{b.Op("", "Add", []*ir.Value{d, product(x)})}, ir.A("approximate", "tanh"))
		}},
		{"factors", 1, func(b *ir.Builder, x, y *ir.Value, per func() *ir.Value, _ func(x *ir.Value) *ir.Value) *ir.Value {
			a, c := b.Op("", "Mul", []*ir.Value{per(), x}), b.Op("", "Mul", []*ir.Value{y, per()})
			return b.Op("", "Relu", []*ir.Value{b.Op("", "Add", []*ir.Value{a, c})})
		}},
		{"operands", 1, func(b *ir.Builder, x, y *ir.Value, per func() *ir.Value, _ func(x *ir.Value) *ir.Value) *ir.Value {
			v := b.Op("", "Sub", []*ir.Value{per(), x})
			v = b.Op("", "Div", []*ir.Value{v, b.Const("k", tensor.Scalar(float32(-1.5)))})
			v = b.Op("", "Max", []*ir.Value{y, v})
			v = b.Op("", "Min", []*ir.Value{v, x})
			v = b.Op("", "Sub", []*ir.Value{y, v})
			v = b.Op("", "Clip", []*ir.Value{v, b.Const("k", tensor.Scalar(float32(-2)))})
			v = b.Op("", "Pow", []*ir.Value{v, b.Const("k", tensor.Scalar(float32(2)))})
			v = b.Op("", "Add", []*ir.Value{b.Const("k", tensor.Scalar(float32(1))), v})
			return b.Op("", "Div", []*ir.Value{x, v})
		}},
		{"functions", 2, func(b *ir.Builder, x, y *ir.Value, _ func() *ir.Value, _ func(x *ir.Value) *ir.Value) *ir.Value {
			v := b.Op("", "Mul", []*ir.Value{x, y})
			// one kernel holds twelve
			for _, op := range []string{"LeakyRelu", "Tanh", "HardSwish", "HardSigmoid", "Erf", "Neg", "Exp", "Sigmoid",
				"Abs", "Sqrt", "Swish", "Relu", "Gelu"} {
				v = b.Op("", op, []*ir.Value{v})
			}
			return v
		}},
		{"halves", 2, func(b *ir.Builder, x, y *ir.Value, _ func() *ir.Value,
			product func(x *ir.Value) *ir.Value) *ir.Value {
			wide := b.Op("", "Concat", []*ir.Value{x, y}, ir.A("axis", -1)) // a unit of its own
			h := b.Ops("", "Split", 2, []*ir.Value{wide}, ir.A("axis", -1), ir.A("num_outputs", 2))
			v := b.Op("", "Add", []*ir.Value{x, b.Op("", "Mul", []*ir.Value{h[0], b.Op("", "Sigmoid", h[1:])})})
			return product(v)
		}},
		{"swiglu", 1, func(b *ir.Builder, x, y *ir.Value, _ func() *ir.Value, _ func(x *ir.Value) *ir.Value) *ir.Value {
			wide := b.Op("", "Concat", []*ir.Value{x, y}, ir.A("axis", -1))
			h := b.Ops("", "Split", 2, []*ir.Value{wide}, ir.A("axis", 2), ir.A("num_outputs", 2))
			return b.Op("", "Mul", []*ir.Value{b.Op("", "Mul", []*ir.Value{h[0], b.Op("", "Sigmoid", h[:1])}), h[1]})
		}},
		{"kept half", 3, func(b *ir.Builder, x, y *ir.Value, _ func() *ir.Value,
			product func(x *ir.Value) *ir.Value) *ir.Value {
			wide := b.Op("", "Concat", []*ir.Value{x, y}, ir.A("axis", 2))
			// one is copied for the product
			h := b.Ops("", "Split", 2, []*ir.Value{wide}, ir.A("axis", 2), ir.A("num_outputs", 2))
			return b.Op("", "Mul", []*ir.Value{product(h[0]),
				b.Op("", "Tanh", []*ir.Value{b.Op("", "Add", []*ir.Value{h[0], h[1]})})})
		}},
		{"twice", 4, func(b *ir.Builder, x, y *ir.Value, _ func() *ir.Value, _ func(x *ir.Value) *ir.Value) *ir.Value {
			v := b.Op("", "Add", []*ir.Value{x, y}) // read twice, and written
			w := b.Op("", "Tanh", []*ir.Value{b.Op("", "Mul", []*ir.Value{v, v})})
			return b.Op("", "Add", []*ir.Value{w, b.Op("", "Softmax", []*ir.Value{w})})
		}},
	} {
		for _, f := range []int{1, 3, 8, 20, 33, 128} {
			for _, rows := range []int{1, 5, 230} {
				b := ir.NewBuilder("fused", ops.Default, ops.Opsets())
				x, y := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", f)),
					b.Input("y", ir.Tensor(tensor.Float32, "B", "L", f))
				per := func() *ir.Value { return b.Const("per", r.Floats(1, f)) }
				product := func(x *ir.Value) *ir.Value {
					return b.Op("", "MatMul", []*ir.Value{x, b.Const("w", r.Floats(1/math.Sqrt(float64(f)), f, f))})
				}
				b.Output("out", c.build(b, x, y, per, product))
				g, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s, %d rows of %d", c.name, rows, f)
				in := map[string]tensor.Datum{"x": r.Floats(1, 2, rows, f), "y": r.Floats(1, 2, rows, f)}
				on.Parameters(t, name, g, in, runtime.Options{})
				want := Truth(t, g, in)
				var first map[string]tensor.Datum
				for _, threads := range []int{1, 3} {
					m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: threads})
					if err != nil {
						t.Fatal(err)
					}
					got, err := m.NewSession().Run(context.Background(), in)
					if err != nil {
						t.Fatal(err)
					}
					CloseTo(t, name, got, want, 4e-6)
					if first == nil {
						first = got
					} else if !slices.Equal(tensor.Data[float32](got["out"].(*tensor.Tensor)),
						tensor.Data[float32](first["out"].(*tensor.Tensor))) {
						t.Errorf("%s: answers differ between threads", name)
					}
					m.Close()
				}
				for _, g := range []*ir.Graph{g, WithParameters(g)} {
					if g == nil {
						continue
					}
					calls := c.calls
					if len(g.Parameters) > 0 && c.name == "operands" {
						calls += 2 // Clip and Pow are parts of fused kernels by their numbers
					}
					if n := rowCalls(t, g, map[string]int64{"B": 2, "L": int64(rows)}); n != calls {
						t.Errorf("%s: %d row kernels, expected %d; %d parameters", name, n, calls, len(g.Parameters))
					}
				}
			}
		}
	}
}

// A layer of a model has products, a recurrence, the activation that two steps read, and two fused kernels.
func TestFusedLayer(t *testing.T) {
	for id, want := range map[string]int{"sc35": 8, "text": 6} { // of text, heads are part of the recurrence
		p, err := essm.NewPreset(id)
		if err != nil {
			t.Fatal(err)
		}
		w, err := essm.Init(p.Config, essm.InitOptions{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := passes.Optimize(g); err != nil {
			t.Fatal(err)
		}
		prog, err := New().(backend).compile(g, runtime.Config{Constants: &runtime.Constants{}})
		if err != nil {
			t.Fatal(err)
		}
		b := runtime.Binding{Dims: map[string]int64{"B": 1, "L": 1000}}
		for _, v := range g.Inputs {
			b.Inputs = append(b.Inputs, v.Type)
		}
		layers := 0
		for _, u := range prog.lookup(b).units() {
			if u.region == nil || u.region.recurrence == nil {
				continue
			}
			if layers++; layers == 2 && len(u.region.calls) > want { // the first has the encoder, too
				t.Errorf("%s: a layer is %d calls, expected at most %d", id, len(u.region.calls), want)
			}
		}
	}
}
