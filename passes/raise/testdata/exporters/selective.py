"""Exports a small Mamba layer, run step by step, with torch's exporters; written for torch 2.15 and onnxscript 0.7.

Run it in this folder: python3 selective.py. Weights come from a fixed seed. Both exporters unroll the loop over the steps of a
traced module; in a scripted one it becomes a Loop.
"""
from typing import List

import onnx
import torch
from torch import nn
from torch.nn import functional as F


class Mamba(nn.Module):
    """One mixer; input (B, L, d). The recurrence takes all steps' coefficients, which are computed at once."""

    def __init__(self, d=4, expand=2, n=3, rank=2, taps=4):
        super().__init__()
        e = expand * d
        self.n, self.rank, self.e = n, rank, e
        self.into, self.out = nn.Linear(d, 2 * e, bias=False), nn.Linear(e, d, bias=False)
        self.conv = nn.Conv1d(e, e, taps, groups=e, padding=taps - 1)
        self.project, self.step = nn.Linear(e, rank + 2 * n, bias=False), nn.Linear(rank, e)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(e, 1)))
        self.d = nn.Parameter(torch.rand(e))

    def forward(self, u):
        steps = u.shape[1]
        x, z = self.into(u).transpose(1, 2).chunk(2, 1)
        x = F.silu(self.conv(x)[..., :steps])
        dt, b, c = torch.split(self.project(x.transpose(1, 2)), [self.rank, self.n, self.n], -1)
        dt = F.softplus(self.step(dt)).transpose(1, 2)
        decay = torch.exp(-torch.exp(self.a_log)[None, :, None, :] * dt[:, :, :, None])
        enter = dt[:, :, :, None] * b[:, None, :, :] * x[:, :, :, None]
        state = torch.zeros(u.shape[0], self.e, self.n)
        out: List[torch.Tensor] = []
        for t in range(steps):
            state = decay[:, :, t, :] * state + enter[:, :, t, :]
            out.append(torch.matmul(state, c[:, t, :].unsqueeze(-1))[:, :, 0])
        y = torch.stack(out, dim=-1) + x * self.d[None, :, None]
        return self.out((y * F.silu(z)).transpose(1, 2))


torch.manual_seed(1)
model = Mamba().eval()
u = torch.randn(2, 12, 4)
batch = {0: "B"}
torch.onnx.export(model, (u,), "selective_unrolled.onnx", dynamo=False, opset_version=17, input_names=["u"], output_names=["y"],
                  dynamic_axes={"u": batch, "y": batch})
torch.onnx.export(torch.jit.script(model), (u,), "selective_loop.onnx", dynamo=False, opset_version=17, input_names=["u"],
                  output_names=["y"], dynamic_axes={"u": {0: "B", 1: "L"}, "y": {0: "B", 1: "L"}})
torch.onnx.export(model, (u,), "selective_dynamo.onnx", dynamo=True, external_data=False, input_names=["u"], output_names=["y"],
                  dynamic_shapes={"u": {0: torch.export.Dim("B")}})
for name in ("unrolled", "loop", "dynamo"):
    m = onnx.load(f"selective_{name}.onnx")
    for node in m.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for v in (*m.graph.value_info, *m.graph.input, *m.graph.output):
        v.ClearField("metadata_props")
    del m.metadata_props[:], m.graph.metadata_props[:]
    onnx.save(m, f"selective_{name}.onnx")
