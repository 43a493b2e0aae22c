"""Makes gated.json: answers of ONNX Runtime's CPU provider for gates, and for GridSample. Run it in this folder.

It has no kernel for GemmFastGelu and GatedRelativePositionBias.
"""
import sys

sys.path.insert(0, "../../opstest")
from oracle import np, run, save  # noqa: E402

rng = np.random.default_rng(23)


def f32(*shape):
    return np.round(rng.normal(size=shape), 2).astype(np.float32)


def f16(*shape):
    return f32(*shape).astype(np.float16)


run("add", "GatedAdd", [f32(2, 3, 5), f32(2, 3, 5), f32(2, 3, 1)])
run("add_vector", "GatedAdd", [f32(5), f32(5), f32(1)])
run("add_half", "GatedAdd", [f16(3, 5), f16(3, 5), f16(3, 1)])
run("norm", "GatedRMSNorm", [f32(2, 3, 6), f32(6), f32(2, 3, 6)])
run("norm_groups", "GatedRMSNorm", [f32(2, 3, 6), f32(3), f32(2, 3, 6)], activation="sigmoid", epsilon=0.5)
run("norm_swish", "GatedRMSNorm", [f32(4, 6), f32(2), f32(4, 6)], activation="swish")
run("norm_half", "GatedRMSNorm", [f16(2, 3, 6), f16(3), f16(2, 3, 6)])
run("rates", "LinearAttentionGate", [f32(2, 3, 5), f32(5), -np.abs(f32(5)), f32(2, 3, 5)], 2)
run("decay", "LinearAttentionGate", [40 * f32(2, 3, 5), f32(5), -np.abs(f32(5))])
run("rates_half", "LinearAttentionGate", [f16(2, 3, 5), f32(5), -np.abs(f32(5)), f16(2, 3, 5)], 2)
for mode in "bilinear", "nearest", "bicubic":
    for corners, padding in enumerate(["zeros", "border", "reflection"]):
        run(f"grid_{mode}_{padding}", "GridSample", [f32(2, 1, 3, 4), f32(2, 2, 3, 2)], mode=mode, padding_mode=padding, align_corners=corners % 2)
save("gated.json")
