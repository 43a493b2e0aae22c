"""Exports small state-space layers, run as convolutions, with torch's TorchScript exporter; written for torch 1.13.

Run it in this folder: python3 convolutions.py. Weights come from a fixed seed, so the files come out the same.
Complex numbers and transforms do not export that way, so kernels are real arithmetic and convolutions grouped Convs.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


class S4D(nn.Module):
    """S4D-Lin: each of h features has n complex states of its own; C complex, y = 2 Re(C x) + D u, input (B, h, L)."""

    def __init__(self, h=4, n=16, length=256, bidirectional=False):
        super().__init__()
        self.length, self.bidirectional = length, bidirectional
        self.log_dt = nn.Parameter(torch.rand(h) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.log_re = nn.Parameter(torch.log(0.5 * torch.ones(h, n)))
        self.im = nn.Parameter(math.pi * torch.arange(n).float().repeat(h, 1))
        self.c = nn.Parameter(torch.randn(2 if bidirectional else 1, h, n, 2) * 0.5**0.5)
        self.d = nn.Parameter(torch.randn(h))

    def kernel(self, c, length):
        dt = torch.exp(self.log_dt).unsqueeze(-1)
        re, im = -torch.exp(self.log_re), self.im
        # zero-order hold: C (exp(dt A) - 1) / A
        er, ei = torch.exp(re * dt) * torch.cos(im * dt) - 1, torch.exp(re * dt) * torch.sin(im * dt)
        size = re * re + im * im
        fr, fi = (er * re + ei * im) / size, (ei * re - er * im) / size
        cr, ci = c[..., 0] * fr - c[..., 1] * fi, c[..., 0] * fi + c[..., 1] * fr
        t = torch.arange(length)
        decay = torch.exp((re * dt).unsqueeze(-1) * t)
        angle = (im * dt).unsqueeze(-1) * t
        return 2 * (decay * (cr.unsqueeze(-1) * torch.cos(angle) - ci.unsqueeze(-1) * torch.sin(angle))).sum(1)

    def conv(self, u, k):
        h, length = k.shape
        return F.conv1d(F.pad(u, (length - 1, 0), value=0.0), k.flip(-1).unsqueeze(1), groups=h)

    def forward(self, u):
        y = self.conv(u, self.kernel(self.c[0], self.length))
        if self.bidirectional:
            y = y + self.conv(u.flip(-1), self.kernel(self.c[1], self.length)).flip(-1)
        return F.gelu(y + u * self.d.unsqueeze(-1))


class DSS(nn.Module):
    """DSS-exp: states shared by all features, W complex and of each feature; input (B, L, h)."""

    def __init__(self, h=4, n=8, length=128):
        super().__init__()
        self.length = length
        self.log_dt = nn.Parameter(torch.rand(h) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.log_re = nn.Parameter(torch.log(0.5 * torch.ones(n)))
        self.im = nn.Parameter(math.pi * torch.arange(n).float())
        self.w = nn.Parameter(torch.randn(h, n, 2))

    def forward(self, u):
        u = u.transpose(1, 2)
        dt = torch.exp(self.log_dt).view(-1, 1, 1)
        t = torch.arange(self.length).float()
        decay = torch.exp(-torch.exp(self.log_re).view(1, -1, 1) * dt * t)
        angle = self.im.view(1, -1, 1) * dt * t
        wr, wi = self.w[..., 0].unsqueeze(-1), self.w[..., 1].unsqueeze(-1)
        k = (wr * (decay * torch.cos(angle))).sum(1) - (wi * (decay * torch.sin(angle))).sum(1)
        y = F.conv1d(F.pad(u, (self.length - 1, 0), value=0.0), k.flip(-1).unsqueeze(1), groups=self.w.size(0))
        return y.transpose(1, 2)


class ESSM(nn.Module):
    """An eSSM layer: B and C are real matrices, each of n states has a real kernel; input (B, L, h)."""

    def __init__(self, h=4, n=6, length=128, bidirectional=False):
        super().__init__()
        self.length, self.bidirectional = length, bidirectional
        self.log_dt = nn.Parameter(torch.rand(n) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.re, self.im = nn.Parameter(-torch.rand(n) - 0.1), nn.Parameter(-3 * torch.rand(n))
        self.b, self.c = nn.Linear(h, n, bias=False), nn.Linear(n, h, bias=False)
        self.d = nn.Parameter(torch.randn(h))

    def forward(self, u):
        n = self.re.size(0)
        dt = torch.exp(self.log_dt)
        re, im = torch.clamp(self.re, max=-1e-4), self.im
        er, ei = torch.exp(re * dt) * torch.cos(im * dt) - 1, torch.exp(re * dt) * torch.sin(im * dt)
        size = re * re + im * im + 1e-7
        br, bi = (er * re + ei * im) / size, (ei * re - er * im) / size
        t = torch.arange(self.length)
        decay, angle = torch.exp((re * dt).unsqueeze(-1) * t), (im * dt).unsqueeze(-1) * t
        k = decay * (br.unsqueeze(-1) * torch.cos(angle) - bi.unsqueeze(-1) * torch.sin(angle))
        v = self.b(u).transpose(1, 2)
        if self.bidirectional:  # the kernel forwards from lag 0, and backwards from lag 1
            w = torch.cat([k.flip(-1), k], -1).unsqueeze(1)
            x = F.conv1d(F.pad(v, (self.length - 1, self.length), value=0.0), w, groups=n)
        else:
            x = F.conv1d(F.pad(v, (self.length - 1, 0), value=0.0), k.flip(-1).unsqueeze(1), groups=n)
        return 2 * self.c(x.transpose(1, 2)) + self.d * u


def export(name, model, shape, axes=None):
    torch.onnx.export(model.eval(), torch.randn(*shape), f'conv_{name}.onnx', input_names=['u'], output_names=['y'],
                      opset_version=13, dynamic_axes={'u': axes, 'y': axes} if axes else None, do_constant_folding=False)


torch.manual_seed(3)
export('s4d', S4D(), (2, 4, 256), {0: 'B'})
export('s4d_bidirectional', S4D(bidirectional=True), (2, 4, 256), {0: 'B'})
export('dss', DSS(), (2, 128, 4), {0: 'B'})
export('essm', ESSM(), (2, 128, 4), {0: 'B'})
export('essm_bidirectional', ESSM(bidirectional=True), (2, 128, 4), {0: 'B'})
