"""Exports recurrences that are computed for all steps at once, with torch's exporters; written for torch 2.15 and onnxscript 0.7.

Run it in this folder: python3 parallel.py. Weights come from a fixed seed. Each model is written by both exporters, as
parallel_NAME.onnx (TorchScript) and parallel_NAME_dynamo.onnx; the number of steps is fixed, except where that is a name's end.
"""
import math
import sys

import onnx
import torch
from torch import nn
from torch.nn import functional as F


def shifted(x, by, value):
    """x one power of two later, (B, L, …), with value before."""
    pad = [0, 0] * (x.dim() - 2) + [by, 0]
    return F.pad(x[:, :-by], pad, value=value)


def hillis(a, b):
    """h[t] = a[t] h[t-1] + b[t], in log2(L) rounds over all steps; a and b are (B, L, …)."""
    by = 1
    while by < b.shape[1]:
        b = b + a * shifted(b, by, 0.0)
        a = a * shifted(a, by, 1.0)
        by *= 2
    return b


def hillis_complex(a, b):
    by = 1
    (a_re, a_im), (b_re, b_im) = a, b
    while by < b_re.shape[1]:
        p_re, p_im = shifted(b_re, by, 0.0), shifted(b_im, by, 0.0)
        b_re, b_im = b_re + a_re * p_re - a_im * p_im, b_im + a_re * p_im + a_im * p_re
        q_re, q_im = shifted(a_re, by, 1.0), shifted(a_im, by, 0.0)
        a_re, a_im = a_re * q_re - a_im * q_im, a_re * q_im + a_im * q_re
        by *= 2
    return b_re, b_im


def hillis_pairs(a, b):
    """As hillis_complex, with the parts along the last axis."""
    def times(x, y):
        return torch.stack([x[..., 0] * y[..., 0] - x[..., 1] * y[..., 1],
                            x[..., 0] * y[..., 1] + x[..., 1] * y[..., 0]], -1)

    by = 1
    while by < b.shape[1]:
        b = b + times(a, F.pad(b[:, :-by], (0, 0, 0, 0, by, 0)))
        a = times(a, torch.cat([torch.tensor([1.0, 0.0]).expand_as(a[:, :by]), a[:, :-by]], 1))
        by *= 2
    return b


def interleave(even, odd):
    """even[0], odd[0], even[1], …; there are as many, or one more even ones."""
    n = odd.shape[1]
    both = torch.stack([even[:, :n], odd], 2).flatten(1, 2)
    return both if even.shape[1] == n else torch.cat([both, even[:, n:]], 1)


def combine(x, y):
    """The composition of elements (a, b): first x, then y. Numbers are tuples of one real or two parts."""
    (a, b), (c, d) = x, y
    if len(a) == 1:
        return (a[0] * c[0],), (c[0] * b[0] + d[0],)
    return ((a[0] * c[0] - a[1] * c[1], a[0] * c[1] + a[1] * c[0]),
            (c[0] * b[0] - c[1] * b[1] + d[0], c[0] * b[1] + c[1] * b[0] + d[1]))


def associative(elems):
    """jax.lax.associative_scan along axis 1: pairs are combined, scanned, and spread again."""
    def each(f, *xs):
        return tuple(tuple(f(*p) for p in zip(*part)) for part in zip(*xs))

    n = elems[1][0].shape[1]
    if n < 2:
        return elems
    odd = associative(combine(each(lambda v: v[:, :n - 1:2], elems), each(lambda v: v[:, 1::2], elems)))
    rest = each(lambda v: v[:, 2::2], elems)
    if n % 2 == 0:
        even = combine(each(lambda v: v[:, :-1], odd), rest)
    else:
        even = combine(odd, rest)
    even = each(lambda v, e: torch.cat([v[:, :1], e], 1), elems, even)
    return each(interleave, even, odd)


def in_place(a, b):
    """As in mamba.py: a scan by halves that changes views of its inputs. The number of steps is a power of 2.

    TorchScript's exporter loses such changes.
    """
    a, b = a.transpose(1, 2).clone(), b.transpose(1, 2).clone()
    rounds = b.shape[2].bit_length() - 1
    x, y = a, b
    for _ in range(rounds):
        x, y = x.unflatten(2, (-1, 2)), y.unflatten(2, (-1, 2))
        y[..., 1].add_(x[..., 1] * y[..., 0])
        x[..., 1].mul_(x[..., 0])
        x, y = x[..., 1], y[..., 1]
    for k in reversed(range(rounds)):
        x, y = a[:, :, 2**k - 1::2**k], b[:, :, 2**k - 1::2**k]
        x, y = x.unflatten(2, (-1, 2)), y.unflatten(2, (-1, 2))
        y[:, :, 1:, 0].add_(x[:, :, 1:, 0] * y[:, :, :-1, 1])
        x[:, :, 1:, 0].mul_(x[:, :, :-1, 1])
    return b.transpose(1, 2)


def by_operator(a, b):
    """torch's own operator, which the exporters write as a scan by halves with time as the first axis."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def after(x, y):
        return x[0] * y[0], y[0] * x[1] + y[1]
    return associative_scan(after, (a.contiguous(), b), dim=1, combine_mode="generic")[1]


def by_steps(a, b):
    """torch's operator for loops, which the dynamo exporter writes as Scan."""
    from torch._higher_order_ops.scan import scan

    def step(h, x):
        h = x[0] * h + x[1]
        return h, h.clone()
    return scan(step, torch.zeros_like(b[:, 0]), (a, b), dim=1)[1].transpose(0, 1)


class System(nn.Module):
    """S5 and LRU: z = a z + B u with complex and diagonal a, y = 2 Re(C z) + D u."""

    def __init__(self, form, h=4, n=6, real=False):
        super().__init__()
        self.form, self.real = form, real
        self.rate = nn.Parameter(torch.rand(n) * 2 - 3)
        self.angle = nn.Parameter(torch.rand(n) * 3)
        self.b, self.c = nn.Linear(h, 2 * n, bias=False), nn.Linear(2 * n, h, bias=False)
        self.d = nn.Parameter(torch.randn(h))

    def forward(self, u):
        size = torch.exp(-torch.exp(self.rate))
        v_re, v_im = self.b(u).chunk(2, -1)
        if self.real:
            a = size.expand_as(v_re)
            z = hillis(a, v_re) if self.form == "hillis" else associative(((a,), (v_re,)))[1][0]
            return self.c(torch.cat([z, v_im], -1)) + u * self.d
        if self.form in ("pairs", "complex"):
            v = self.b(u).unflatten(-1, (-1, 2))
            a = torch.stack([size * torch.cos(self.angle), size * torch.sin(self.angle)], -1).expand_as(v)
            z = hillis_pairs(a, v) if self.form == "pairs" else torch.view_as_real(
                associative(((torch.view_as_complex(a.contiguous()),), (torch.view_as_complex(v),)))[1][0])
            return self.c(z.flatten(-2)) + u * self.d
        a = tuple(p.expand_as(v_re) for p in (size * torch.cos(self.angle), size * torch.sin(self.angle)))
        b = (v_re, v_im)
        z_re, z_im = hillis_complex(a, b) if self.form == "hillis" else associative((a, b))[1]
        return 2 * self.c(torch.cat([z_re, -z_im], -1)) + u * self.d


def g(x):
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def log_g(x):
    return torch.where(x >= 0, (F.relu(x) + 0.5).log(), -F.softplus(-x))


class MinGRU(nn.Module):
    """minGRU: h = (1 - z) h + z g(v), by scans of several forms."""

    def __init__(self, form, h=4, n=6):
        super().__init__()
        self.form = form
        self.gate, self.value, self.out = nn.Linear(h, n), nn.Linear(h, n), nn.Linear(n, h, bias=False)

    def forward(self, u):
        k, v = self.gate(u), self.value(u)
        other = {"operator": by_operator, "steps": by_steps, "in_place": in_place}.get(self.form)
        if other:
            z = torch.sigmoid(k)
            return self.out(other(1 - z, z * g(v)))
        if self.form in ("hillis", "blelloch"):
            z = torch.sigmoid(k)
            a, b = 1 - z, z * g(v)
            return self.out(hillis(a, b) if self.form == "hillis" else associative(((a,), (b,)))[1][0])
        coeffs, values = -F.softplus(k), -F.softplus(-k) + log_g(v)
        if self.form == "padded":  # the paper's code, with a first state
            values = torch.cat([log_g(torch.zeros_like(values[:, :1])), values], 1)
            a = F.pad(torch.cumsum(coeffs, 1), (0, 0, 1, 0))
            return self.out(torch.exp(a + torch.logcumsumexp(values - a, 1))[:, 1:])
        a = torch.cumsum(coeffs, 1)
        if self.form == "log":
            h = torch.exp(a + torch.logcumsumexp(values - a, 1))
        elif self.form == "exp":
            h = torch.exp(a) * torch.cumsum(torch.exp(values - a), 1)
        elif self.form == "masked":  # every pair of steps
            steps = u.shape[1]
            mask = torch.ones(steps, steps, dtype=torch.bool).tril()
            pairs = a[:, :, None] - a[:, None] + values[:, None]
            h = torch.exp(torch.logsumexp(pairs.masked_fill(~mask[None, :, :, None], -float("inf")), 2))
        return self.out(h)


class Mamba(nn.Module):
    """The recurrence of Mamba by a scan; input (B, L, e)."""

    def __init__(self, form, e=4, n=3):
        super().__init__()
        self.form = form
        self.step, self.project = nn.Linear(e, e), nn.Linear(e, 2 * n, bias=False)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(e, 1)))
        self.d = nn.Parameter(torch.rand(e))

    def forward(self, x):
        dt = F.softplus(self.step(x))
        b, c = self.project(x).chunk(2, -1)
        decay = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.a_log))
        enter = dt.unsqueeze(-1) * b.unsqueeze(2) * x.unsqueeze(-1)
        h = hillis(decay, enter) if self.form == "hillis" else associative(((decay,), (enter,)))[1][0]
        y = (h @ c.unsqueeze(-1)).squeeze(3)
        return y + x * self.d


class EMA(nn.Module):
    """Exponential moving averages by a running sum of weighted inputs."""

    def __init__(self, form, h=4):
        super().__init__()
        self.form = form
        self.alpha = nn.Parameter(torch.rand(h) * 0.3 + 0.05)

    def forward(self, u):
        t = torch.arange(u.shape[1], dtype=u.dtype)[:, None]
        if self.form == "matrix":  # of all pairs of steps
            lag = t - t.T
            pairs = torch.where(lag >= 0, (1 - self.alpha[:, None, None]) ** lag.clamp(min=0), torch.zeros(()))
            return torch.einsum("hts,bsh->bth", pairs, self.alpha * u)
        weights = (1 - self.alpha) ** t
        if self.form == "powers":
            return torch.cumsum(self.alpha * u / weights, 1) * weights
        return torch.cumsum(self.alpha * u * torch.exp(-t * torch.log1p(-self.alpha)), 1) * weights


class Toeplitz(nn.Module):
    """A causal convolution as a product with all pairs of steps."""

    def __init__(self, form, h=4, length=24):
        super().__init__()
        self.form = form
        self.log_a, self.c = nn.Parameter(torch.rand(h, 3) * 2 - 3), nn.Parameter(torch.randn(h, 3))
        self.length = length

    def forward(self, u):
        t = torch.arange(self.length)
        lag = t[:, None] - t
        size = torch.exp(-torch.exp(self.log_a)[..., None, None] * lag.clamp(min=0))
        k = (self.c[..., None, None] * size).sum(1) * (lag >= 0)
        if self.form == "windows":
            steps = F.pad(u.transpose(1, 2), (self.length - 1, 0)).unfold(2, self.length, 1)
            return (steps * k[None, :, -1:]).sum(-1).transpose(1, 2)
        if self.form == "features":  # a matrix for each feature
            return torch.einsum("hts,bsh->bth", k, u)
        return torch.einsum("ts,bsh->bth", k[0], u)


class Step(nn.Module):
    """One step of S4D layers: the states go in, as pairs of reals, and come out. How they are written is the form."""

    def __init__(self, form, h=4, n=3, layers=1):
        super().__init__()
        self.form, self.layers = form, layers
        self.rate = nn.Parameter(torch.rand(layers, h, n) * 2 - 3)
        self.angle = nn.Parameter(torch.rand(layers, h, n) * 3)
        self.b, self.c = nn.Parameter(torch.randn(layers, h, n, 2)), nn.Parameter(torch.randn(layers, h, n, 2))
        self.d = nn.Parameter(torch.randn(layers, h))
        self.mix = nn.Linear(h, h)

    def layer(self, i, u, state):
        v = u.unsqueeze(-1)
        size = torch.exp(-torch.exp(self.rate[i]))
        a_re, a_im = size * torch.cos(self.angle[i]), size * torch.sin(self.angle[i])
        if self.form == "complex":  # the exporter has no exponential of complex numbers
            a = torch.view_as_complex(torch.stack([a_re, a_im], -1))
            b, c = torch.view_as_complex(self.b[i]), torch.view_as_complex(self.c[i])
            state = a * torch.view_as_complex(state) + b * v
            return 2 * (c * state).real.sum(-1) + self.d[i] * u, torch.view_as_real(state)
        re, im = state[..., 0], state[..., 1]
        re, im = a_re * re - a_im * im + self.b[i, :, :, 0] * v, a_re * im + a_im * re + self.b[i, :, :, 1] * v
        if self.form == "tanh":  # no linear recurrence
            re = torch.tanh(re)
        y = 2 * (self.c[i, :, :, 0] * re - self.c[i, :, :, 1] * im).sum(-1) + self.d[i] * u
        return y, torch.stack([re, im], -1)

    def forward(self, u, s0, s1=None):
        out = []
        for i, state in enumerate((s0, s1)[:self.layers]):
            y, s = self.layer(i, u, state)
            u = u + self.mix(F.gelu(y))
            out.append(s)
        return (u, *out)


class Kernel(nn.Module):
    """DSS and S4D, whose kernels of a fixed length are computed in the graph; input (B, h, L)."""

    def __init__(self, form, h=4, n=16, length=64, conv=False):
        super().__init__()
        self.form, self.length, self.conv = form, length, conv
        self.log_dt = nn.Parameter(torch.rand(h) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.log_re = nn.Parameter(torch.log(0.5 * torch.ones(h, n)))
        self.im = nn.Parameter(math.pi * torch.arange(n).float().repeat(h, 1))
        self.c = nn.Parameter(torch.randn(h, n, 2) * 0.5**0.5)
        self.d = nn.Parameter(torch.randn(h))

    def kernel(self):
        dt = torch.exp(self.log_dt).unsqueeze(-1)
        re, im = -torch.exp(self.log_re), self.im
        t = torch.arange(self.length, dtype=torch.float32)
        size, angle = torch.exp(re * dt), im * dt
        # C (exp(dt A) - 1)/A: zero-order hold
        n_re, n_im = size * torch.cos(angle) - 1, size * torch.sin(angle)
        norm = re * re + im * im
        g_re, g_im = (n_re * re + n_im * im) / norm, (n_im * re - n_re * im) / norm
        c_re = self.c[..., 0] * g_re - self.c[..., 1] * g_im
        c_im = self.c[..., 0] * g_im + self.c[..., 1] * g_re
        decay, turn = torch.exp((re * dt).unsqueeze(-1) * t), angle.unsqueeze(-1) * t
        v_re, v_im = decay * torch.cos(turn), decay * torch.sin(turn)
        if self.form == "dss":  # softmax over the steps, without imaginary parts of a product
            v_re = v_re / decay.sum(-1, keepdim=True)
            v_im = v_im / decay.sum(-1, keepdim=True)
        if self.form == "matmul":
            return 2 * (c_re.unsqueeze(1) @ v_re - c_im.unsqueeze(1) @ v_im).squeeze(1)
        return 2 * (c_re.unsqueeze(-1) * v_re - c_im.unsqueeze(-1) * v_im).sum(-2)

    def forward(self, u):
        k = self.kernel()
        if self.conv:
            y = F.conv1d(F.pad(u, (self.length - 1, 0)), k.flip(-1).unsqueeze(1), groups=u.shape[1])
        else:
            n = 2 * self.length
            y = torch.fft.irfft(torch.fft.rfft(u, n=n) * torch.fft.rfft(k, n=n), n=n)[..., :self.length]
        return F.gelu(y + u * self.d.unsqueeze(-1))


def clean(path):
    m = onnx.load(path)
    parts = [m.graph, *m.functions]
    for part in parts:
        for node in part.node:
            node.ClearField("metadata_props")  # stack traces, with paths of the machine that exports
            node.ClearField("doc_string")
            parts += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    for v in (*m.graph.value_info, *m.graph.input, *m.graph.output):
        v.ClearField("metadata_props")
    for part in parts[1:]:
        for v in getattr(part, "value_info", ()):
            v.ClearField("metadata_props")
        if isinstance(part, onnx.GraphProto):
            for v in (*part.input, *part.output):
                v.ClearField("metadata_props")
            part.ClearField("metadata_props")
    del m.metadata_props[:], m.graph.metadata_props[:]
    onnx.save(m, path)


def export(name, model, inputs, dynamo=True, script=True):
    model = model.eval()
    names = ["u"] + [f"s{i}" for i in range(len(inputs) - 1)]
    outs = ["y"] + [f"{n}_out" for n in names[1:]]
    if script:
        torch.onnx.export(model, inputs, f"parallel_{name}.onnx", dynamo=False, opset_version=17, input_names=names,
                          output_names=outs, dynamic_axes={n: {0: "B"} for n in names + outs})
        clean(f"parallel_{name}.onnx")
    if dynamo:
        batch = {0: torch.export.Dim("B")}
        shapes = (batch,) * len(inputs)
        torch.onnx.export(model, inputs, f"parallel_{name}_dynamo.onnx", dynamo=True, external_data=False, input_names=names,
                          output_names=outs, dynamic_shapes=shapes, verbose=False)
        clean(f"parallel_{name}_dynamo.onnx")


def main():
    torch.manual_seed(5)
    u, even, odd = torch.randn(2, 24, 4), torch.randn(2, 12, 4), torch.randn(2, 11, 4)
    state = torch.randn(2, 4, 3, 2)
    long = torch.randn(2, 4, 64)
    for name, model, inputs, kinds in [
        ("system_hillis", System("hillis"), (even,), "sd"),
        ("system_blelloch", System("blelloch"), (odd,), "sd"),
        ("system_pairs", System("pairs"), (odd,), "sd"),
        ("system_complex", System("complex"), (even,), "d"),
        ("real_hillis", System("hillis", real=True), (odd,), "s"),
        ("mingru_hillis", MinGRU("hillis"), (odd,), "sd"),
        ("mingru_blelloch", MinGRU("blelloch"), (even,), "sd"),
        ("mingru_log", MinGRU("log"), (u,), "d"),
        ("mingru_padded", MinGRU("padded"), (u,), "d"),
        ("mingru_exp", MinGRU("exp"), (u,), "sd"),
        ("mingru_masked", MinGRU("masked"), (u,), "sd"),
        ("mingru_operator", MinGRU("operator"), (odd,), "sd"),
        ("mingru_in_place", MinGRU("in_place"), (u[:, :16],), "d"),
        ("mingru_steps", MinGRU("steps"), (u,), "d"),
        ("mamba_hillis", Mamba("hillis"), (even,), "sd"),
        ("mamba_blelloch", Mamba("blelloch"), (odd,), "sd"),
        ("ema_powers", EMA("powers"), (u,), "sd"),
        ("ema_exp", EMA("exp"), (u,), "s"),
        ("ema_matrix", EMA("matrix"), (u,), "s"),
        ("toeplitz_features", Toeplitz("features"), (u,), "sd"),
        ("toeplitz_shared", Toeplitz("shared"), (u,), "sd"),
        ("toeplitz_windows", Toeplitz("windows"), (u,), "d"),
        ("step_s4d", Step("pairs"), (u[:, 0], state), "sd"),
        ("step_layers", Step("pairs", layers=2), (u[:, 0], state, 2 * state), "sd"),
        ("step_complex", Step("complex"), (u[:, 0], state), "d"),
        ("step_tanh", Step("tanh"), (u[:, 0], state), "sd"),
        ("kernel_s4d", Kernel("sum"), (long,), "d"),
        ("kernel_s4d_conv", Kernel("sum", conv=True), (long,), "sd"),
        ("kernel_s4d_matmul", Kernel("matmul", conv=True), (long,), "sd"),
        ("kernel_dss", Kernel("dss"), (long,), "d"),
    ]:
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        for kind in kinds:
            export(name, model, inputs, dynamo=kind == "d", script=kind == "s")


if __name__ == "__main__":
    main()
