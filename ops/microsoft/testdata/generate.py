"""Makes ort.json: answers of ONNX Runtime's CPU provider for operators of com.microsoft. Run it in this folder.

It has no kernels for Rfft, Irfft, ComplexMul, ComplexMulConj, BiasAdd, BiasSplitGelu, GroupNorm, SkipGroupNorm, NhwcConv, NhwcFusedConv (float32),
QLinearReduceMean and attention to packed inputs.
"""
import sys

sys.path.insert(0, "../../opstest")
from oracle import cases, np, run, save  # noqa: E402

rng = np.random.default_rng(2)


def f32(*shape):
    return rng.normal(size=shape).astype(np.float32)


def u8(*shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def scale(x):
    return np.array(x, np.float32)


ms = run
for op in ("Gelu", "QuickGelu", "FastGelu"):
    ms(op, op, [f32(2, 5)])
ms("QuickGelu_alpha", "QuickGelu", [f32(2, 5)], alpha=1.0)
ms("FastGelu_bias", "FastGelu", [f32(2, 3, 5), f32(5)])
ms("BiasGelu", "BiasGelu", [f32(2, 3, 5), f32(5)])
ms("matmul", "FusedMatMul", [f32(2, 3, 4), f32(2, 4, 5)], alpha=0.5)
ms("matmul_ta", "FusedMatMul", [f32(2, 4, 3), f32(4, 5)], transA=1)
ms("matmul_tb", "FusedMatMul", [f32(3, 4), f32(2, 5, 4)], transB=1, alpha=2.0)
ms("matmul_vector", "FusedMatMul", [f32(4), f32(2, 4, 5)], transA=1)
ms("matmul_tba", "FusedMatMul", [f32(3, 2, 4), f32(2, 4, 5)], transBatchA=1)
ms("matmul_tba_ta", "FusedMatMul", [f32(4, 2, 3), f32(2, 4, 5)], transBatchA=1, transA=1)
ms("matmul_tbb", "FusedMatMul", [f32(2, 3, 4), f32(4, 2, 5)], transBatchB=1)
ms("matmul_tbb_tb", "FusedMatMul", [f32(2, 3, 4), f32(5, 2, 4)], transBatchB=1, transB=1)
ms("transpose_matmul", "TransposeMatMul", [f32(2, 4, 3), f32(2, 4, 5)], transA=1)
for act, attrs in [("Relu", {}), ("LeakyRelu", dict(activation_alpha=0.2)), ("HardSigmoid", dict(activation_alpha=0.3, activation_beta=0.4)), ("Tanh", {}), ("Sigmoid", {}),
                   ("Elu", dict(activation_alpha=0.7)), ("ScaledTanh", dict(activation_alpha=0.7, activation_beta=0.4)), ("ParametricSoftplus", dict(activation_alpha=0.7, activation_beta=0.4))]:
    ms("gemm_" + act, "FusedGemm", [f32(4, 3), f32(4, 5), f32(5)], transA=1, alpha=0.5, beta=2.0, activation=act, **attrs)
for act, params in [("Relu", None), ("LeakyRelu", [0.2]), ("HardSigmoid", [0.3, 0.4]), ("Clip", [-0.5, 0.5]), ("Sigmoid", None), ("Tanh", None)]:
    ms("conv_" + act, "FusedConv", [f32(1, 4, 6, 5), f32(2, 2, 3, 3), f32(2)], group=2, pads=[1, 0, 1, 0], activation=act, **({"activation_params": params} if params else {}))
ms("conv_add", "FusedConv", [f32(1, 2, 6), f32(3, 2, 3), f32(3), f32(1, 3, 4)], activation="Relu", kernel_shape=[3])
ms("rms", "SimplifiedLayerNormalization", [f32(2, 3, 5), f32(5)], 2, domain="", version=18)
ms("rms_axis", "SimplifiedLayerNormalization", [f32(2, 3, 5), f32(3, 5)], domain="", version=18, axis=1, epsilon=0.1)
ms("layernorm_16", "LayerNormalization", [f32(2, 3, 5), f32(5), f32(5)], domain="", version=16)
ms("skip", "SkipLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)], [True, False, False, True], epsilon=0.001)
ms("skip_broadcast", "SkipLayerNormalization", [f32(2, 3, 8), f32(3, 8), f32(8), f32(8)])
ms("skip_plain", "SkipLayerNormalization", [f32(2, 3, 8), f32(1, 3, 8), f32(8)])
ms("skip_rms", "SkipSimplifiedLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8)], [True, False, False, True], epsilon=0.01)
ids = rng.integers(0, 6, (2, 4)).astype(np.int32)
ms("embed", "EmbedLayerNormalization", [ids, rng.integers(0, 2, (2, 4)).astype(np.int32), f32(6, 8), f32(5, 8), f32(2, 8), f32(8), f32(8), np.array([[1, 1, 0, 0], [1, 1, 1, 0]], np.int32)], 3)
ms("embed_plain", "EmbedLayerNormalization", [ids, None, f32(6, 8), f32(5, 8), None, f32(8), f32(8), None, np.array([[3, 1, 0, 2]], np.int32)], 2, epsilon=0.01)
ms("Inverse", "Inverse", [f32(2, 4, 4)])
ms("Inverse_double", "Inverse", [np.array([[0, 1], [2, 0]], np.float64)])
for bits in (2, 4, 8):
    for k in (32, 40):
        blocks, n = (k + 15) // 16, 3
        b, s = u8(n, blocks, 16 * bits // 8), np.abs(f32(n, blocks)) / 10
        ms(f"nbits_{bits}_{k}", "MatMulNBits", [f32(2, k), b, s.ravel()], consts=(1, 2), K=k, N=n, bits=bits, block_size=16)
        ms(f"nbits_{bits}_{k}_zero", "MatMulNBits", [f32(2, k), b, s.ravel(), u8(n * ((blocks * bits + 7) // 8))], consts=(1, 2, 3), K=k, N=n, bits=bits, block_size=16)
ms("nbits_float_zero", "MatMulNBits", [f32(2, 32), u8(3, 2, 8), np.abs(f32(6)), np.abs(f32(3, 2)) * 4], consts=(1, 2, 3), K=32, N=3, bits=4, block_size=16)
ms("nbits_group", "MatMulNBits", [f32(2, 32), u8(3, 2, 8), np.abs(f32(6)), None, rng.integers(0, 2, 32).astype(np.int32)], consts=(1, 2, 4), K=32, N=3, bits=4, block_size=16)
ms("nbits_bias", "MatMulNBits", [f32(2, 3, 32), u8(3, 2, 8), np.abs(f32(6)), None, None, f32(3)], consts=(1, 2), K=32, N=3, bits=4, block_size=16)
# Weights keep to 7 bits, beyond which some of its kernels saturate sums of two products.
ms("dynamic", "DynamicQuantizeMatMul", [f32(3, 4), i8(4, 5) // 2, scale(0.02), np.array(3, np.int8), f32(5)])
ms("dynamic_columns", "DynamicQuantizeMatMul", [f32(2, 3, 4), u8(4, 5), np.abs(f32(5)) / 50, u8(5)])
ms("integer_float", "MatMulIntegerToFloat", [u8(3, 4), i8(4, 5) // 2, scale(0.1), np.abs(f32(5)) / 50, np.array(7, np.uint8), i8(5) // 2, f32(5)])
ms("integer_float_plain", "MatMulIntegerToFloat", [u8(3, 4), u8(4, 5), scale(0.1), scale(0.2)])
ms("integer16", "MatMulInteger16", [rng.integers(-30000, 30000, (2, 3)).astype(np.int16), rng.integers(-30000, 30000, (3, 2)).astype(np.int16)])
z8 = lambda k: np.array(k, np.uint8)  # noqa: E731
for op in ("QLinearAdd", "QLinearMul"):
    ms(op, op, [u8(2, 5), scale(0.1), z8(128), u8(5), scale(0.05), z8(10), scale(0.2), z8(120)])
    ms(op + "_int8", op, [i8(2, 5), scale(0.1), np.array(5, np.int8), i8(2, 5), scale(0.05), np.array(-3, np.int8), scale(0.3), np.array(9, np.int8)])
ms("QLinearSigmoid", "QLinearSigmoid", [u8(2, 5), scale(0.05), z8(128), scale(1 / 256), z8(0)])
ms("QLinearLeakyRelu", "QLinearLeakyRelu", [i8(2, 5), scale(0.05), np.array(3, np.int8), scale(0.04), np.array(-20, np.int8)], alpha=0.1)
ms("QLinearGlobalAveragePool", "QLinearGlobalAveragePool", [u8(1, 3, 4, 5), scale(0.05), z8(128), scale(0.02), z8(120)])
ms("QLinearGlobalAveragePool_last", "QLinearGlobalAveragePool", [u8(1, 4, 5, 3), scale(0.05), z8(128), scale(0.02), z8(120)], channels_last=1)
ms("QLinearAveragePool", "QLinearAveragePool", [u8(1, 3, 4, 5), scale(0.05), z8(128), scale(0.037), z8(120)], kernel_shape=[2, 2], strides=[1, 2])
ms("QLinearConcat", "QLinearConcat", [scale(0.1), z8(100), u8(2, 3), scale(0.2), z8(50), u8(2, 2), scale(0.05), z8(128)], axis=1)
ms("QLinearSoftmax", "QLinearSoftmax", [u8(2, 6), scale(0.05), z8(128), scale(1 / 256), z8(0)], opset=13)
ms("QLinearWhere", "QLinearWhere", [np.array([True, False, True]), u8(2, 3), scale(0.1), z8(3), u8(3), scale(0.2), z8(9), scale(0.15), z8(1)])
ms("quantize", "QuantizeLinear", [f32(2, 3), np.array([0.1, 0.2, 0.05], np.float32), i8(3)], axis=1)
ms("quantize16", "QuantizeLinear", [f32(2, 3), scale(0.001), np.array(7, np.uint16)])
ms("dequantize", "DequantizeLinear", [i8(2, 3), np.array([0.1, 0.2], np.float32), i8(2)], axis=0)
ms("trilu", "Trilu", [f32(2, 3, 4), np.array(-1, np.int64)], upper=0)
ms("range", "Range", [np.array(1, np.int64), np.array(8, np.int64), np.array(3, np.int64)])
ms("range_plain", "Range", [scale(0.5), scale(4)])
ms("gathernd", "GatherND", [f32(2, 3, 4), np.array([[0, 1], [1, 2]], np.int32)])
ms("expanddims", "ExpandDims", [f32(2, 3), np.array(-1, np.int32)])
ms("expanddims_fixed", "ExpandDims", [f32(2, 3), np.array(1, np.int32)], consts=(1,))
ms("pad", "Pad", [f32(2, 3), np.array([[0, 1, 2, 0]], np.int64), np.array([0.5], np.float32)])
ms("pad_reflect", "Pad", [f32(2, 3), np.array([0, 1, 0, 2], np.int64)], mode="reflect")
ms("unique", "Unique", [np.array([3, 1, 3, 2, 1], np.float32)], 3)
cos, sin = f32(10, 4), f32(10, 4)
for inter in (0, 1):
    ms(f"rotary_{inter}", "RotaryEmbedding", [f32(2, 3, 16), rng.integers(0, 10, (2, 3)), cos, sin], interleaved=inter)
    ms(f"rotary_offset_{inter}", "RotaryEmbedding", [f32(2, 2, 3, 8), np.array([4], np.int64), cos, sin], interleaved=inter)
    ms(f"rotary_partial_{inter}", "RotaryEmbedding", [f32(2, 3, 24), rng.integers(0, 10, (2, 3)), cos, sin], interleaved=inter, num_heads=2, rotary_embedding_dim=8)
ms("attention", "Attention", [f32(2, 3, 8), f32(8, 24), f32(24)], num_heads=2)
ms("attention_lengths", "Attention", [f32(2, 3, 8), f32(8, 24), f32(24), np.array([2, 3], np.int32)], num_heads=2)
ms("attention_mask", "Attention", [f32(2, 3, 8), f32(8, 24), f32(24), np.array([[1, 1, 0], [1, 0, 1]], np.int32)], num_heads=2)
ms("attention_mask3", "Attention", [f32(1, 3, 8), f32(8, 24), f32(24), rng.integers(0, 2, (1, 3, 3)).astype(np.int32)], num_heads=4)
ms("attention_causal", "Attention", [f32(2, 3, 8), f32(8, 24), f32(24)], num_heads=2, unidirectional=1, scale=0.3)
ms("attention_past", "Attention", [f32(2, 3, 8), f32(8, 24), f32(24), None, f32(2, 2, 2, 4, 4)], 2, num_heads=2, unidirectional=1)
ms("attention_bias", "Attention", [f32(2, 3, 8), f32(8, 24), f32(24), None, None, f32(2, 2, 3, 3)], num_heads=2)
ms("attention_sizes", "Attention", [f32(2, 3, 8), f32(8, 28), f32(28)], num_heads=2, qkv_hidden_sizes=[8, 8, 12])
ms("mha", "MultiHeadAttention", [f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8)], num_heads=2)
ms("mha_bias", "MultiHeadAttention", [f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 12), f32(28)], num_heads=2)
ms("mha_split", "MultiHeadAttention", [f32(2, 3, 8), f32(2, 2, 5, 4), f32(2, 2, 5, 4)], num_heads=2)
ms("mha_mask", "MultiHeadAttention", [f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8), None, np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)], num_heads=2)
ms("mha_lengths", "MultiHeadAttention", [f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8), None, np.array([3, 5], np.int32)], num_heads=2)
ms("mha_attention_bias", "MultiHeadAttention", [f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8), None, None, f32(1, 2, 3, 5)], num_heads=2, scale=0.7)
ms("mha_past", "MultiHeadAttention", [f32(2, 3, 8), f32(2, 3, 8), f32(2, 3, 8), None, None, None, f32(2, 2, 4, 4), f32(2, 2, 4, 4)], 3, num_heads=2, unidirectional=1)
# Caches, quantized attention and gathering, distances, texts.
gqa = dict(num_heads=4, kv_num_heads=2)


def lens(*n):
    return np.array(n, np.int32) - 1


def total(n):
    return np.array(n, np.int32)


def qkv(b, n, e=16, kv=2):
    return [f32(b, n, 4 * e), f32(b, n, kv * e), f32(b, n, kv * e)]


cos, sin = f32(12, 8), f32(12, 8)
ms("gqa_prompt", "GroupQueryAttention", qkv(2, 3) + [None, None, lens(3, 3), total(3)], 3, **gqa)
ms("gqa_past", "GroupQueryAttention", qkv(2, 1) + [f32(2, 2, 4, 16), f32(2, 2, 4, 16), lens(5, 5), total(5)], 3, **gqa)
ms("gqa_chunk", "GroupQueryAttention", qkv(1, 3) + [f32(1, 2, 4, 16), f32(1, 2, 4, 16), lens(7), total(7)], 3, **gqa)
ms("gqa_lengths", "GroupQueryAttention", qkv(2, 1) + [f32(2, 2, 6, 16), f32(2, 2, 6, 16), lens(3, 5), total(5)], 3, scale=0.3, **gqa)
ms("gqa_rotary", "GroupQueryAttention", qkv(2, 3) + [None, None, lens(3, 3), total(3), cos, sin], 3, do_rotary=1, **gqa)
ms("gqa_rotary_past", "GroupQueryAttention", qkv(2, 1) + [f32(2, 2, 6, 16), f32(2, 2, 6, 16), lens(3, 5), total(5), cos, sin], 3, do_rotary=1, rotary_interleaved=1, **gqa)
ms("gqa_window", "GroupQueryAttention", qkv(1, 6) + [None, None, lens(6), total(6)], 3, local_window_size=2, **gqa)
ms("gqa_window_past", "GroupQueryAttention", qkv(1, 1) + [f32(1, 2, 6, 16), f32(1, 2, 6, 16), lens(7), total(7)], 3, local_window_size=3, **gqa)
ms("gqa_softcap", "GroupQueryAttention", qkv(1, 3) + [None, None, lens(3), total(3)], 3, softcap=1.5, **gqa)
ms("gqa_packed", "GroupQueryAttention", [f32(2, 3, 128), None, None, None, None, lens(3, 3), total(3), cos, sin], 3, do_rotary=1, **gqa)
ms("gqa_bias", "GroupQueryAttention", qkv(2, 3) + [None, None, lens(3, 3), total(3), None, None, None, f32(2, 4, 3, 3)], 3, **gqa)
ms("gqa_smooth", "GroupQueryAttention", qkv(1, 3) + [None, None, lens(3), total(3)], 3, smooth_softmax=1, **gqa)
ms("gqa_sink", "GroupQueryAttention", qkv(1, 1) + [f32(1, 2, 4, 16), f32(1, 2, 4, 16), lens(5), total(5), None, None, None, None, f32(4)], 3, **gqa)
ms("qattention", "QAttention", [u8(2, 3, 8), i8(8, 24), f32(24), scale(0.05), scale(0.02), None, z8(120), np.array(3, np.int8)], num_heads=2)
ms("qattention_past", "QAttention", [u8(2, 3, 8), u8(8, 24), f32(24), scale(0.01), scale(0.02), np.array([2, 3], np.int32), z8(120), z8(130), f32(2, 2, 2, 4, 4)], 2, num_heads=2)
ms("nhwcmaxpool", "NhwcMaxPool", [u8(1, 5, 6, 3)], kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1])
for last in (0, 1):
    ms(f"qlinearconv_{last}", "QLinearConv", [u8(1, 4, 4, 4), scale(0.05), z8(120), i8(3, 4, 2, 2), scale(0.02), np.array(0, np.int8), scale(0.3), z8(100), rng.integers(-99, 99, 3).astype(np.int32)], channels_last=last)
ms("gatherblock8", "GatherBlockQuantized", [u8(6, 32), np.array([[3, 0], [5, 5]], np.int64), f32(6, 2), u8(6, 2)], bits=8, block_size=16)
ms("gatherblock4", "GatherBlockQuantized", [u8(6, 24), np.array([3, 0, 5], np.int64), f32(6, 3), u8(6, 2)], bits=4, block_size=16)
ms("gatherblock4_zero", "GatherBlockQuantized", [u8(6, 16), np.array([3, 0, 5], np.int32), f32(6, 1)], bits=4, block_size=32)
ms("cdist", "CDist", [f32(3, 5), f32(4, 5)], metric="euclidean")
ms("cdist_square", "CDist", [f32(3, 5).astype(np.float64), f32(4, 5).astype(np.float64)], metric="sqeuclidean")
texts = np.array(["a b c", "", "hello, big  world!", "Äpfel.und.Öl x"], object)
token = dict(mark=0, mincharnum=1, pad_value="#")
ms("tokens_space", "Tokenizer", [texts], separators=[" "], **token)
ms("tokens_several", "Tokenizer", [texts], separators=[" ", "[.]", ","], mark=1, mincharnum=2, pad_value="")
ms("tokens_longest", "Tokenizer", [texts], separators=["l|ll", "[ ,.]+"], **token)
ms("tokens_matrix", "Tokenizer", [texts.reshape(2, 2)], separators=["[ .]"], **token)
ms("tokens_chars", "Tokenizer", [texts], separators=[""], mark=1, mincharnum=1, pad_value="_")
ms("tokens_words", "Tokenizer", [texts], tokenexp="[a-zA-Z0-9_]+", **token)
ms("tokens_least", "Tokenizer", [texts], tokenexp=r"\w\w+|\pL", mark=1, mincharnum=3, pad_value="#")
ms("tokens_none", "Tokenizer", [np.array(["  ", ""], object)], separators=[" "], **token)


def small(*shape):
    return rng.uniform(0.005, 0.01, shape).astype(np.float32)


def zeros(*shape):
    return (110 + rng.integers(0, 30, shape)).astype(np.uint8)


ms("dynamiclstm", "DynamicQuantizeLSTM", [f32(5, 2, 6), u8(1, 6, 32), u8(1, 8, 32), f32(1, 64), None, f32(1, 2, 8), f32(1, 2, 8), None, small(1), zeros(1), small(1), zeros(1)], 3, hidden_size=8)
none = np.zeros((2, 32), np.int8)
ms("dynamiclstm_columns", "DynamicQuantizeLSTM", [f32(5, 2, 6), i8(2, 6, 32), i8(2, 8, 32), f32(2, 64), None, None, None, None, small(2, 32), none, small(2, 32), none], 3, consts=(1, 2, 8, 9, 10, 11), hidden_size=8, direction="bidirectional")
for c in cases[-2:]:
    c.update(rtol=0, atol=0.02, note="its hidden state is quantized at each step")
for code in (0, 1):  # one row with all codes, one of odd size, blocks over the ends of rows
    ms(f"bnb4_{code}", "MatMulBnb4", [np.eye(16, dtype=np.float32), np.array([0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF], np.uint8), np.abs(f32(1))], consts=(1, 2), K=16, N=1, block_size=16, quant_type=code)
    ms(f"bnb4_{code}_blocks", "MatMulBnb4", [f32(2, 3, 48), u8(72), np.abs(f32(9))], consts=(1, 2), K=48, N=3, block_size=16, quant_type=code)
    ms(f"bnb4_{code}_odd", "MatMulBnb4", [f32(2, 9), u8(14), np.abs(f32(2))], consts=(1, 2), K=9, N=3, block_size=16, quant_type=code)
# Its CPU provider computes neither fc3 nor other places of gates than alternating ones.
experts = [f32(7, 6), f32(7, 5), f32(5, 4, 6), f32(5, 4), f32(5, 6, 4), f32(5, 6)]
for act in ("relu", "gelu", "silu", "identity"):
    ms(f"moe_{act}", "MoE", experts, activation_type=act, k=2)
ms("moe_one", "MoE", [f32(2, 3, 6), f32(6, 5), experts[2], None, experts[4]], activation_type="relu")
ms("moe_sum", "MoE", experts, activation_type="silu", k=3, normalize_routing_weights=1)
gates = [experts[0], experts[1], f32(5, 8, 6), f32(5, 8), experts[4], experts[5]]
ms("moe_swiglu", "MoE", gates, activation_type="swiglu", swiglu_fusion=1, k=2)
ms("moe_swiglu_limit", "MoE", gates, activation_type="swiglu", swiglu_fusion=1, k=4, normalize_routing_weights=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.5)
# Its CPU provider quantizes the inputs of experts of 8 bits in blocks.
for bits in (4, 8):
    w1, s1, w2, s2 = u8(5, 16, 32 * bits // 8), np.abs(f32(5, 16)) / 2**bits, u8(5, 32, 16 * bits // 8), np.abs(f32(5, 32)) / 2**bits
    args = [f32(7, 32), f32(7, 5), w1, s1, f32(5, 16), w2, s2, f32(5, 32)]
    ms(f"qmoe_{bits}", "QMoE", args, consts=(2, 3, 5, 6), activation_type="silu", k=2, expert_weight_bits=bits)
    zero = [None, None, None, u8(5, 16 * bits // 8), u8(5, 32 * bits // 8), None, np.abs(f32(7, 5))]
    ms(f"qmoe_{bits}_zero", "QMoE", args + zero[:-1], consts=(2, 3, 5, 6, 11, 12), activation_type="relu", k=1, expert_weight_bits=bits)
    ms(f"qmoe_{bits}_weights", "QMoE", args + [None] * 6 + zero[-1:], consts=(2, 3, 5, 6), activation_type="relu", k=2, expert_weight_bits=bits)
    ms(f"qmoe_{bits}_weights_sum", "QMoE", args + [None] * 6 + zero[-1:], consts=(2, 3, 5, 6), activation_type="relu", k=2, expert_weight_bits=bits, normalize_routing_weights=1)
swiglu = [f32(2, 3, 32), f32(6, 5), u8(5, 32, 16), np.abs(f32(5, 32, 2)) / 16, f32(5, 32), u8(5, 32, 8), np.abs(f32(5, 32, 1)) / 16, f32(5, 32)]
ms("qmoe_blocks", "QMoE", swiglu, consts=(2, 3, 5, 6), activation_type="swiglu", swiglu_fusion=1, k=2, block_size=16, normalize_routing_weights=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0)
ms("qmoe_blocks_zero", "QMoE", swiglu + [None, None, None, u8(5, 32, 1), u8(5, 32, 1)], consts=(2, 3, 5, 6, 11, 12), activation_type="swiglu", swiglu_fusion=1, k=2, block_size=16)
save("ort.json")
