"""Exports small layers of S5 and LRU, run step by step in real arithmetic, with torch's TorchScript exporter; written for torch
2.15.

Run it in this folder: python3 systems.py. Weights come from a fixed seed. The loop becomes a Loop in scripted modules, and is
unrolled in traced ones.
"""
import math
from typing import List

import torch
from torch import nn
from torch.nn import functional as F


class Complex(nn.Module):
    """z = a z + B u, y = factor Re(C z) + D u for complex a, B and C; input (B, L, h)."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def scan(self, a_re, a_im, b_re, b_im, c_re, c_im, d, u):
        v_re, v_im = F.linear(u, b_re), F.linear(u, b_im)
        z_re = torch.zeros(u.shape[0], a_re.shape[0])
        z_im = torch.zeros(u.shape[0], a_re.shape[0])
        out: List[torch.Tensor] = []
        for t in range(u.shape[1]):
            z_re, z_im = a_re * z_re - a_im * z_im + v_re[:, t], a_re * z_im + a_im * z_re + v_im[:, t]
            out.append(F.linear(z_re, c_re) - F.linear(z_im, c_im))
        return self.factor * torch.stack(out, dim=1) + u * d


class S5(Complex):
    def __init__(self, h=4, p=3):
        super().__init__(2.0)
        self.re, self.im = nn.Parameter(-0.5 * torch.ones(p)), nn.Parameter(math.pi * torch.arange(1, p + 1).float())
        self.log_step = nn.Parameter(torch.rand(p) * 2 - 4)
        self.b, self.c, self.d = nn.Parameter(torch.randn(p, h, 2)), nn.Parameter(torch.randn(h, p, 2)), nn.Parameter(torch.randn(h))

    def forward(self, u):
        dt = torch.exp(self.log_step)
        a_re, a_im = torch.exp(self.re * dt) * torch.cos(self.im * dt), torch.exp(self.re * dt) * torch.sin(self.im * dt)
        size = self.re * self.re + self.im * self.im  # (a - 1) / λ
        f_re, f_im = ((a_re - 1) * self.re + a_im * self.im) / size, (a_im * self.re - (a_re - 1) * self.im) / size
        b_re = f_re[:, None] * self.b[:, :, 0] - f_im[:, None] * self.b[:, :, 1]
        b_im = f_re[:, None] * self.b[:, :, 1] + f_im[:, None] * self.b[:, :, 0]
        return F.gelu(self.scan(a_re, a_im, b_re, b_im, self.c[:, :, 0], self.c[:, :, 1], self.d, u), approximate="tanh")


class LRU(Complex):
    def __init__(self, h=4, n=3):
        super().__init__(1.0)
        self.nu, self.theta = nn.Parameter(torch.rand(n) - 2), nn.Parameter(torch.rand(n))
        self.gamma = nn.Parameter(torch.rand(n) - 1)
        self.b, self.c, self.d = nn.Parameter(torch.randn(n, h, 2)), nn.Parameter(torch.randn(h, n, 2)), nn.Parameter(torch.randn(h))

    def forward(self, u):
        size, angle = torch.exp(-torch.exp(self.nu)), torch.exp(self.theta)
        g = torch.exp(self.gamma)[:, None]
        return self.scan(size * torch.cos(angle), size * torch.sin(angle), g * self.b[:, :, 0], g * self.b[:, :, 1], self.c[:, :, 0],
                         self.c[:, :, 1], self.d, u)


torch.manual_seed(2)
u = torch.randn(2, 9, 4)
for name, model in (("s5", S5().eval()), ("lru", LRU().eval())):
    torch.onnx.export(model, (u,), f"unrolled_{name}.onnx", dynamo=False, opset_version=17, input_names=["u"], output_names=["y"],
                      dynamic_axes={"u": {0: "B"}, "y": {0: "B"}})
    torch.onnx.export(torch.jit.script(model), (u,), f"loop_{name}.onnx", dynamo=False, opset_version=17, input_names=["u"],
                      output_names=["y"], dynamic_axes={"u": {0: "B", 1: "L"}, "y": {0: "B", 1: "L"}})
