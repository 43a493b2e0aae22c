"""Exports small state-space layers, run by transform, with torch's dynamo exporter; written for torch 2.15 and onnxscript 0.7.

Run it in this folder: python3 dynamo.py. Weights come from a fixed seed. Kernels are parameters, or computed in real
arithmetic, since the exporter has no exponential of complex numbers; those of fixed length it folds into constants.
"""
import math

import onnx
import torch
from torch import nn
from torch.nn import functional as F


class S4D(nn.Module):
    """S4D-Lin; input (B, h, L). fixed: the kernel is a parameter."""

    def __init__(self, h=4, n=8, length=256, fixed=False, bidirectional=False):
        super().__init__()
        self.length, self.fixed, self.bidirectional = length, fixed, bidirectional
        self.log_dt = nn.Parameter(torch.rand(h) * (math.log(0.1) - math.log(0.02)) + math.log(0.02))
        self.log_re = nn.Parameter(torch.log(0.5 * torch.ones(h, n)))
        self.im = nn.Parameter(math.pi * torch.arange(n).float().repeat(h, 1))
        self.c = nn.Parameter(torch.randn(2 if bidirectional else 1, h, n, 2) * 0.5**0.5)
        self.d = nn.Parameter(torch.randn(h))
        if fixed:
            self.k = nn.Parameter(self.kernel(length).detach())

    def kernel(self, length):
        dt = torch.exp(self.log_dt).unsqueeze(-1)
        re, im = -torch.exp(self.log_re) * dt, self.im * dt
        t = torch.arange(length)
        decay, angle = torch.exp(re.unsqueeze(-1) * t), im.unsqueeze(-1) * t
        c = (self.c * dt.unsqueeze(-1)).unsqueeze(-2)
        return 2 * (decay * (c[..., 0] * torch.cos(angle) - c[..., 1] * torch.sin(angle))).sum(-2)

    def forward(self, u):
        length = self.length or u.shape[-1]
        k = self.k if self.fixed else self.kernel(length)
        if self.bidirectional:
            k = F.pad(k[0], (0, length)) + F.pad(k[1].flip(-1), (length, 0))
        else:
            k = k[0]
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(k, n=2 * length), n=2 * length)[..., :length]
        return F.gelu(y + u * self.d.unsqueeze(-1))


def export(name, model):
    axes = {0: torch.export.Dim('B')}
    if not model.length:
        axes[2] = torch.export.Dim('L', min=2)
    u = torch.randn(2, 4, 256)
    program = torch.onnx.export(model.eval(), (u,), dynamo=True, input_names=['u'], output_names=['y'],
                                dynamic_shapes=(axes,), opset_version=20)
    proto = program.model_proto
    for node in list(proto.graph.node) + [n for f in proto.functions for n in f.node]:
        del node.metadata_props[:]  # stack traces, with paths of the machine that exports
    onnx.save(proto, f'dynamo_{name}.onnx')


torch.manual_seed(3)
for name, model in {'s4d': S4D(), 's4d_any_length': S4D(length=0), 's4d_kernel': S4D(fixed=True), 's4d_bidirectional': S4D(fixed=True, bidirectional=True)}.items():
    export(name, model)
