package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// recurrentSamples returns samples for layers with a state.
func recurrentSamples(o *ir.Op) []opstest.Sample {
	gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[o.Name]
	if gates == 0 {
		return nil
	}
	const length, batch, inputs, hidden = 5, 2, 3, 4
	outs := len(o.Out)
	make := func(dirs int, first bool, more ...ir.Attr) opstest.Sample {
		x, h := []int{length, batch, inputs}, []int{dirs, batch, hidden}
		if first {
			x, h = []int{batch, length, inputs}, []int{batch, dirs, hidden}
			more = append(more, ir.A("layout", 1))
		}
		in := []tensor.Datum{normal(x...), normal(dirs, gates*hidden, inputs), normal(dirs, gates*hidden, hidden),
			normal(dirs, 2*gates*hidden), nil, normal(h...)}
		if o.Name == "LSTM" {
			in = append(in, normal(h...), normal(dirs, 3*hidden))
		}
		return of(in...).With(append(more, ir.A("hidden_size", hidden))...).Gives(outs)
	}
	short := func(s opstest.Sample) opstest.Sample { s.In[4] = tensor.FromSlice([]int32{5, 3}, 2); return s }
	out := []opstest.Sample{make(1, false), make(1, true), make(1, false, ir.A("direction", "reverse")),
		make(2, true, ir.A("direction", "bidirectional"), ir.A("clip", 0.5)),
		short(make(2, false, ir.A("direction", "bidirectional")))}
	bare := make(1, false)
	bare.In = bare.In[:3]
	bare.Outs = 1
	switch o.Name {
	case "GRU":
		out = append(out, make(1, false, ir.A("linear_before_reset", 1),
			ir.A("activations", []string{"HardSigmoid", "Affine"}), ir.A("activation_alpha", []float64{0.3, 0.5})))
	case "LSTM":
		out = append(out, make(1, false, ir.A("input_forget", 1),
			ir.A("activations", []string{"Sigmoid", "ScaledTanh", "Softsign"})))
	case "RNN":
		out = append(out, make(1, false, ir.A("activations", []string{"LeakyRelu"})))
	}
	return append(out, bare)
}

// attentionSamples returns samples for attention in all forms.
func attentionSamples(o *ir.Op) []opstest.Sample {
	heads := func(q, kv int) []ir.Attr { return []ir.Attr{ir.A("q_num_heads", q), ir.A("kv_num_heads", kv)} }
	switch o.Name {
	case "Attention":
		q, k, v := normal(2, 4, 5, 3), normal(2, 2, 6, 3), normal(2, 2, 6, 4)
		return []opstest.Sample{of(q, k, v).Gives(4),
			of(q, k, v, bools(5, 6)).With(ir.A("qk_matmul_output_mode", 2), ir.A("softcap", 2.0)).Gives(4),
			of(normal(2, 5, 12), normal(2, 5, 6), normal(2, 5, 8)).With(append(heads(4, 2), ir.A("is_causal", 1))...),
			of(normal(2, 5, 12), normal(2, 5, 12), normal(2, 5, 12)).With(append(heads(4, 4),
				ir.A("left_window_size", 2), ir.A("right_window_size", 1), ir.A("scale", 0.5))...),
			of(q, k, v, normal(2, 1, 1, 9), normal(2, 2, 3, 3), normal(2, 2, 3, 4)).With(ir.A("is_causal", 1),
				ir.A("qk_matmul_output_mode", 3)).Gives(4),
			of(q, k, v, nil, nil, nil, vec(6, 4)).With(ir.A("is_causal", 1), ir.A("qk_matmul_output_mode", 1)).Gives(4),
			of(q, k, v, normal(4)).Gives(1)}
	case "LinearAttention":
		rule := func(name string) []ir.Attr { return append(heads(4, 2), ir.A("update_rule", name)) }
		q, k, v := normal(2, 5, 12), normal(2, 5, 6), normal(2, 5, 8)
		return []opstest.Sample{of(q, k, v).With(rule("linear")...).Gives(2),
			of(q, k, v, normal(2, 2, 3, 4), inside(-1, 0, 2, 5, 2)).With(rule("gated")...).Gives(2),
			of(q, k, v, nil, nil, inside(0, 1, 2, 5, 1)).With(append(rule("delta"), ir.A("scale", 0.7))...).Gives(2),
			of(q, k, v, nil, inside(-1, 0, 2, 5, 6), inside(0, 1, 2, 5, 2)).With(heads(4, 2)...).Gives(2)}
	case "CausalConvWithState":
		return []opstest.Sample{of(normal(2, 3, 5), normal(3, 1, 4), normal(3),
			normal(2, 3, 3)).With(ir.A("activation", "silu")).Gives(2), of(normal(2, 3, 7), normal(3, 1, 3)).Gives(2),
			of(normal(2, 3, 2), normal(3, 1, 4), normal(3)).Gives(2), of(normal(2, 3, 2), normal(3, 1, 1)).Gives(2)}
	case "RotaryEmbedding":
		return []opstest.Sample{of(normal(2, 3, 5, 8), normal(7, 4), normal(7, 4), whole(tensor.Int64, 0, 7, 2, 5)),
			of(normal(2, 5, 12), normal(2, 5, 1), normal(2, 5, 1)).With(ir.A("num_heads", 3),
				ir.A("rotary_embedding_dim", 2)),
			of(normal(2, 3, 5, 8), normal(2, 5, 4), normal(2, 5, 4)).With(ir.A("interleaved", 1))}
	}
	return nil
}
