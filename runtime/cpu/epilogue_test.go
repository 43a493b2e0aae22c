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
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// Elementwise operators after a convolution are computed with it, with the same results as separate operators.
func TestEpilogue(t *testing.T) {
	r := NewGen(21)
	type conv struct {
		n, c, group, m int
		size, taps     []int
		pads           []int64
	}
	convs := []conv{
		{2, 3, 1, 7, []int{11, 23}, []int{3, 3}, []int64{1, 1, 1, 1}},   // panels
		{1, 24, 1, 50, []int{33, 47}, []int{1, 1}, []int64{0, 0, 0, 0}}, // several blocks of them
		{2, 6, 2, 8, []int{9, 8}, []int{3, 1}, []int64{1, 0, 1, 0}},
		{1, 40, 1, 20, []int{2, 3}, []int{1, 3}, []int64{0, 1, 0, 1}}, // frames
		{2, 40, 1, 70, []int{1, 1}, []int{1, 1}, []int64{0, 0, 0, 0}},
		{2, 6, 6, 6, []int{9, 21}, []int{3, 3}, []int64{1, 1, 1, 1}}, // depthwise
	}
	for _, c := range convs {
		for _, threads := range []int{1, 3} {
			t.Run(fmt.Sprint(c, threads), func(t *testing.T) {
				b := ir.NewBuilder("epilogue", ops.Default, ops.Opsets())
				op := func(name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value { return b.Op("", name, in, attrs...) }
				num := func(v float32) *ir.Value { return b.Const("k", tensor.Scalar(v)) }
				per := func() *ir.Value { return b.Const("p", r.Floats(1, c.m, 1, 1)) }
				x := b.Input("x", ir.Tensor(tensor.Float32, "n", c.c, "h", "w"))
				w := b.Const("w", r.Floats(1, append([]int{c.m, c.c / c.group}, c.taps...)...))
				attrs := []ir.Attr{ir.A("pads", c.pads), ir.A("group", c.group)}
				y := op("Conv", []*ir.Value{x, w}, attrs...)
				y = op("LeakyRelu", []*ir.Value{y}, ir.A("alpha", 0.25))
				y = op("Max", []*ir.Value{y, num(-0.5)})
				y = op("Mul", []*ir.Value{y, per()})
				y = op("Sub", []*ir.Value{per(), y})
				y = op("Div", []*ir.Value{num(3), op("Add", []*ir.Value{op("Abs", []*ir.Value{y}), num(2)})})
				early := op("HardSwish", []*ir.Value{y})
				b.Output("early", early) // an output is not gone over
				bias := b.Const("bias", r.Floats(1, c.m))
				z := op("Conv", []*ir.Value{x, w, bias}, attrs...)
				z = op("Clip", []*ir.Value{z, num(-2), num(2)})
				z = op("Add", []*ir.Value{z, early})
				z = op("Sub", []*ir.Value{early, z})
				b.Output("twice", op("Mul", []*ir.Value{z, z})) // two operands: a step of its own
				late := op("Conv", []*ir.Value{x, w}, attrs...)
				later := op("Tanh", []*ir.Value{op("Conv", []*ir.Value{x, w, bias}, attrs...)})
				b.Output("late", op("Sigmoid", []*ir.Value{op("Add", []*ir.Value{late, later})}))
				g, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				data := r.Floats(1, append([]int{c.n, c.c}, c.size...)...)
				in := map[string]tensor.Datum{"x": data}
				m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: threads, Profile: true})
				if err != nil {
					t.Fatal(err)
				}
				s, out := m.NewSession(), map[string]tensor.Datum{}
				if err := s.RunInto(context.Background(), in, out); err != nil {
					t.Fatal(err)
				}
				CloseTo(t, "epilogue", out, Truth(t, g, in), 4e-6)
				if n := len(s.Profile()); n != 5 { // four convolutions, and what is multiplied by itself
					t.Errorf("%d units, expected 5: %v", n, s.Profile())
				}
				if n := testing.AllocsPerRun(5, func() {
					if err := s.RunInto(context.Background(), in, out); err != nil {
						t.Fatal(err)
					}
				}); threads == 1 && n != 0 {
					t.Errorf("%v allocations", n)
				}
				data = data.Clone()
				tensor.Data[float32](data)[5] = float32(math.NaN())
				in["x"] = data
				want := Truth(t, g, in)
				got, err := s.Run(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				for name := range got {
					a, _ := got[name].(*tensor.Tensor).Float64s()
					w, _ := want[name].(*tensor.Tensor).Float64s()
					if nan := func(v float64) bool { return v != v }; slices.IndexFunc(a, nan) != slices.IndexFunc(w, nan) {
						t.Errorf("%s: NaN does not pass", name)
					}
				}
			})
		}
	}
}
