"""Mamba, Mamba-2, minGRU and minLSTM, as torch_families.py runs them: recurrences with coefficients that vary with time."""
import math

import torch
import torch.nn.functional as F

from torch_frame import below
from torch_scan import blocked, looped


class Mamba:
    """Mamba; forms: steps in a loop, or blocks at once."""
    forms = ("loop", "blocks")

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w, self.form, self.dtype = c, w, form, dtype
        self.mixers = [below(w, f"backbone.layers.{i}.mixer.") for i in range(c["num_hidden_layers"])]
        self.prepare()

    def prepare(self):
        self.rates = [-m["A_log"].double().exp().to(self.dtype) for m in self.mixers]

    def norm(self, x, w):
        return F.rms_norm(x, x.shape[-1:], w, self.c.get("layer_norm_epsilon", 1e-5))

    def conv(self, x, m):
        """x (batch, features, steps), causal."""
        w = m["conv1d.weight"]
        return F.silu(F.conv1d(x, w, m.get("conv1d.bias"), padding=w.shape[-1] - 1, groups=w.shape[0])[..., :x.shape[-1]])

    def inputs(self, i, x):
        """Δ, b and c of steps, from the features after the convolution."""
        m, n = self.mixers[i], self.rates[i].shape[1]
        r = m["dt_proj.weight"].shape[1]
        dt, b, c = F.linear(x, m["x_proj.weight"]).split([r, n, n], -1)
        return F.softplus(F.linear(dt, m["dt_proj.weight"], m["dt_proj.bias"])), b, c

    def mixer(self, i, x):
        m = self.mixers[i]
        x, z = F.linear(x, m["in_proj.weight"], m.get("in_proj.bias")).chunk(2, -1)
        x = self.conv(x.transpose(1, 2), m).transpose(1, 2).contiguous()
        dt, b, c = self.inputs(i, x)
        batch, steps, width = x.shape
        y, at = torch.empty_like(x), torch.zeros(batch, width, b.shape[-1], dtype=x.dtype)
        part = 256
        for lo in range(0, steps, part):  # parts that stay in the caches
            p = slice(lo, min(steps, lo + part))
            a = torch.exp(dt[:, p].unsqueeze(-1) * self.rates[i])
            v = (dt[:, p] * x[:, p]).unsqueeze(-1) * b[:, p].unsqueeze(2)
            v[:, 0].addcmul_(a[:, 0], at)
            s = looped(a, v) if self.form == "loop" else blocked(a, v, 16)
            at = s[:, -1].clone()
            y[:, p] = torch.matmul(s, c[:, p].unsqueeze(-1)).squeeze(-1)
        y = torch.addcmul(y, x, m["D"]) * F.silu(z)
        return F.linear(y, m["out_proj.weight"], m.get("out_proj.bias"))

    def head(self, x):
        x = self.norm(x, self.w["backbone.norm_f.weight"])
        return F.linear(x, self.w.get("lm_head.weight", self.w["backbone.embeddings.weight"]))

    def __call__(self, x, lengths=None):
        x = F.embedding(x, self.w["backbone.embeddings.weight"])
        for i in range(len(self.mixers)):
            x = x + self.mixer(i, self.norm(x, self.w[f"backbone.layers.{i}.norm.weight"]))
        return self.head(x)

    def start(self, batch):
        self.states = []
        for m, rate in zip(self.mixers, self.rates):
            w = m["conv1d.weight"]
            self.states.append([torch.zeros(batch, w.shape[0], w.shape[-1], dtype=self.dtype), self.first(batch, m, rate)])

    def first(self, batch, m, rate):
        return torch.zeros(batch, *rate.shape, dtype=self.dtype)

    def shift(self, i, x):
        """The convolution of a step."""
        m, state = self.mixers[i], self.states[i]
        state[0] = torch.cat([state[0][..., 1:], x.unsqueeze(-1)], -1)
        y = (state[0] * m["conv1d.weight"][:, 0]).sum(-1)
        return F.silu(y + m["conv1d.bias"] if "conv1d.bias" in m else y)

    def advance(self, i, x):
        m, state = self.mixers[i], self.states[i]
        x, z = F.linear(x, m["in_proj.weight"], m.get("in_proj.bias")).chunk(2, -1)
        x = self.shift(i, x)
        dt, b, c = self.inputs(i, x)
        a = torch.exp(dt.unsqueeze(-1) * self.rates[i])
        state[1] = torch.addcmul((dt * x).unsqueeze(-1) * b.unsqueeze(1), a, state[1])
        y = torch.addcmul(torch.matmul(state[1], c.unsqueeze(-1)).squeeze(-1), x, m["D"]) * F.silu(z)
        return F.linear(y, m["out_proj.weight"], m.get("out_proj.bias"))

    def step(self, x):
        x = F.embedding(x, self.w["backbone.embeddings.weight"])
        for i in range(len(self.mixers)):
            x = x + self.advance(i, self.norm(x, self.w[f"backbone.layers.{i}.norm.weight"]))
        return self.head(x)


class Mamba2(Mamba):
    """Mamba-2, in chunks as products of matrices."""
    forms = ("chunks32", "chunks64", "chunks128")

    def prepare(self):
        c = self.c
        self.rates = [-m["A_log"].double().exp().to(self.dtype) for m in self.mixers]
        self.heads, self.groups, self.n = c["num_heads"], c.get("n_groups", 1), c["state_size"]
        self.width = self.mixers[0]["norm.weight"].shape[0]
        self.size = int(self.form.removeprefix("chunks"))

    def divide(self, i, x):
        m = self.mixers[i]
        shared = self.groups * self.n
        return F.linear(x, m["in_proj.weight"], m.get("in_proj.bias")).split([self.width, self.width + 2 * shared, self.heads], -1)

    def steps(self, i, dt):
        lo, hi = self.c.get("time_step_limit", (0.0, math.inf))
        return F.softplus(dt + self.mixers[i]["dt_bias"]).clamp(lo, hi)

    def each(self, b):
        """b and c of groups, for each head: (…, heads, n)."""
        b = b.view(*b.shape[:-1], self.groups, self.n)
        return b if self.groups == self.heads else b.repeat_interleave(self.heads // self.groups, -2)

    def finish(self, i, y, z):
        m = self.mixers[i]
        return F.linear(self.norm(y * F.silu(z), m["norm.weight"]), m["out_proj.weight"], m.get("out_proj.bias"))

    def mixer(self, i, x):
        m, size = self.mixers[i], self.size
        batch, steps, _ = x.shape
        z, x, dt = self.divide(i, x)
        x = self.conv(x.transpose(1, 2), m).transpose(1, 2)
        shared = self.groups * self.n
        x, b, c = x.split([self.width, shared, shared], -1)
        dt = self.steps(i, dt)
        pad = -steps % size
        rows, heads = (steps + pad) // size, self.heads
        cut = lambda t: F.pad(t, (0, 0, 0, pad)).view(batch, rows, size, heads, -1).permute(0, 3, 1, 2, 4) if t.dim() == 3 else None
        heads_of = lambda t: cut(self.each(t).reshape(batch, steps, -1)).contiguous()
        u = cut((x.view(batch, steps, heads, -1) * dt.unsqueeze(-1)).reshape(batch, steps, -1)).contiguous()
        b, c = heads_of(b), heads_of(c)  # batch, heads, rows, size, n
        a = cut(dt * self.rates[i])[..., 0].cumsum(-1)  # batch, heads, rows, size
        lag = a.unsqueeze(-1) - a.unsqueeze(-2)
        decay = torch.exp(lag.masked_fill_(torch.ones(size, size, dtype=torch.bool).triu(1), -math.inf))
        y = (c @ b.transpose(-1, -2) * decay) @ u
        left = (b * torch.exp(a[..., -1:] - a).unsqueeze(-1)).transpose(-1, -2) @ u  # n, features of a head
        power = torch.exp(a[..., -1])
        at, before = torch.zeros_like(left[:, :, 0]), []
        for j in range(rows):
            before.append(at)
            at = torch.addcmul(left[:, :, j], at, power[:, :, j, None, None])
        y = y + (c * torch.exp(a).unsqueeze(-1)) @ torch.stack(before, 2)
        y = y.permute(0, 2, 3, 1, 4).reshape(batch, rows * size, heads, -1)[:, :steps]
        y = torch.addcmul(y, x.view(batch, steps, heads, -1), m["D"][:, None]).flatten(2)
        return self.finish(i, y, z)

    def first(self, batch, m, rate):
        return torch.zeros(batch, self.heads, self.width // self.heads, self.n, dtype=self.dtype)

    def advance(self, i, x):
        m, state = self.mixers[i], self.states[i]
        z, x, dt = self.divide(i, x)
        shared = self.groups * self.n
        x, b, c = self.shift(i, x).split([self.width, shared, shared], -1)
        dt = self.steps(i, dt)
        x = x.view(x.shape[0], self.heads, -1)
        a = torch.exp(dt * self.rates[i])[..., None, None]
        state[1] = torch.addcmul((x * dt.unsqueeze(-1)).unsqueeze(-1) * self.each(b).unsqueeze(2), a, state[1])
        y = torch.matmul(state[1], self.each(c).unsqueeze(-1)).squeeze(-1)
        return self.finish(i, torch.addcmul(y, x, m["D"][:, None]).flatten(1), z)


class Minimal2:
    """minGRU and minLSTM: one layer."""
    forms = ("loop", "blocks")

    def __init__(self, c, w, form, dtype, folder):
        self.w, self.form, self.gru = w, form, c["model_type"] == "mingru"

    def coefficients(self, x):
        g = lambda h: torch.where(h >= 0, h + 0.5, torch.sigmoid(h))
        if self.gru:
            h, z = F.linear(x, self.w["to_hidden_and_gate.weight"]).chunk(2, -1)
            return torch.sigmoid(-z), torch.sigmoid(z) * g(h)
        h, f, i = F.linear(x, self.w["to_hidden_and_f_i_gate.weight"]).chunk(3, -1)
        f, i = torch.sigmoid(f), torch.sigmoid(i)
        return f / (f + i), i / (f + i) * g(h)

    def out(self, h):
        return F.linear(h, self.w["to_out.weight"]) if "to_out.weight" in self.w else h

    def __call__(self, x, lengths=None):
        f, v = self.coefficients(x)
        return self.out(looped(f, v) if self.form == "loop" else blocked(f, v))

    def start(self, batch):
        self.state = 0

    def step(self, x):
        f, v = self.coefficients(x)
        self.state = f * self.state + v
        return self.out(self.state)
