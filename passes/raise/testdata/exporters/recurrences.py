"""Exports small recurrent models with torch's TorchScript exporter; written for torch 1.13.

Run it in this folder: python3 recurrences.py. Weights come from a fixed seed, so the files come out the same.
Loops in scripted modules become Loop, loops in traced ones are unrolled.
"""
from typing import List

import torch
from torch import nn


class Diagonal(nn.Module):
    """h = a h + B u, y = C h + D u: a real and diagonal."""

    def __init__(self, h=4, n=6):
        super().__init__()
        self.log_a = nn.Parameter(torch.rand(n) * 2 - 2)
        self.b = nn.Linear(h, n, bias=False)
        self.c = nn.Linear(n, h, bias=False)
        self.d = nn.Parameter(torch.randn(h))

    def forward(self, u):
        a = torch.exp(-torch.exp(self.log_a))
        state = torch.zeros(u.size(0), a.size(0))
        out: List[torch.Tensor] = []
        for t in range(u.size(1)):
            state = a * state + self.b(u[:, t])
            out.append(self.c(state) + self.d * u[:, t])
        return torch.stack(out, dim=1)


class Projected(nn.Module):
    """The same with the projections outside of the loop."""

    def __init__(self, h=4, n=6):
        super().__init__()
        self.log_a = nn.Parameter(torch.rand(n) * 2 - 2)
        self.b = nn.Linear(h, n, bias=False)
        self.c = nn.Linear(n, h)
        self.d = nn.Parameter(torch.randn(h))

    def forward(self, u):
        a = torch.exp(-torch.exp(self.log_a))
        v = self.b(u)
        state = torch.zeros_like(v[:, 0])
        out: List[torch.Tensor] = []
        for t in range(v.size(1)):
            state = a * state + v[:, t]
            out.append(state)
        return self.c(torch.stack(out, 1)) + self.d * u


class S4D(nn.Module):
    """S4D's layout: each of h features has n complex states of its own; real and imaginary parts apart."""

    def __init__(self, h=3, n=4):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(h) * 4 - 6)
        self.log_re = nn.Parameter(torch.log(0.5 * torch.ones(h, n)))
        self.im = nn.Parameter(3.14159 * torch.arange(n).float().repeat(h, 1))
        self.c = nn.Parameter(torch.randn(h, n, 2))
        self.d = nn.Parameter(torch.randn(h))

    def system(self):
        dt = torch.exp(self.log_dt).unsqueeze(-1)
        re, im = -torch.exp(self.log_re), self.im
        size = torch.exp(re * dt)
        a_re, a_im = size * torch.cos(im * dt), size * torch.sin(im * dt)
        # b = (exp(dt A) - 1) / A
        norm = re * re + im * im
        b_re = ((a_re - 1) * re + a_im * im) / norm
        b_im = (a_im * re - (a_re - 1) * im) / norm
        return a_re, a_im, b_re, b_im

    def forward(self, u):
        a_re, a_im, b_re, b_im = self.system()
        z_re = torch.zeros(u.size(0), a_re.size(0), a_re.size(1))
        z_im = torch.zeros(u.size(0), a_re.size(0), a_re.size(1))
        out: List[torch.Tensor] = []
        for t in range(u.size(1)):
            v = u[:, t].unsqueeze(-1)
            re = a_re * z_re - a_im * z_im + b_re * v
            im = a_re * z_im + a_im * z_re + b_im * v
            z_re, z_im = re, im
            y = 2 * (self.c[:, :, 0] * z_re - self.c[:, :, 1] * z_im).sum(-1)
            out.append(y + self.d * u[:, t])
        return torch.stack(out, dim=1)


class Dense(nn.Module):
    """x = A x + B u with a full matrix, a given first state and the last one as a result."""

    def __init__(self, h=3, n=4):
        super().__init__()
        a = torch.randn(n, n)
        self.a = nn.Parameter(0.9 * a / torch.linalg.matrix_norm(a, 2))
        self.b = nn.Parameter(torch.randn(h, n))
        self.c = nn.Parameter(torch.randn(n, 2))

    def forward(self, u, state):
        out: List[torch.Tensor] = []
        for t in range(u.size(1)):
            state = state @ self.a + u[:, t] @ self.b
            out.append(state @ self.c)
        return torch.stack(out, dim=1), state


class Reversed(nn.Module):
    """Forward and backward recurrence, added up or side by side."""

    def __init__(self, forward, backward, concat=False):
        super().__init__()
        self.f, self.b, self.concat = forward, backward, concat

    def forward(self, u):
        f, b = self.f(u), self.b(u.flip(1)).flip(1)
        return torch.cat([f, b], -1) if self.concat else f + b


class Tanh(nn.Module):
    """Not linear: must stay as it is."""

    def __init__(self, h=4, n=6):
        super().__init__()
        self.a = nn.Parameter(torch.rand(n))
        self.b = nn.Linear(h, n)

    def forward(self, u):
        state = torch.zeros(u.size(0), self.a.size(0))
        out: List[torch.Tensor] = []
        for t in range(u.size(1)):
            state = torch.tanh(self.a * state + self.b(u[:, t]))
            out.append(state)
        return torch.stack(out, dim=1)


class Selective(nn.Module):
    """A step size that depends on the input: must stay as it is."""

    def __init__(self, n=4):
        super().__init__()
        self.a = nn.Parameter(torch.rand(n))
        self.dt = nn.Linear(n, n)

    def forward(self, u):
        state = torch.zeros(u.size(0), self.a.size(0))
        out: List[torch.Tensor] = []
        for t in range(u.size(1)):
            state = torch.exp(-torch.sigmoid(self.dt(u[:, t])) * self.a) * state + u[:, t]
            out.append(state)
        return torch.stack(out, dim=1)


class Block(nn.Module):
    """A prenorm block as S4's code has it: norm, system, GELU, GLU, residual; then pooling and a classifier."""

    def __init__(self, layer, h=4):
        super().__init__()
        self.encoder = nn.Linear(2, h)
        self.norm = nn.LayerNorm(h)
        self.layer = layer
        self.mix = nn.Linear(h, 2 * h)
        self.decoder = nn.Linear(h, 5)

    def forward(self, x):
        x = self.encoder(x)
        y = nn.functional.gelu(self.layer(self.norm(x)))
        x = x + nn.functional.glu(self.mix(y), -1)
        return self.decoder(x.mean(1))


def export(name, model, inputs, inputs_names, axes, scripted, outputs=("y",)):
    model.eval()
    module = torch.jit.script(model) if scripted else model
    torch.onnx.export(module, inputs, name + ".onnx", input_names=inputs_names, output_names=list(outputs),
                      dynamic_axes=axes, opset_version=16)


def main():
    free = {"u": {0: "B", 1: "L"}, "y": {0: "B", 1: "L"}}
    fixed = {"u": {0: "B"}, "y": {0: "B"}}
    torch.manual_seed(1)
    export("loop_diagonal", Diagonal(), (torch.randn(2, 5, 4),), ["u"], free, True)
    export("loop_projected", Projected(), (torch.randn(2, 5, 4),), ["u"], free, True)
    export("loop_s4d", S4D(), (torch.randn(2, 5, 3),), ["u"], free, True)
    export("loop_dense_state", Dense(), (torch.randn(2, 5, 3), torch.randn(2, 4)), ["u", "h0"],
           {**free, "h0": {0: "B"}, "h": {0: "B"}}, True, ("y", "h"))
    export("loop_reversed_sum", Reversed(Diagonal(), Diagonal()), (torch.randn(2, 5, 4),), ["u"], free, True)
    export("loop_reversed_concat", Reversed(S4D(), S4D(), True), (torch.randn(2, 5, 3),), ["u"], free, True)
    export("loop_block", Block(S4D(4, 4)), (torch.randn(2, 5, 2),), ["u"], {"u": {0: "B", 1: "L"}, "y": {0: "B"}}, True)
    export("loop_tanh", Tanh(), (torch.randn(2, 5, 4),), ["u"], free, True)
    export("loop_selective", Selective(), (torch.randn(2, 5, 4),), ["u"], free, True)
    export("unrolled_diagonal", Diagonal(), (torch.randn(2, 12, 4),), ["u"], fixed, False)
    export("unrolled_s4d", S4D(), (torch.randn(2, 9, 3),), ["u"], fixed, False)
    export("unrolled_dense_state", Dense(), (torch.randn(2, 8, 3), torch.randn(2, 4)), ["u", "h0"],
           {**fixed, "h0": {0: "B"}, "h": {0: "B"}}, False, ("y", "h"))
    export("unrolled_reversed_sum", Reversed(S4D(), S4D()), (torch.randn(2, 9, 3),), ["u"], fixed, False)
    export("unrolled_tanh", Tanh(), (torch.randn(2, 6, 4),), ["u"], fixed, False)


if __name__ == "__main__":
    main()
