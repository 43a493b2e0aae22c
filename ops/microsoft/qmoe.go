package microsoft

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// QMoE is a mixture of experts with weights of few bits.
var QMoE = composed(&ir.Op{Name: "QMoE",
	Doc: "MoE with weights packed along their last axis, low bits first: each stands for (weight-zero_point)*scale, " +
		"with a scale and a zero point (default 2^(bits-1), packed like the weights) per row, or per row and " +
		"block_size weights of it. The answers of experts are weighted by router_weights, if given, or else by the " +
		"softmax of the chosen router_probs alone, as ONNX Runtime does on processors.",
	In: ops.Sig("input:T", "router_probs:T", "fc1_experts_weights:uint8", "fc1_scales:T2", "fc1_experts_bias:T?",
		"fc2_experts_weights:uint8", "fc2_scales:T2", "fc2_experts_bias:T?", "fc3_experts_weights:uint8?",
		"fc3_scales:T2?", "fc3_experts_bias:T?", "fc1_zero_points:uint8?", "fc2_zero_points:uint8?",
		"fc3_zero_points:uint8?", "router_weights:T?"),
	Out: ops.Sig("output:T"), Elems: types{"T": half16, "T2": half16}, Tol: ir.Summing,
	Attrs: moeAttrs(ops.IntSpec("expert_weight_bits", 4, "bits of a weight: 2, 4 or 8"),
		ops.IntSpec("fc1_expert_weight_bits", nil, "bits of a weight of fc1"),
		ops.IntSpec("fc2_expert_weight_bits", nil, "bits of a weight of fc2"),
		ops.IntSpec("fc3_expert_weight_bits", nil, "bits of a weight of fc3"),
		ops.IntSpec("block_size", 0, "weights per scale, a power of two from 16, or 0: all of a row"),
		ops.ChoiceSpec("quant_type", "kind of the weights", "int"),
		ops.IntSpec("weights_prepacked", -1, "must be -1 or 0"),
		ops.IntSpec("accuracy_level", 0, "not used: products are those of the type of the input")),
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		if p := ops.Int(n, "weights_prepacked"); b.Err() == nil && p != 0 && p != -1 {
			return fail(b, "weights_prepacked: expected -1 or 0, found %d", p)
		}
		if size := ops.Int(n, "block_size"); b.Err() == nil && size != 0 &&
			(size < 16 || size&(size-1) != 0 || size > ops.MaxElems) {
			return fail(b, "block_size: expected 0 or a power of two from 16, found %d", size)
		}
		var fc [3]expertLayer
		for i := range fc {
			at := 2 + 3*i
			if in(x, at) == nil {
				continue
			}
			w, err := expertWeights(b, n, i+1, x[at], in(x, at+1), in(x, 11+i))
			if err != nil {
				return fail(b, "%v", err)
			}
			fc[i] = expertLayer{cast(b, w, x[0].Elem()), in(x, at+2)}
		}
		return experts(b, n, x[0], x[1], func(b *ir.Builder, _, best, at *ir.Value) *ir.Value {
			if w := in(x, 14); w != nil {
				return with(b, "GatherElements", vals(w, at), ir.A("axis", 1))
			}
			return with(b, "Softmax", vals(best), ir.A("axis", -1))
		}, fc)
	}})

// expertWeights returns the weights of layer fc of all experts, in the type of their scales.
func expertWeights(b *ir.Builder, n *ir.Node, fc int, packed, scales, zero *ir.Value) (*ir.Value, error) {
	name := fmt.Sprintf("fc%d_expert_weight_bits", fc)
	bits, size := n.Attrs.Int(name, ops.Int(n, "expert_weight_bits")), ops.Int(n, "block_size")
	axes := 2
	if size != 0 {
		axes = 3
	}
	switch {
	case scales == nil:
		return nil, fmt.Errorf("fc%d_scales: expected with fc%d_experts_weights", fc, fc)
	case bits != 2 && bits != 4 && bits != 8:
		return nil, fmt.Errorf("%s: expected 2, 4 or 8, found %d", name, bits)
	case rank(b, packed, "weights of experts") != 3 && b.Err() == nil:
		return nil, fmt.Errorf("fc%d_experts_weights: expected 3 axes, found %v", fc, packed.Type)
	case rank(b, scales, "scales of experts") != axes && b.Err() == nil:
		return nil, fmt.Errorf("fc%d_scales: expected %d axes, found %v", fc, axes, scales.Type)
	case b.Err() != nil:
		return nil, nil
	}
	w := cast(b, unpacked(b, packed, bits, false), scales.Elem())
	if size != 0 {
		w = std(b, "Reshape", w, b.Ints(0, 0, -1, size))
	}
	last := b.Ints(-1)
	if zero == nil {
		w = std(b, "Sub", w, constLike(b, scales, float64(int64(1)<<(bits-1))))
	} else { // its last byte may hold fewer
		count := with(b, "Shape", vals(scales), ir.A("start", axes-1))
		z := std(b, "Slice", unpacked(b, zero, bits, false), b.Ints(0), count, last)
		w = std(b, "Sub", w, cast(b, std(b, "Unsqueeze", z, last), scales.Elem()))
	}
	w = std(b, "Mul", w, std(b, "Unsqueeze", scales, last))
	if size != 0 {
		w = std(b, "Reshape", w, b.Ints(0, 0, -1))
	}
	return w, nil
}
