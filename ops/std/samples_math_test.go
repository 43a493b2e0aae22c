package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

func init() { moreSamples = append(moreSamples, spectralSamples, lossSamples) }

// spectralSamples are samples for transforms and what goes with them.
func spectralSamples(o *ir.Op) []sample {
	hz := func(x float32) tensor.Datum { return tensor.Scalar(x) }
	switch o.Name {
	case "DFT":
		inverse, half := ir.A("inverse", 1), ir.A("onesided", 1)
		if o.Since < 20 {
			return []sample{of(normal(2, 5, 1)), of(normal(2, 6, 3, 2)).with(ir.A("axis", -2)), of(normal(2, 5, 3, 1), num(8)).fixed(1).with(half), of(normal(2, 5, 3, 2), num(4)).with(inverse), of(normal(2, 5, 2)).with(inverse, half)}
		}
		return []sample{of(normal(2, 5, 1)), of(normal(2, 6, 3, 2), nil, num(1)).fixed(2), of(normal(2, 6, 3, 2), nil, num(0)), of(normal(2, 5, 3, 1), num(8), num(-3)).fixed(1, 2).with(half),
			of(normal(2, 5, 2), num(4)).with(inverse), of(normal(2, 5, 2)).with(inverse, half), of(normal(2, 5, 2), num(7)).fixed(1).with(inverse, half), of(normal(2, 7, 2)).with(half)}
	case "STFT":
		return []sample{of(normal(2, 9, 1), num(2), normal(4)).fixed(1), of(normal(2, 8, 2), num(3), nil, num(5)).fixed(1, 3).with(ir.A("onesided", 0)), of(normal(2, 8, 1), num(1), normal(4), num(4)), of(normal(2, 8, 1), num(2))}
	case "HannWindow", "HammingWindow", "BlackmanWindow":
		return []sample{of(num(9)).fixed(0), of(num(8)).with(ir.A("periodic", 0)), of(tensor.Scalar(int32(5))).with(ir.A("output_datatype", int(tensor.Float64)))}
	case "MelWeightMatrix":
		return []sample{of(num(8), num(64), num(8000), hz(20), hz(4000)).fixed(0, 1), of(num(4), num(32), num(8000), hz(0), hz(3000)).with(ir.A("output_datatype", int(tensor.Float64)))}
	}
	return nil
}

// lossSamples are samples for losses, norms, and what treats elements nearly by themselves.
func lossSamples(o *ir.Op) []sample {
	groups := ir.A("num_groups", 2)
	switch o.Name {
	case "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss":
		outs := len(o.Out)
		return []sample{of(normal(3, 5), whole(tensor.Int64, 0, 5, 3)).gives(outs), of(normal(3, 5, 2), whole(tensor.Int64, 0, 5, 3, 2), inside(0.1, 2, 5)).with(ir.A("reduction", "none"), ir.A("ignore_index", 2)).gives(outs),
			of(normal(3, 5, 2, 2), whole(tensor.Int32, 0, 5, 3, 2, 2), inside(0.1, 2, 5)).gives(outs), of(normal(2, 3, 2), tensor.FromSlice([]int64{0, -1, 2, 1}, 2, 2)).with(ir.A("reduction", "sum"), ir.A("ignore_index", -1)).gives(outs),
			of(normal(2, 3, 2), tensor.FromSlice([]int64{0, 7, 2, 1}, 2, 2)).with(ir.A("ignore_index", 7)).gives(outs), of(normal(4, 3), tensor.FromSlice([]int32{0, -100, 2, 1}, 4), inside(0.1, 2, 3)).with(ir.A("ignore_index", -100)).gives(outs)}
	case "GroupNormalization":
		if o.Since < 21 {
			return []sample{of(normal(2, 4, 3), normal(2), normal(2)).with(groups), of(normal(2, 4, 3, 2), normal(2), normal(2)).with(groups)}
		}
		return []sample{of(normal(2, 4, 3), normal(4), normal(4)).with(groups), of(normal(2, 4, 3, 2), normal(4), normal(4)).with(groups, ir.A("epsilon", 0.1))}
	case "LRN":
		return []sample{of(normal(2, 5, 3)).with(ir.A("size", 3)), of(normal(2, 5, 2, 3)).with(ir.A("size", 4), ir.A("alpha", 0.3), ir.A("beta", 0.5), ir.A("bias", 2.0))}
	case "LpNormalization":
		return []sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).with(ir.A("p", 1), ir.A("axis", 1))}
	case "PRelu":
		if o.Since < 7 {
			return []sample{of(normal(2, 5, 3), normal(5)), of(normal(2, 5, 3), normal(1))}
		}
		return []sample{of(normal(2, 5, 3), normal(5, 1)), of(normal(2, 5), normal(5)), of(whole(tensor.Int32, -9, 9, 2, 5), whole(tensor.Int32, -3, 3, 5)), of(whole(tensor.Uint32, 0, 9, 4), whole(tensor.Uint32, 0, 9, 4))}
	case "Shrink":
		return []sample{of(normal(2, 5, 3)).with(ir.A("bias", 0.2)), of(whole(tensor.Int8, -5, 5, 4)).with(ir.A("lambd", 1.5), ir.A("bias", 1.0)), of(whole(tensor.Int32, -5, 5, 9)).with(ir.A("lambd", 0.0), ir.A("bias", 0.75))}
	case "Det":
		return []sample{of(normal(2, 5, 3, 3)), of(normal(4, 4))}
	}
	return nil
}
