package cpu

import (
	"context"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// BenchmarkElementwise measures elementwise operators by themselves, in fused kernels, under broadcasting, and in
// epilogues of convolutions.
func BenchmarkElementwise(b *testing.B) {
	r := NewGen(5)
	rows := ir.Tensor(tensor.Float32, 128, 256)
	image := ir.Tensor(tensor.Float32, 1, 16, 40, 40)
	type build = func(b *ir.Builder, x *ir.Value) *ir.Value
	alone := func(op string, attrs ...ir.Attr) build {
		return func(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("", op, []*ir.Value{x}, attrs...) }
	}
	behind := func(f build) build {
		return func(b *ir.Builder, x *ir.Value) *ir.Value {
			w := b.Const("w", r.Floats(0.2, 16, 16, 3, 3))
			return f(b, b.Op("", "Conv", []*ir.Value{x, w}, ir.A("pads", []int64{1, 1, 1, 1})))
		}
	}
	for _, c := range []struct {
		name string
		t    ir.Type
		f    build
	}{
		{"Sigmoid", rows, alone("Sigmoid")}, {"Abs", rows, alone("Abs")}, {"Log", rows, alone("Log")},
		{"Sin", rows, alone("Sin")},
		{"Floor", rows, alone("Floor")}, {"Elu", rows, alone("Elu")}, {"Selu", rows, alone("Selu")},
		{"Celu", rows, alone("Celu")},
		{"Softplus", rows, alone("Softplus")}, {"Mish", rows, alone("Mish")}, {"Softsign", rows, alone("Softsign")},
		{"Shrink", rows, alone("Shrink")}, {"ThresholdedRelu", rows, alone("ThresholdedRelu")},
		{"AddNumber", rows, func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "Add", []*ir.Value{x, b.Const("k", tensor.Scalar(float32(0.25)))})
		}},
		{"MulFeatures", rows, func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "Mul", []*ir.Value{x, b.Const("k", r.Floats(1, 256))})
		}},
		{"chain", rows, func(b *ir.Builder, x *ir.Value) *ir.Value {
			v := b.Op("", "Tanh", []*ir.Value{b.Op("", "Mul", []*ir.Value{x, b.Const("k", r.Floats(1, 256))})})
			return b.Op("", "Max", []*ir.Value{b.Op("", "Sub", []*ir.Value{v, x}), b.Op("", "Neg", []*ir.Value{x})})
		}},
		{"broadcast", ir.Tensor(tensor.Float32, 16, 1, 64), func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "Sub", []*ir.Value{x, b.Op("", "Transpose", []*ir.Value{x}, ir.A("perm", []int64{1, 0, 2}))})
		}},
		{"Pow3", rows, func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "Pow", []*ir.Value{x, b.Const("k", tensor.Scalar(float32(3)))})
		}},
		{"conv", image, behind(alone("Relu"))}, {"convSoftplus", image, behind(alone("Softplus"))},
		{"convElu", image, behind(alone("Elu"))},
		{"convSwish", image, behind(func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "Mul", []*ir.Value{x, b.Op("", "Sigmoid", []*ir.Value{x})})
		})},
		{"convPRelu", image, behind(func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "PRelu", []*ir.Value{x, b.Const("k", r.Floats(1, 16, 1, 1))})
		})},
		{"convBias", image, behind(func(b *ir.Builder, x *ir.Value) *ir.Value {
			v := b.Op("", "Add", []*ir.Value{x, b.Const("k", r.Floats(1, 16, 1, 1))})
			return b.Op("", "Clip", []*ir.Value{v, b.Const("lo", tensor.Scalar(float32(0))),
				b.Const("hi", tensor.Scalar(float32(6)))})
		})},
	} {
		g := ir.NewBuilder("elementwise", ops.Default, ops.Opsets())
		x := g.Input("x", c.t)
		g.Output("out", c.f(g, x))
		graph, err := g.Build()
		if err != nil {
			b.Fatal(err)
		}
		m, err := runtime.New(graph, runtime.Options{Backend: New(), Threads: 1})
		if err != nil {
			b.Fatal(err)
		}
		var shape []int
		for _, d := range c.t.(*ir.TensorType).Shape {
			n, _ := d.Known()
			shape = append(shape, int(n))
		}
		in := map[string]tensor.Datum{"x": r.Floats(1, shape...)}
		s := m.NewSession()
		out, err := s.Run(context.Background(), in)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := s.RunInto(context.Background(), in, out); err != nil {
					b.Fatal(err)
				}
			}
		})
		m.Close()
	}
}
