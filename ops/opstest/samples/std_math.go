package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// spectralSamples returns samples for transforms and windows.
func spectralSamples(o *ir.Op) []opstest.Sample {
	hz := func(x float32) tensor.Datum { return tensor.Scalar(x) }
	switch o.Name {
	case "DFT":
		inverse, half := ir.A("inverse", 1), ir.A("onesided", 1)
		if o.Since < 20 {
			return []opstest.Sample{of(normal(2, 5, 1)), of(normal(2, 6, 3, 2)).With(ir.A("axis", -2)),
				of(normal(2, 5, 3, 1), num(8)).Fixed(1).With(half), of(normal(2, 5, 3, 2), num(4)).With(inverse),
				of(normal(2, 5, 2)).With(inverse, half)}
		}
		return []opstest.Sample{of(normal(2, 5, 1)), of(normal(2, 6, 3, 2), nil, num(1)).Fixed(2),
			of(normal(2, 6, 3, 2), nil, num(0)), of(normal(2, 5, 3, 1), num(8), num(-3)).Fixed(1, 2).With(half),
			of(normal(2, 5, 2), num(4)).With(inverse), of(normal(2, 5, 2)).With(inverse, half),
			of(normal(2, 5, 2), num(7)).Fixed(1).With(inverse, half), of(normal(2, 7, 2)).With(half)}
	case "STFT":
		return []opstest.Sample{of(normal(2, 9, 1), num(2), normal(4)).Fixed(1),
			of(normal(2, 8, 2), num(3), nil, num(5)).Fixed(1, 3).With(ir.A("onesided", 0)),
			of(normal(2, 8, 1), num(1), normal(4), num(4)), of(normal(2, 8, 1), num(2))}
	case "HannWindow", "HammingWindow", "BlackmanWindow":
		return []opstest.Sample{of(num(9)).Fixed(0), of(num(8)).With(ir.A("periodic", 0)),
			of(tensor.Scalar(int32(5))).With(ir.A("output_datatype", int(tensor.Float64)))}
	case "MelWeightMatrix":
		return []opstest.Sample{of(num(8), num(64), num(8000), hz(20), hz(4000)).Fixed(0, 1),
			of(num(4), num(32), num(8000), hz(0), hz(3000)).With(ir.A("output_datatype", int(tensor.Float64)))}
	}
	return nil
}

// lossSamples returns samples for losses, norms, and operators that are nearly elementwise.
func lossSamples(o *ir.Op) []opstest.Sample {
	groups := ir.A("num_groups", 2)
	switch o.Name {
	case "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss":
		outs := len(o.Out)
		return []opstest.Sample{of(normal(3, 5), whole(tensor.Int64, 0, 5, 3)).Gives(outs),
			of(normal(3, 5, 2), whole(tensor.Int64, 0, 5, 3, 2), inside(0.1, 2, 5)).With(ir.A("reduction", "none"),
				ir.A("ignore_index", 2)).Gives(outs),
			of(normal(3, 5, 2, 2), whole(tensor.Int32, 0, 5, 3, 2, 2), inside(0.1, 2, 5)).Gives(outs),
			of(normal(2, 3, 2), tensor.FromSlice([]int64{0, -1, 2, 1}, 2, 2)).With(ir.A("reduction", "sum"),
				ir.A("ignore_index", -1)).Gives(outs),
			of(normal(2, 3, 2), tensor.FromSlice([]int64{0, 7, 2, 1}, 2, 2)).With(ir.A("ignore_index", 7)).Gives(outs),
			of(normal(4, 3), tensor.FromSlice([]int32{0, -100, 2, 1}, 4),
				inside(0.1, 2, 3)).With(ir.A("ignore_index", -100)).Gives(outs)}
	case "GroupNormalization":
		if o.Since < 21 {
			return []opstest.Sample{of(normal(2, 4, 3), normal(2), normal(2)).With(groups),
				of(normal(2, 4, 3, 2), normal(2), normal(2)).With(groups)}
		}
		return []opstest.Sample{of(normal(2, 4, 3), normal(4), normal(4)).With(groups),
			of(normal(2, 4, 3, 2), normal(4), normal(4)).With(groups, ir.A("epsilon", 0.1))}
	case "LRN":
		return []opstest.Sample{of(normal(2, 5, 3)).With(ir.A("size", 3)),
			of(normal(2, 5, 2, 3)).With(ir.A("size", 4), ir.A("alpha", 0.3), ir.A("beta", 0.5), ir.A("bias", 2.0))}
	case "LpNormalization":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).With(ir.A("p", 1), ir.A("axis", 1))}
	case "PRelu":
		if o.Since < 7 {
			return []opstest.Sample{of(normal(2, 5, 3), normal(5)), of(normal(2, 5, 3), normal(1))}
		}
		return []opstest.Sample{of(normal(2, 5, 3), normal(5, 1)), of(normal(2, 5), normal(5)),
			of(whole(tensor.Int32, -9, 9, 2, 5), whole(tensor.Int32, -3, 3, 5)),
			of(whole(tensor.Uint32, 0, 9, 4), whole(tensor.Uint32, 0, 9, 4))}
	case "Shrink":
		return []opstest.Sample{of(normal(2, 5, 3)).With(ir.A("bias", 0.2)),
			of(whole(tensor.Int8, -5, 5, 4)).With(ir.A("lambd", 1.5), ir.A("bias", 1.0)),
			of(whole(tensor.Int32, -5, 5, 9)).With(ir.A("lambd", 0.0), ir.A("bias", 0.75))}
	case "Det":
		return []opstest.Sample{of(normal(2, 5, 3, 3)), of(normal(4, 4))}
	}
	return nil
}
