package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

func init() { moreSamples = append(moreSamples, recurrentSamples) }

// recurrentSamples are samples for layers with a state.
func recurrentSamples(o *ir.Op) []sample {
	gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[o.Name]
	if gates == 0 {
		return nil
	}
	const length, batch, inputs, hidden = 5, 2, 3, 4
	outs := len(o.Out)
	make := func(dirs int, first bool, more ...ir.Attr) sample {
		x, h := []int{length, batch, inputs}, []int{dirs, batch, hidden}
		if first {
			x, h = []int{batch, length, inputs}, []int{batch, dirs, hidden}
			more = append(more, ir.A("layout", 1))
		}
		in := []tensor.Datum{normal(x...), normal(dirs, gates*hidden, inputs), normal(dirs, gates*hidden, hidden), normal(dirs, 2*gates*hidden), nil, normal(h...)}
		if o.Name == "LSTM" {
			in = append(in, normal(h...), normal(dirs, 3*hidden))
		}
		return of(in...).with(append(more, ir.A("hidden_size", hidden))...).gives(outs)
	}
	short := func(s sample) sample { s.in[4] = tensor.FromSlice([]int32{5, 3}, 2); return s }
	out := []sample{make(1, false), make(1, true), make(1, false, ir.A("direction", "reverse")), make(2, true, ir.A("direction", "bidirectional"), ir.A("clip", 0.5)),
		short(make(2, false, ir.A("direction", "bidirectional")))}
	bare := make(1, false)
	bare.in = bare.in[:3]
	bare.outs = 1
	switch o.Name {
	case "GRU":
		out = append(out, make(1, false, ir.A("linear_before_reset", 1), ir.A("activations", []string{"HardSigmoid", "Affine"}), ir.A("activation_alpha", []float64{0.3, 0.5})))
	case "LSTM":
		out = append(out, make(1, false, ir.A("input_forget", 1), ir.A("activations", []string{"Sigmoid", "ScaledTanh", "Softsign"})))
	case "RNN":
		out = append(out, make(1, false, ir.A("activations", []string{"LeakyRelu"})))
	}
	return append(out, bare)
}
