"""Makes sequences.json: answers of ONNX Runtime's CPU provider for operators that carry caches or states. Run it in this folder.

It has no kernel for RelativePositionBias. All samples of SparseAttention have as many keys: its answers for shorter ones beside longer ones
are those of no set of keys.
"""
import sys

sys.path.insert(0, "../../opstest")
from oracle import attribute, cases, helper, np, ort, run, save, tensor  # noqa: E402

rng = np.random.default_rng(22)


def f32(*shape):
    return np.round(rng.normal(size=shape), 2).astype(np.float32)


def i32(*v):
    return np.array(v, np.int32)


# Blocks: one layout for all heads, and two with padding.
layout = dict(num_heads=4, kv_num_heads=2, sparse_block_size=16)
one = [np.array([[0, 1, 3, 5, 8]], np.int32), np.array([[0, 0, 1, 1, 2, 1, 2, 3]], np.int32)]
two = [np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32), np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)]
SIZE = 16


def qkv(b, n):
    return [f32(b, n, 4 * SIZE), f32(b, n, 2 * SIZE), f32(b, n, 2 * SIZE)]


def cache(b):
    return [np.round(f32(b, 2, 64, SIZE), 1), np.round(f32(b, 2, 64, SIZE), 1)]


def sparse(name, inputs, **attrs):
    """Runs SparseAttention, which takes caches and gives them in the same memory."""
    attrs |= layout
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    info = lambda n, x: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)  # noqa: E731
    node = helper.make_node("SparseAttention", names, ["o0", "o1", "o2"], domain="com.microsoft", **attrs)
    graph = helper.make_graph([node], name, [info(n, x) for n, x in zip(names, inputs) if n], [helper.make_empty_tensor_value_info(f"o{k}") for k in range(3)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    bind, caches = session.io_binding(), []
    for n, x in zip(names, inputs):
        if n in ("i3", "i4"):
            caches.append(ort.OrtValue.ortvalue_from_numpy(x.copy()))
            bind.bind_ortvalue_input(n, caches[-1])
            bind.bind_ortvalue_output("o1" if n == "i3" else "o2", caches[-1])
        elif n:
            bind.bind_cpu_input(n, x)
    bind.bind_output("o0")
    session.run_with_iobinding(bind)
    y = [x for x in bind.copy_outputs_to_cpu() if x.ndim == 3]
    cases.append({"name": name, "domain": "com.microsoft", "op": "SparseAttention", "version": 1, "attrs": {k: attribute(v) for k, v in sorted(attrs.items())},
                  "inputs": [tensor(x) for x in inputs], "consts": [], "outputs": [tensor(x) for x in [y[0], caches[0].numpy(), caches[1].numpy()]]})


sparse("sparse_prompt", qkv(1, 40) + cache(1) + one + [i32(40), i32(40)])
sparse("sparse_layouts", qkv(2, 1) + cache(2) + two + [i32(55), i32(55, 55)], scale=0.3)
sparse("sparse_rotary", [f32(1, 1, 8 * SIZE), None, None] + cache(1) + two + [i32(60), i32(60), f32(64, SIZE // 2), f32(64, SIZE // 2)], do_rotary=1)
# A state for each head: 2 heads of 3 by 5.
B, T, H, K, V = 2, 4, 2, 3, 5
heads = dict(q_num_heads=H, kv_num_heads=H)


def lin(qh=H, h=H):
    return [f32(B, T, qh * K), f32(B, T, h * K) / 2, f32(B, T, h * V)]


state, rate = lambda: f32(B, H, K, V), lambda *shape: np.abs(f32(*shape)) / 4
run("linear", "LinearAttention", lin(), 2, update_rule="linear", **heads)
run("linear_gated", "LinearAttention", lin() + [state(), -rate(B, T, H)], 2, update_rule="gated", **heads)
run("linear_gated_keys", "LinearAttention", lin() + [state(), -rate(B, T, H * K)], 2, update_rule="gated", scale=0.4, **heads)
run("linear_delta", "LinearAttention", lin() + [None, None, rate(B, T, H)], 2, update_rule="delta", **heads)
run("linear_gated_delta", "LinearAttention", lin() + [state(), -rate(B, T, H), rate(B, T, 1)], 2, **heads)
run("linear_shared", "LinearAttention", lin(4) + [state(), -rate(B, T, H), rate(B, T, H)], 2, q_num_heads=4, kv_num_heads=2)
run("linear_inverse", "LinearAttention", lin(1) + [state(), -rate(B, T, H), rate(B, T, H)], 2, q_num_heads=1, kv_num_heads=2)
run("conv_state", "CausalConvWithState", [f32(2, 3, 5), f32(3, 1, 4), f32(3), f32(2, 3, 3)], 2, activation="silu")
run("conv_state_none", "CausalConvWithState", [f32(2, 3, 5), f32(3, 1, 2)], 2)
run("conv_state_short", "CausalConvWithState", [f32(1, 3, 1), f32(3, 1, 4), None, f32(1, 3, 3)], 2)
run("conv_state_dilation", "CausalConvWithState", [f32(2, 3, 5), f32(3, 1, 3), f32(3), f32(2, 3, 4)], 2, dilation=2)
run("conv_state_last", "CausalConvWithState", [f32(2, 5, 3), f32(3, 1, 4), f32(3), f32(2, 3, 3)], 2, channels_last=1, activation="swish")
save("sequences.json")
