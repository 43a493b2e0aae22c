package lower_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/lower"
)

// same lowers a graph to version 13 and compares all answers.
func same(t *testing.T, b *ir.Builder, in map[string]tensor.Datum) {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := lower.Lower(g, lower.Options{Opset: 13})
	if err != nil {
		t.Fatal(err)
	}
	got, want := run(t, out, in, true), run(t, g, in, true)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%s: %v, expected %v", name, got[name], want[name])
		}
	}
}

// TestStepMask lowers masks with every attribute, with counts that are constant or given, of each sample or of all.
func TestStepMask(t *testing.T) {
	x := tensor.New(tensor.Float32, 2, 3, 7)
	for i := range tensor.Data[float32](x) {
		tensor.Data[float32](x)[i] = float32(i + 1)
	}
	steps, ends := tensor.FromSlice([]int64{0, 3}, 2), tensor.FromSlice([]int64{6, 9}, 2)
	for _, at := range []struct{ axis, batch int }{{2, 0}, {-1, 1}, {1, 0}, {0, 2}, {2, -1}, {0, -1}} {
		for _, attrs := range [][]ir.Attr{nil, {ir.A("delay", 2), ir.A("value", -1.5)},
			{ir.A("rate", 2), ir.A("offset", 3), ir.A("delay", 1)}, {ir.A("rate", 3), ir.A("offset", -8)}} {
			for _, given := range []string{"zero", "shared", "steps", "ends", "both"} {
				t.Run(fmt.Sprint(at, attrs, given), func(t *testing.T) {
					samples := 1
					if at.batch >= 0 {
						samples = x.Dim(at.batch)
					}
					some := func(v *tensor.Tensor) *tensor.Tensor { // one for each sample
						return tensor.FromSlice(slices.Repeat(tensor.Data[int64](v), samples)[:samples], samples)
					}
					b := ir.NewBuilder("mask", ops.Default, ops.Opsets())
					in := map[string]tensor.Datum{"x": x}
					count := func(name string, v *tensor.Tensor) *ir.Value {
						in[name] = v
						return b.Input(name, ir.Tensor(tensor.Int64, v.Len()))
					}
					args := []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, 2, 3, 7))}
					switch given {
					case "zero":
						args = append(args, b.Ints(0))
					case "shared":
						args = append(args, b.Ints(2), count("end", tensor.FromSlice([]int64{5}, 1)))
					case "steps":
						args = append(args, count("steps", some(steps)))
					case "ends":
						args = append(args, b.Ints(0), count("end", some(ends)))
					case "both":
						args = append(args, count("steps", some(steps)), count("end", some(ends)))
					}
					b.Output("y", b.Op("essm", "StepMask", args, append([]ir.Attr{ir.A("axis", at.axis),
						ir.A("batch_axis", at.batch)}, attrs...)...))
					same(t, b, in)
				})
			}
		}
	}
}

// TestOlderForms writes forms that later versions brought in version 13.
func TestOlderForms(t *testing.T) {
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, 2, 7)
	b := ir.NewBuilder("older", ops.Default, ops.Opsets())
	v := b.Input("x", ir.Tensor(tensor.Float32, "N", 7))
	for i, parts := range []int{1, 3, 4, 7} {
		for j, y := range b.Ops("", "Split", parts, []*ir.Value{v}, ir.A("axis", 1), ir.A("num_outputs", parts)) {
			b.Output(fmt.Sprint("part", i, j), y)
		}
	}
	for i, of := range [][]ir.Attr{{ir.A("start", 1)}, {ir.A("start", -2), ir.A("end", -1)}, {ir.A("end", 1)}, nil} {
		b.Output(fmt.Sprint("shape", i), b.Op("", "Shape", []*ir.Value{v}, of...))
	}
	same(t, b, map[string]tensor.Datum{"x": x})
}

// TestDoubleConv writes convolutions in float64 as products.
func TestDoubleConv(t *testing.T) {
	x := tensor.New(tensor.Float64, 2, 3, 9)
	for i := range tensor.Data[float64](x) {
		tensor.Data[float64](x)[i] = float64(i%7) - 2.5
	}
	b := ir.NewBuilder("conv", ops.Default, ops.Opsets())
	v := b.Input("x", ir.Tensor(tensor.Float64, 2, 3, "N"))
	for i, taps := range []int{1, 2, 5} {
		w := make([]float64, 4*3*taps)
		for j := range w {
			w[j] = float64(j%5) - 1
		}
		in := []*ir.Value{v, b.Const("w", tensor.FromSlice(w, 4, 3, taps))}
		if i > 0 {
			in = append(in, b.Const("b", tensor.FromSlice([]float64{1, 2, 3, 4}, 4)))
		}
		b.Output(fmt.Sprint("y", i), b.Op("", "Conv", in, ir.A("pads", []int64{int64(i), 2 * int64(i)})))
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := lower.Lower(g, lower.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range out.Nodes {
		if n.Op.Name == "Conv" {
			t.Errorf("%v is left", n)
		}
	}
	same(t, b, map[string]tensor.Datum{"x": x})
}
