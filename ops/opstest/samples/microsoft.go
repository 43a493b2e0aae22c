package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

func positive(shape ...int) tensor.Datum { return opstest.Inside(0.05, 0.2, shape...) }

func bytes(shape ...int) tensor.Datum { return whole(tensor.Uint8, 0, 256, shape...) }

func i32(v ...int32) tensor.Datum { return tensor.FromSlice(v, len(v)) }

// microsoftSamples returns samples for the operators of com.microsoft.
func microsoftSamples(o *ir.Op) []opstest.Sample {
	zero := func() tensor.Datum { return whole(tensor.Uint8, 100, 150) }
	pair := []tensor.Datum{bytes(2, 5), positive(), zero(), bytes(5), positive(), zero(), positive(), zero()}
	single := func(shape ...int) []tensor.Datum {
		return []tensor.Datum{bytes(shape...), positive(), zero(), positive(), nil}
	}
	heads, groups := ir.A("num_heads", 2), []ir.Attr{ir.A("groups", 2), ir.A("activation", 1)}
	switch o.Name {
	case "Gelu", "QuickGelu":
		return list{of(normal(2, 5, 3)), of(normal(0, 3))}
	case "FastGelu":
		return list{of(normal(2, 5, 3)), of(normal(2, 5, 3), normal(3))}
	case "BiasGelu":
		return list{of(normal(2, 5, 3), normal(3))}
	case "GemmFastGelu":
		return list{of(normal(2, 5, 3), normal(3, 4), normal(4)), of(normal(5, 3), normal(3, 2))}
	case "GridSample":
		places := normal(2, 3, 2, 2)
		return list{of(normal(2, 3, 4, 5), places), of(normal(2, 3, 4, 5), places).With(ir.A("mode", "bicubic"),
			ir.A("padding_mode", "border"), ir.A("align_corners", 1))}
	case "GatedAdd":
		return list{of(normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 1)), of(normal(3), normal(3), normal(1))}
	case "GatedRMSNorm":
		return list{of(normal(2, 5, 6), normal(3), normal(2, 5, 6)).Sized(0, 1),
			of(normal(4, 3), normal(3), normal(4, 3)).With(
				ir.A("activation", "sigmoid"), ir.A("epsilon", 0.5)).Sized(0, 1)}
	case "LinearAttentionGate":
		return list{of(normal(2, 5, 3), normal(3), normal(3), normal(2, 5, 3)).Gives(2),
			of(normal(2, 5, 3), normal(3), normal(3))}
	case "GatedRelativePositionBias":
		return list{of(normal(2, 5, 6), normal(6), normal(1, 2, 5, 5), normal(3, 8), normal(8),
			normal(1, 2, 1, 1)).With(
			heads).Sized(3)}
	case "BiasSplitGelu":
		return list{of(normal(2, 5, 4), normal(4))}
	case "BiasAdd":
		return list{of(normal(2, 5, 3), normal(3), normal(2, 5, 3))}
	case "FusedMatMul", "TransposeMatMul":
		out := list{of(normal(2, 5, 3), normal(3, 4)).With(ir.A("alpha", 0.5)),
			of(normal(2, 3, 5), normal(4, 3)).With(ir.A("transA", 1), ir.A("transB", 1))}
		if o.Name == "FusedMatMul" {
			out = append(out, of(normal(5, 2, 3), normal(2, 3, 4)).With(ir.A("transBatchA", 1)))
		}
		return out
	case "FusedGemm":
		return list{of(normal(5, 3), normal(3, 4), normal(4)).With(ir.A("activation", "LeakyRelu")),
			of(normal(3, 5), normal(3, 4)).With(ir.A("transA", 1))}
	case "FusedConv":
		return list{of(normal(2, 3, 7), normal(4, 3, 3), normal(4)).With(ir.A("pads", []int{2, 0}),
			ir.A("activation", "Relu")), of(normal(1, 2, 5), normal(2, 2, 2), nil, normal(1, 2, 4))}
	case "NhwcConv":
		return list{of(normal(2, 7, 3), normal(4, 3, 3), normal(4)).With(ir.A("pads", []int{2, 0}))}
	case "NhwcFusedConv":
		return list{of(normal(1, 5, 2), normal(2, 2, 2), nil, normal(1, 4, 2)).With(ir.A("activation", "Relu"))}
	case "SimplifiedLayerNormalization":
		return list{of(normal(2, 5, 3), normal(3)).Gives(2), of(normal(2, 5, 3), normal(5, 3)).With(ir.A("axis", 1))}
	case "SkipLayerNormalization":
		return list{of(normal(2, 5, 3), normal(2, 5, 3), normal(3), normal(3), normal(3)).Gives(4),
			of(normal(2, 5, 3), normal(5, 3), normal(3))}
	case "SkipSimplifiedLayerNormalization":
		return list{of(normal(2, 5, 3), normal(2, 5, 3), normal(3), normal(3)),
			of(normal(2, 5, 3), normal(5, 3), normal(3))}
	case "EmbedLayerNormalization":
		return list{of(whole(tensor.Int32, 0, 6, 2, 5), whole(tensor.Int32, 0, 2, 2, 5), normal(6, 4), normal(7, 4),
			normal(2, 4), normal(4), normal(4), whole(tensor.Int32, 0, 2, 2, 5)).Gives(3),
			of(whole(tensor.Int32, 0, 6, 2, 5), nil, normal(6, 4), normal(7, 4), nil, normal(4), normal(4))}
	case "GroupNorm":
		return list{of(normal(2, 3, 2, 4), normal(4), normal(4)).With(groups...),
			of(normal(2, 4, 3, 2), normal(4), normal(4)).With(append(groups, ir.A("channels_last", 0))...)}
	case "SkipGroupNorm":
		return list{of(normal(2, 3, 2, 4), normal(4), normal(4), normal(2, 3, 2, 4),
			normal(4)).With(groups...).Gives(2), of(normal(2, 3, 2, 4), normal(4), normal(4),
			normal(2, 4)).With(groups...)}
	case "Rfft":
		return list{of(normal(2, 5, 6)), of(normal(2, 3, 7)).With(ir.A("signal_ndim", 2))}
	case "Irfft":
		return list{of(normal(2, 5, 4, 2)).With(ir.A("signal_ndim", 1)),
			of(normal(3, 5, 4, 2)).With(ir.A("signal_ndim", 2))}
	case "ComplexMul", "ComplexMulConj":
		return list{of(normal(2, 5, 3, 2), normal(3, 2)), of(normal(5, 1, 2), normal(5, 4, 2))}
	case "Inverse":
		return list{of(normal(2, 5, 3, 3)), of(normal(1, 1))}
	case "MatMulNBits":
		k := []ir.Attr{ir.A("K", 20), ir.A("N", 3), ir.A("block_size", 16)}
		return list{of(normal(2, 5, 20), bytes(3, 2, 8), positive(6)).With(k...),
			of(normal(5, 20), bytes(3, 2, 8), positive(3, 2), bytes(3), nil, normal(3)).With(k...),
			of(normal(20), bytes(3, 2, 16), positive(3, 2), positive(3, 2),
				whole(tensor.Int32, 0, 2, 20)).With(append(k, ir.A("bits", 8))...)}
	case "MoE":
		return list{of(normal(2, 5, 6), normal(10, 4), normal(4, 3, 6), normal(4, 3), normal(4, 6, 3),
			normal(4, 6)).With(ir.A("k", 2), ir.A("activation_type", "gelu")),
			of(normal(5, 6), normal(5, 4), normal(4, 6, 6), nil, normal(4, 6, 3)).With(ir.A("k", 3),
				ir.A("activation_type", "swiglu"), ir.A("swiglu_fusion", 1), ir.A("normalize_routing_weights", 1),
				ir.A("activation_alpha", 1.702), ir.A("activation_beta", 1.0), ir.A("swiglu_limit", 0.5)),
			of(normal(5, 6), normal(5, 4), normal(4, 6, 6), nil,
				normal(4, 6, 3)).With(ir.A("activation_type", "swiglu"), ir.A("swiglu_fusion", 2)),
			of(normal(5, 6), normal(5, 4), normal(4, 3, 6), nil, normal(4, 6, 3), nil, normal(4, 3, 6),
				normal(4, 3)).With(ir.A("activation_type", "silu"), ir.A("k", 2))}
	case "QMoE":
		return list{of(normal(2, 5, 6), normal(10, 4), bytes(4, 4, 3), positive(4, 4), normal(4, 4), bytes(4, 6, 2),
			positive(4, 6), normal(4, 6)).With(ir.A("k", 2), ir.A("activation_type", "silu")),
			of(normal(5, 32), normal(5, 3), bytes(3, 16, 32), positive(3, 16, 2), nil, bytes(3, 32, 4),
				positive(3, 32, 1),
				nil, bytes(3, 16, 16), positive(3, 16, 2), normal(3, 16), bytes(3, 16, 2), bytes(3, 32, 1),
				bytes(3, 16, 1), opstest.Inside(0.1, 1, 5, 3)).With(ir.A("k", 2), ir.A("block_size", 16),
				ir.A("fc1_expert_weight_bits", 8), ir.A("fc2_expert_weight_bits", 2),
				ir.A("activation_type", "swiglu"))}
	case "MatMulBnb4":
		k := []ir.Attr{ir.A("K", 20), ir.A("N", 3), ir.A("block_size", 16)}
		return list{of(normal(2, 5, 20), bytes(30), positive(4)).With(append(k, ir.A("quant_type", 1))...),
			of(normal(5, 3), bytes(30), positive(4)).With(append(k, ir.A("quant_type", 0), ir.A("transB", 0))...)}
	case "DynamicQuantizeMatMul":
		return list{of(normal(5, 3), bytes(3, 4), positive(), zero(), normal(4)),
			of(normal(2, 5, 3), whole(tensor.Int8, -9, 9, 3, 4), positive(4))}
	case "MatMulIntegerToFloat":
		return list{of(bytes(5, 3), bytes(3, 4), positive(), positive(4), zero(), bytes(4), normal(4)),
			of(bytes(5, 3), bytes(3, 4), positive(), positive())}
	case "QGemm":
		return list{of(bytes(5, 3), positive(), zero(), bytes(4, 3), positive(4), bytes(4),
			whole(tensor.Int32, -99, 99, 4), positive(), zero()).With(ir.A("transB", 1)),
			of(bytes(3, 5), positive(), zero(), bytes(3, 4), positive(), zero()).With(ir.A("transA", 1),
				ir.A("alpha", 0.5))}
	case "MatMulInteger16":
		return list{of(whole(tensor.Int16, -99, 99, 5, 3), whole(tensor.Int16, -99, 99, 3, 4))}
	case "QLinearAdd", "QLinearMul":
		return list{of(pair...)}
	case "QLinearSigmoid", "QLinearLeakyRelu":
		return list{of(single(2, 5)...)}
	case "QLinearReduceMean":
		return list{of(single(2, 5, 3)...).With(ir.A("axes", []int{2}), ir.A("keepdims", 0))}
	case "QLinearGlobalAveragePool":
		return list{of(single(2, 3, 5)...), of(single(2, 5, 3)...).With(ir.A("channels_last", 1))}
	case "QLinearAveragePool":
		return list{of(single(2, 3, 5)...).With(ir.A("kernel_shape", []int{2})),
			of(single(2, 5, 3)...).With(ir.A("kernel_shape", []int{2}), ir.A("channels_last", 1))}
	case "QLinearSoftmax":
		return list{of(single(2, 5, 3)...).With(ir.A("opset", 13)),
			of(single(2, 5, 3)...).With(ir.A("opset", 11), ir.A("axis", 1))}
	case "QLinearConcat":
		return list{of(positive(), zero(), bytes(2, 5), positive(), zero(), bytes(2, 3), positive(),
			zero()).With(ir.A("axis", 1))}
	case "QLinearWhere":
		return list{of(opstest.Bools(5), bytes(2, 5), positive(), zero(), bytes(5), positive(), zero(), positive(),
			zero())}
	case "QuantizeLinear":
		return list{of(normal(2, 5), positive(), zero()),
			of(normal(2, 5), positive(2), whole(tensor.Int4, -3, 3, 2)).With(ir.A("axis", 0))}
	case "DequantizeLinear":
		return list{of(bytes(2, 5), positive(), zero()), of(bytes(2, 5), positive(5))}
	case "Trilu":
		return list{of(normal(2, 3, 3), opstest.Num(-1)), of(normal(3, 4)).With(ir.A("upper", 0))}
	case "Range":
		return list{of(opstest.Num(1), opstest.Num(9), opstest.Num(3)), of(opstest.Num(1), opstest.Num(4)).Fixed(0, 1)}
	case "GatherND":
		return list{of(normal(2, 5, 3), whole(tensor.Int32, 0, 2, 4, 2))}
	case "ExpandDims":
		return list{of(normal(2, 5), tensor.Scalar(int32(1))).Fixed(1), of(normal(2, 5), tensor.Scalar(int32(-1)))}
	case "Pad":
		return list{of(normal(2, 5), opstest.Vec(0, 2, 0, 1), positive(1)).Fixed(1),
			of(normal(2, 5), tensor.FromSlice([]int64{0, 2, 0, 1}, 1, 4)).With(ir.A("mode", "edge"))}
	case "Unique":
		return list{of(whole(tensor.Float32, 0, 3, 6)).Gives(3)}
	case "RotaryEmbedding":
		return list{of(normal(2, 5, 8), whole(tensor.Int64, 0, 7, 2, 5), normal(7, 2), normal(7, 2)).Sized(2, 3),
			of(normal(2, 3, 5, 4), opstest.Vec(1), normal(7, 2), normal(7, 2)).With(ir.A("interleaved", 1)).Sized(2, 3),
			of(normal(2, 5, 12), whole(tensor.Int64, 0, 7, 2, 5), normal(7, 2), normal(7, 2)).With(ir.A("num_heads", 2),
				ir.A("rotary_embedding_dim", 4)).Sized(0, 2, 3)}
	case "Attention":
		return list{of(normal(2, 5, 6), normal(6, 12), normal(12)).With(heads),
			of(normal(2, 5, 6), normal(6, 12), normal(12), i32(3, 5), normal(2, 2, 2, 3, 2)).With(heads,
				ir.A("unidirectional", 1)).Gives(2)}
	case "MultiHeadAttention":
		return list{of(normal(2, 5, 6), normal(2, 4, 6), normal(2, 4, 6), normal(18),
			whole(tensor.Int32, 0, 2, 2, 4)).With(heads),
			of(normal(2, 5, 2, 3, 4)).With(heads, ir.A("unidirectional", 1)),
			of(normal(2, 5, 8), normal(2, 3, 2, 2, 4), nil, nil, nil, nil, normal(2, 2, 2, 4),
				normal(2, 2, 2, 4)).With(heads).Gives(3)}
	case "QAttention":
		scale := []tensor.Datum{positive(), positive()}
		return list{of(append([]tensor.Datum{bytes(2, 5, 6), bytes(6, 12), normal(12)}, scale...)...).With(heads),
			of(append([]tensor.Datum{bytes(2, 5, 6), whole(tensor.Int8, -9, 9, 6, 12), normal(12)}, append(scale,
				i32(3, 5), zero(), whole(tensor.Int8, -3, 3), normal(2, 2, 2, 3, 2))...)...).With(heads,
				ir.A("unidirectional", 1)).Gives(2)}
	case "GroupQueryAttention":
		shared := func(more ...ir.Attr) []ir.Attr { return append(more, ir.A("num_heads", 4), ir.A("kv_num_heads", 2)) }
		lens, total := i32(4, 4), tensor.Scalar(int32(5))
		q, k, v := normal(2, 5, 16), normal(2, 5, 8), normal(2, 5, 8)
		return list{of(q, k, v, nil, nil, lens, total).With(shared()...).Gives(3).Sized(0),
			of(normal(2, 1, 32), nil, nil, normal(2, 2, 4, 4), normal(2, 2, 4, 4), i32(2, 4), total, normal(9, 2),
				normal(9, 2)).With(shared(ir.A("do_rotary", 1), ir.A("local_window_size", 2))...).Gives(3).Sized(0, 7,
				8),
			of(q, k, v, nil, nil, lens, total, nil, nil, nil, normal(2, 4, 5, 5), normal(4)).With(shared(ir.A("softcap",
				2.0))...).Sized(0)}
	case "SparseAttention":
		rows, columns := tensor.FromSlice([]int32{0, 1, 3, 0, 1, 2}, 2, 3),
			tensor.FromSlice([]int32{0, 0, 1, 0, 1, -1}, 2, 3)
		attrs := []ir.Attr{ir.A("num_heads", 4), ir.A("kv_num_heads", 2), ir.A("sparse_block_size", 4)}
		return list{of(normal(2, 5, 16), normal(2, 5, 8), normal(2, 5, 8), normal(2, 2, 8, 4), normal(2, 2, 8, 4), rows,
			columns, tensor.Scalar(int32(5)), i32(5, 5)).With(attrs...).Gives(3).Sized(0, 5, 6),
			of(normal(2, 1, 32), nil, nil, normal(2, 2, 8, 4), normal(2, 2, 8, 4), rows, columns,
				tensor.Scalar(int32(7)),
				i32(7, 3), normal(9, 2), normal(9, 2)).With(append(attrs, ir.A("do_rotary", 1))...).Gives(3).Sized(0, 5,
				6, 9, 10)}
	case "LinearAttention":
		heads := []ir.Attr{ir.A("q_num_heads", 2), ir.A("kv_num_heads", 2)}
		q, k, v := normal(2, 5, 6), inside(-0.5, 0.5, 2, 5, 6), normal(2, 5, 4)
		return list{of(q, k, v, normal(2, 2, 3, 2), inside(-1, 0, 2, 5, 2),
			inside(0, 1, 2, 5, 1)).With(heads...).Gives(2),
			of(q, k, v, nil, inside(-1, 0, 2, 5, 6)).With(append(heads, ir.A("update_rule", "gated"))...).Gives(2)}
	case "CausalConvWithState":
		return list{of(normal(2, 3, 5), normal(3, 1, 4), normal(3),
			normal(2, 3, 3)).With(ir.A("activation", "silu")).Gives(2).Sized(1),
			of(normal(2, 5, 3), normal(3, 1, 2)).With(ir.A("channels_last", 1)).Gives(2).Sized(1)}
	case "RelativePositionBias":
		return list{of(normal(8, 2), tensor.Scalar(int64(5)),
			tensor.Scalar(int64(7))).With(ir.A("max_distance", 6)).Sized(0),
			of(normal(8, 3), tensor.Scalar(int64(9)), tensor.Scalar(int64(9))).With(ir.A("max_distance", 5),
				ir.A("is_bidirectional", 1)).Sized(0)}
	case "NhwcMaxPool":
		return list{of(bytes(2, 7, 3)).With(ir.A("kernel_shape", []int{2}), ir.A("strides", []int{2}))}
	case "QLinearConv":
		conv := func(shape ...int) opstest.Sample {
			return of(bytes(shape...), positive(), zero(), whole(tensor.Int8, -9, 9, 4, 3, 3), positive(),
				whole(tensor.Int8, 0, 1), positive(), zero(), whole(tensor.Int32, -99, 99, 4))
		}
		return list{conv(2, 3, 7), conv(2, 7, 3).With(ir.A("channels_last", 1), ir.A("pads", []int{2, 0}))}
	case "GatherBlockQuantized":
		return list{of(bytes(6, 32), whole(tensor.Int64, 0, 6, 2, 3), normal(6, 2), bytes(6, 2)).With(ir.A("bits", 8),
			ir.A("block_size", 16)), of(bytes(6, 12), whole(tensor.Int32, 0, 6, 3), normal(6, 2),
			bytes(6, 1)).With(ir.A("block_size", 16)), of(whole(tensor.Int4, -8, 8, 6, 16),
			whole(tensor.Int64, 0, 6, 3),
			normal(6, 1)).With(ir.A("block_size", 16))}
	case "CDist":
		return list{of(normal(5, 3), normal(4, 3)), of(normal(5, 3), normal(4, 3)).With(ir.A("metric", "euclidean"))}
	case "DynamicQuantizeLSTM":
		return list{of(normal(5, 2, 3), bytes(1, 3, 16), bytes(1, 4, 16), normal(1, 32), nil, normal(1, 2, 4),
			normal(1, 2, 4), nil, positive(1), bytes(1), positive(1), bytes(1)).With(ir.A("hidden_size", 4)).Gives(3),
			of(normal(5, 2, 3), whole(tensor.Int8, -9, 9, 2, 3, 16), whole(tensor.Int8, -9, 9, 2, 4, 16), nil, nil, nil,
				nil, nil, positive(2, 16), whole(tensor.Int8, -3, 3, 2, 16), positive(2, 16),
				whole(tensor.Int8, -3, 3, 2, 16)).With(ir.A("hidden_size", 4),
				ir.A("direction", "bidirectional")).Gives(3)}
	case "Tokenizer":
		token := func(more ...ir.Attr) []ir.Attr {
			return append(more, ir.A("mark", 1), ir.A("mincharnum", 1), ir.A("pad_value", "#"))
		}
		return list{of(words("a b", " c  d e ", "")).With(token(ir.A("separators", []string{" "}))...),
			of(tensor.FromStrings([]string{"ab,c", "d"}, 1, 2)).With(token(ir.A("tokenexp", "[a-z]+"))...),
			of(words("Ä b")).With(token(ir.A("separators", []string{""}))...)}
	}
	return nil
}
