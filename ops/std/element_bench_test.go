package std

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// BenchmarkElementwise evaluates elementwise operators as the reference interpreter does.
func BenchmarkElementwise(b *testing.B) {
	op := func(name string) *ir.Op { return ops.Default.Resolve("", name, 99) }
	half := func(d tensor.Datum) tensor.Datum {
		t, err := d.(*tensor.Tensor).Convert(tensor.Float16, false)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	for _, c := range []struct {
		name string
		s    sample
	}{
		{"Add", of(normal(1), normal(1))}, {"Add", of(normal(16), normal(16))},
		{"Add", of(normal(1<<16), normal(1<<16))},
		{"Add", of(normal(256, 256), normal(256))}, {"Add", of(normal(256, 256), normal(256, 1))},
		{"Add", of(normal(256, 256), normal())},
		{"Add", of(half(normal(1<<14)), half(normal(1<<14)))}, {"Relu", of(normal(1))},
		{"Relu", of(normal(1 << 16))}, {"Exp", of(normal(1 << 16))}, {"Gelu", of(normal(1 << 16))},
		{"Sigmoid", of(normal(1 << 16))}, {"Mish", of(normal(1 << 16))}, {"LeakyRelu", of(normal(1))},
		{"Less", of(normal(1<<16), normal(1<<16))}, {"Less", of(normal(1), normal(1))},
		{"Pow", of(opstest.Inside(0, 2, 1<<16), normal())},
		{"Clip", of(normal(1<<16), opstest.Inside(-1, 0), opstest.Inside(0, 1))},
		{"Sum", of(normal(1<<16), normal(1<<16), normal(1<<16))}, {"PRelu", of(normal(256, 256), normal(256))},
		{"Where", of(opstest.Bools(1<<16), normal(1<<16), normal(1<<16))}, {"IsNaN", of(normal(1 << 16))},
		{"Mod", of(normal(1<<16), normal(1<<16)).With(ir.A("fmod", 1))},
		{"Max", of(normal(1<<16), normal(1))},
	} {
		n := &ir.Node{Op: op(c.name), Attrs: ir.NewAttrs(c.s.Attrs...), Outputs: []*ir.Value{{Name: "y"}}}
		name := c.name
		for i, d := range c.s.In {
			t := d.(*tensor.Tensor)
			name += fmt.Sprint(t.DType(), t.Shape())
			n.Inputs = append(n.Inputs, &ir.Value{Name: fmt.Sprint("x", i), Type: ir.Of(t)})
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := opstest.Eval(n, c.s.In, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
