package backendtest

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// TestDiffNode checks that errors of single elements are found which are small beside the tensor's largest element, so that
// the bound of Diff allows them, and that what rounding costs is allowed.
func TestDiffNode(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		op    string
		attrs []ir.Attr
		x     []float32 // of the first input; the second is 1
		wrong func(y []float32)
		want  string // "": allowed
	}{
		{"Exp", nil, []float32{-20, 3}, func(y []float32) { y[0] *= 1.5 }, "element 0"},
		{"Exp", nil, []float32{-20, 3}, func(y []float32) { y[0] *= 1 + 20*0x1p-23 }, ""}, // the input's last digit
		{"Exp", nil, []float32{-20, 3}, func(y []float32) { y[0] *= 1 + 200*0x1p-23 }, "element 0"},
		{"Exp", nil, []float32{-20, 3}, func(y []float32) { y[0] = 0 }, "element 0"},
		{"Exp", nil, []float32{-90, 3}, func(y []float32) { y[0] = 0 }, ""}, // below the smallest normal number
		{"Log", nil, []float32{1.0001, 1e30}, func(y []float32) { y[0] += 2e-6 }, "element 0"},
		{"Log", nil, []float32{1.0001, 1e30}, func(y []float32) { y[0] += 2e-7 }, ""},
		{"Sin", nil, []float32{3.1415927, 1}, func(y []float32) { y[0] = 0 }, ""},
		{"Sin", nil, []float32{1e-6, 1}, func(y []float32) { y[0] = 0 }, "element 0"},
		{"Sqrt", nil, []float32{0, 1e20}, func(y []float32) { y[0] = 1e-9 }, "element 0"}, // no finite derivative
		{"Sqrt", nil, []float32{4, -1}, func(y []float32) { y[1] = 0 }, "element 1"},
		{"Sqrt", nil, []float32{4, inf}, func(y []float32) { y[1] = math.MaxFloat32 }, "element 1"},
		{"Tanh", nil, []float32{1e-3, 1}, func(y []float32) { y[0] += 2e-8 }, "element 0"},
		{"Sigmoid", nil, []float32{-30, 1}, func(y []float32) { y[0] = 0 }, "element 0"},
		{"Add", nil, []float32{-1, 1e6}, func(y []float32) { y[0] = 5e-7 }, ""}, // the sum cancels
		{"Add", nil, []float32{-1, 1e6}, func(y []float32) { y[0] = 1e-4 }, "element 0"},
		{"Mul", nil, []float32{1e-20, 1e20}, func(y []float32) { y[0] = 2e-20 }, "element 0"},
		{"Mul", nil, []float32{nan, 1}, func(y []float32) { y[0] = 1 }, "element 0"},
		{"Div", nil, []float32{3, 1e9}, func(y []float32) { y[0] = 3.00001 }, "element 0"},
		{"Gelu", nil, []float32{-1, 100}, func(y []float32) { y[0] += 1e-5 }, "element 0"},
		{"Gelu", nil, []float32{-7, 1}, func(y []float32) { y[0] = 0 }, ""},
		{"Gelu", []ir.Attr{ir.A("approximate", "tanh")}, []float32{-7, 1}, func(y []float32) { y[0] = 0 }, "element 0"},
	} {
		b := ir.NewBuilder("g", ops.Default, ops.Opsets())
		in := []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, len(c.x)))}
		feed := Data{"x": tensor.FromSlice(c.x, len(c.x))}
		if len(ops.Default.Resolve("", c.op, ops.Opsets()[""]).In) > 1 {
			in = append(in, b.Const("k", tensor.FromSlice([]float32{1}, 1)))
		}
		b.Output("y", b.Op("", c.op, in, c.attrs...))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		want, err := truth(g, feed)
		if err != nil {
			t.Fatal(err)
		}
		right, err := want["y"].(*tensor.Tensor).Convert(tensor.Float32, false)
		if err != nil {
			t.Fatal(err)
		}
		n, list := g.Nodes[0], nodeInputs(g, feed)
		if d := DiffNode(n, list, 0, right, want["y"]); d != "" {
			t.Errorf("%s: the rounded truth: %s", c.op, d)
		}
		wrong := right.Clone()
		c.wrong(tensor.Data[float32](wrong))
		d := DiffNode(n, list, 0, wrong, want["y"])
		if (d == "") != (c.want == "") || !strings.HasPrefix(d, c.want) {
			t.Errorf("%s of %v: found %v, expected %v: %q, expected %q", c.op, c.x, wrong, right, d, c.want)
		}
	}
}

// TestSharper checks which of the errors above the bound at the largest element's scale lets through.
func TestSharper(t *testing.T) {
	got, truth := tensor.FromSlice([]float32{0, 20.085537}, 2), tensor.FromSlice([]float64{math.Exp(-20), math.Exp(3)}, 2)
	op := ops.Default.Resolve("", "Exp", 13)
	if d := Diff(got, truth, op.Tol); d != "" {
		t.Errorf("Diff has become sharper: %s", d)
	}
	n := &ir.Node{Op: op, Inputs: []*ir.Value{{Name: "x", Type: ir.Tensor(tensor.Float32, 2)}},
		Outputs: []*ir.Value{{Name: "y", Type: ir.Tensor(tensor.Float32, 2)}}}
	if d := DiffNode(n, []tensor.Datum{tensor.FromSlice([]float32{-20, 3}, 2)}, 0, got, truth); d == "" {
		t.Error("exp(-20) = 0 is not found beside exp(3)")
	}
}
