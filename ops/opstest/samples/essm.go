package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// essmSamples returns samples for essm operators for which random inputs are not enough.
func essmSamples(o *ir.Op) []opstest.Sample {
	switch o.Name {
	case "Block":
	case "SelectiveScan":
		return list{of(normal(2, 5, 4), inside(0, 1, 2, 5, 4), inside(-2, 0, 4, 3), normal(2, 5, 3), normal(2, 5, 3),
			normal(4), normal(2, 12)).Gives(2).Fixed(2, 5),
			of(normal(2, 5, 8), inside(0, 1, 2, 5, 4), inside(-2, 0, 4, 1), normal(2, 5, 6), normal(2, 5, 6)).With(
				ir.A("groups", 2)).Gives(2).Fixed(2),
			of(normal(1, 7, 17), inside(0, 1, 1, 7, 17), inside(-2, 0, 17, 1), normal(1, 7, 1), normal(1, 7, 1))}
	case "Map":
		f := func(text string) ir.Attr { return ir.A("f", text) }
		return list{of(normal(2, 5, 3), normal(5, 1)).With(f("t0 = tanh(x0*x1); t0/(t0*t0 + 1.5)")),
			of(normal(4), normal(4)).With(f("select(x1 < 0, 2, sin(x1))"))}
	case "Dropout":
		key := tensor.FromSlice([]int64{7, 3, 1}, 3)
		return list{of(normal(2, 5, 3), key).With(ir.A("rate", 0.25), ir.A("site", 2)),
			of(normal(2, 7, 6), key).With(ir.A("rate", 0.5), ir.A("tied", true)), of(normal(9), key).With(ir.A("rate",
				0.0))}
	case "GatedScan":
		return list{of(inside(0, 1, 2, 5, 4), normal(2, 5, 4), normal(2, 4)).Gives(2),
			of(inside(0, 1, 1, 7, 17), normal(1, 7, 17))}
	case "MatrixConv":
		return list{of(normal(2, 9, 3), normal(4, 3, 5)), of(normal(1, 4, 2), normal(3, 2, 9)),
			of(normal(2, 6, 1), normal(1, 1, 1))}
	case "ContinuousConv":
		return continuousSamples()
	default:
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

// continuousSamples has kernels of all rates: stretched, as in training, and smoothed.
func continuousSamples() (all list) {
	wide := func(shape ...int) tensor.Datum {
		t, err := normal(shape...).(*tensor.Tensor).Convert(tensor.Float64, false)
		if err != nil {
			panic(err)
		}
		return t
	}
	for i, train := range []int{0, 2, 5, 9, 13, 40} {
		in := []tensor.Datum{normal(1+i%2, 13, 3), wide(4), wide(4), wide(5, 4), wide(5), wide(6, 5), wide(6)}
		if i%2 == 1 {
			in = append(in, wide(2, 4), wide(2, 5))
		}
		all = append(all, of(in...).With(ir.A("activation", []string{"sine", "relu", "leaky_relu", "swish"}[i%4]),
			ir.A("train_length", train)))
	}
	return all
}
