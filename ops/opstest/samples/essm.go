package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// essmSamples returns samples for essm operators for which random inputs are not enough.
func essmSamples(o *ir.Op) []opstest.Sample {
	if o.Name != "Block" {
		return nil
	}
	layer := graphOf(func(b *ir.Builder) { // the surroundings of a layer: a residual, a gate
		x, y := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 3)),
			b.Input("y", ir.Tensor(tensor.Float32, "B", "L", 3))
		h := b.Op("essm", "Linear", []*ir.Value{x, b.Const("w", normal(3, 3).(*tensor.Tensor))})
		h = op(b, "Mul", op(b, "Tanh", h), op(b, "Sigmoid", y))
		b.Output("h", h)
		b.Output("sum", op(b, "Add", h, x))
	})
	return list{of(normal(2, 5, 3), normal(2, 5, 3)).With(ir.A("body", layer)).Gives(2)}
}
