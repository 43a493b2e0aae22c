package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// trainingSamples returns samples for the operators of ai.onnx.preview.training.
func trainingSamples(o *ir.Op) []opstest.Sample {
	rate := func() tensor.Datum { return opstest.Inside(0.1, 0.2) }
	x := func() tensor.Datum { return opstest.Normal(2, 5) }
	h := func() tensor.Datum { return opstest.Inside(0.1, 1, 2, 5) }
	switch o.Name {
	case "Adagrad":
		return []opstest.Sample{opstest.Of(rate(), opstest.Num(3), x(), x(),
			h()).Gives(2).With(ir.A("decay_factor", 0.1), ir.A("norm_coefficient", 0.01)),
			opstest.Of(rate(), opstest.Num(0), x(), opstest.Normal(3), x(), opstest.Normal(3), h(),
				opstest.Inside(0.1, 1, 3)).Gives(4)}
	case "Adam":
		return []opstest.Sample{opstest.Of(rate(), opstest.Num(3), x(), x(), x(),
			h()).Gives(3).With(ir.A("norm_coefficient_post", 0.01)),
			opstest.Of(rate(), opstest.Num(0), x(), x(), x(), h()).Gives(3)}
	case "Momentum":
		with := func(mode string) []ir.Attr {
			return []ir.Attr{ir.A("alpha", 0.9), ir.A("beta", 0.8), ir.A("mode", mode), ir.A("norm_coefficient", 0.01)}
		}
		return []opstest.Sample{opstest.Of(rate(), opstest.Num(0), x(), x(), x()).Gives(2).With(with("standard")...),
			opstest.Of(rate(), opstest.Num(2), x(), x(), x()).Gives(2).With(with("nesterov")...)}
	}
	return nil
}
