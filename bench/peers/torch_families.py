"""PyTorch as a peer of every family: runs a model directory (config.json and model.safetensors), in evaluation.

    load whole DIR float|double X.npy [LENGTHS.npy]    whole sequences, in the form that is the fastest for them
    load whole-FORM DIR float|double X.npy …           in a form of torch_scan.py
    load step DIR float|double X.npy                   steps, each with the state that the one before left

    python torch_families.py check CASES               holds every form to the stored answers of reference cases

The modules are written for this comparison; they hold the answers of the released codes. The number of threads is torch's,
from the environment.
"""
import glob
import json
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import torch_essm
from protocol import serve
from torch_frame import Backbone, Minimal, act, below, linear, pair
from torch_scan import Convolution, Recurrence, blocked, looped

FORMS = ("fft", "chunks32", "chunks128", "loop", "blocks")


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


class Essm:
    """The deep eSSM, by torch_essm.py."""
    forms = ("fft", "chunks32", "chunks64")

    def __init__(self, c, w, form, dtype, folder):
        self.model = torch_essm.Model(folder, form, dtype == torch.float64)

    def __call__(self, x, lengths=None):
        return self.model(x, lengths)


class Frame(Backbone):
    forms = ("fft", "chunks32", "chunks128")

    def __init__(self, c, w, form, dtype, folder):
        super().__init__(c, w, form, dtype)


class Nets(Backbone):
    """Models of the frame without a choice of forms."""
    forms = ("fft",)

    def __init__(self, c, w, form, dtype, folder):
        super().__init__(c, w, form, dtype)


class MinimalModel:
    forms = ("fft", "chunks32", "chunks128")

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w = c, w
        self.layers = [Minimal(below(w, f"s4_layers.{i}."), c["d_model"], form, dtype) for i in range(c["n_layers"])]

    def run(self, x, apply):
        x = linear(x, self.w, "encoder")
        norm = lambda i, x: F.layer_norm(x, x.shape[-1:], self.w[f"norms.{i}.weight"], self.w[f"norms.{i}.bias"])
        for i, layer in enumerate(self.layers):
            y = apply(i, layer, norm(i, x) if self.c.get("prenorm") else x)
            x = x + y if self.c.get("prenorm") else norm(i, x + y)
        return x

    def __call__(self, x, lengths=None):
        return linear(self.run(x, lambda i, layer, x: layer(x)).mean(1), self.w, "decoder")

    def start(self, batch):
        self.states, self.count, self.sum = [layer.start(batch) for layer in self.layers], 0, 0

    def step(self, x):
        def one(i, layer, x):
            y, self.states[i] = layer.step(x, self.states[i])
            return y
        x = self.run(x, one)
        self.count, self.sum = self.count + 1, self.sum + x
        return linear(self.sum / self.count, self.w, "decoder")


class Flax:
    """S5 and LRU: one system of all features in each layer."""
    forms = ("fft", "chunks32", "chunks128", "loop")

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w, self.kind = c, w, c["model_type"]
        self.complex = torch.complex64 if dtype == torch.float32 else torch.complex128
        self.real = dtype
        self.systems = [self.system(below(w, f"params.encoder.layers_{i}.seq."), form, dtype) for i in range(c["n_layers"])]
        self.norms = [self.norm_of(i) for i in range(c["n_layers"])]

    def system(self, w, form, dtype):
        c, w = self.c, {k: v.double() for k, v in w.items()}
        back = None
        if self.kind == "lru":
            x = torch.complex(-w["nu_log"].exp(), w["theta_log"].exp())
            b = w["gamma_log"].exp()[:, None] * torch.complex(w["B_re"], w["B_im"])
            out, factor = torch.complex(w["C_re"], w["C_im"]), 1
        else:
            re = w["Lambda_re"].clamp(max=-1e-4) if c.get("clip_eigs") else w["Lambda_re"]
            lam, b = torch.complex(re, w["Lambda_im"]), pair(w["B"])
            dt = c.get("step_rescale", 1.0) * w["log_step"][:, 0].exp()
            if c.get("discretization", "zoh") == "zoh":
                x = lam * dt
                b = ((x.exp() - 1) / lam)[:, None] * b
            else:
                half = lam * dt / 2
                x, b = torch.log((1 + half) / (1 - half)), (dt / (1 - half))[:, None] * b
            if c.get("bidirectional"):
                out, back = (pair(w["C1"]), pair(w["C2"])) if "C1" in w else pair(w["C"]).chunk(2, -1)
            else:
                out = pair(w["C"])
            factor = 2 if c.get("conj_sym", True) else 1
        stacked = lambda z: torch.cat([factor * z.real, -factor * z.imag], -1).to(dtype)  # times (re, im)
        return (Recurrence(form, dtype, x), torch.cat([b.real, b.imag], 0).to(dtype), stacked(out),
                None if back is None else stacked(back), w["D"].to(dtype), torch.exp(x).to(self.complex))

    def norm_of(self, i):
        name = "normalization" if self.kind == "lru" else "norm"
        p, s = below(self.w, f"params.encoder.layers_{i}.{name}."), below(self.w, f"batch_stats.encoder.layers_{i}.{name}.")
        if not s:
            return lambda x: F.layer_norm(x, x.shape[-1:], p["scale"], p["bias"], 1e-6)
        scale = p["scale"] * (s["var"] + 1e-5).rsqrt()
        shift = p["bias"] - s["mean"] * scale
        return lambda x: torch.addcmul(shift, x, scale)

    def dense(self, x, name):
        p = below(self.w, name + ".")
        return torch.addmm(p["bias"], x.reshape(-1, x.shape[-1]), p["kernel"]).view(*x.shape[:-1], -1)

    def gate(self, y, i):
        kind = "full_glu" if self.kind == "lru" else self.c.get("activation_fn", "half_glu1")
        out = lambda k, x: self.dense(x, f"params.encoder.layers_{i}.out{k}")
        g = gelu_tanh(y)
        if kind == "full_glu":
            return out(1, g) * torch.sigmoid(out(2, g))
        if kind == "half_glu1":
            return g * torch.sigmoid(out(2, g))
        return y * torch.sigmoid(out(2, g)) if kind == "half_glu2" else g

    def split(self, z):  # complex → (re, im)
        return torch.cat([z.real, z.imag], -1)

    def layers(self, x, apply):
        for i in range(self.c["n_layers"]):
            y = self.gate(apply(i, self.norms[i](x) if self.c["prenorm"] else x), i)
            x = x + y if self.c["prenorm"] else self.norms[i](x + y)
        return x

    def whole(self, i, u):
        scan, b, out, back, d, _ = self.systems[i]
        v = F.linear(u, b)
        v = torch.complex(*v.chunk(2, -1))
        y = torch.addcmul(F.linear(self.split(scan(v)), out), u, d)
        if back is not None:
            y = y + F.linear(self.split(scan(v.flip(1)).flip(1)), back)
        return y

    def decode(self, x):
        c = self.c
        if c.get("retrieval"):
            a, b = x.chunk(2)
            x = self.dense(gelu_tanh(self.dense(torch.cat([a, b, a - b, a * b], -1), "params.decoder.layer1")), "params.decoder.layer2")
        else:
            x = self.dense(x, "params.decoder")
        if c.get("multidim", 1) > 1:
            x = x.view(*x.shape[:-1], -1, c["multidim"])
        return F.log_softmax(x, -1)

    def __call__(self, x, lengths=None):
        c = self.c
        x = self.layers(self.dense(x, "params.encoder.encoder"), self.whole)
        pool = c.get("pooling", {"pool": "mean"}.get(c.get("mode"), c.get("mode")))
        if pool == "mean" and lengths is not None and c.get("padded"):
            x = torch.stack([t[:int(n)].mean(0) for t, n in zip(x, lengths)])
        elif pool == "mean":
            x = x.mean(1)
        elif pool == "last":
            x = x[:, -1]
        return self.decode(x)

    def start(self, batch):
        if self.c.get("bidirectional"):
            raise ValueError("a bidirectional model has no form for steps")
        self.states = [torch.zeros(batch, s[5].shape[0], dtype=self.complex) for s in self.systems]
        self.count, self.sum = 0, 0

    def step(self, x):
        def one(i, u):
            _, b, out, _, d, power = self.systems[i]
            v = torch.complex(*F.linear(u, b).chunk(2, -1))
            z = self.states[i] = torch.addcmul(v, self.states[i], power)
            return torch.addcmul(F.linear(self.split(z), out), u, d)
        x = self.layers(self.dense(x, "params.encoder.encoder"), one)
        if self.c.get("pooling", self.c.get("mode")) in ("mean", "pool"):
            self.count, self.sum = self.count + 1, self.sum + x
            x = self.sum / self.count
        return self.decode(x)


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


class LRA:
    forms = ("fft",)

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w = c, w

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".scale"], self.w[name + ".bias"], 1e-6)

    def dense(self, x, name):
        return F.linear(x, self.w[name + ".kernel"].t(), self.w[name + ".bias"])

    def positions(self, d):
        if self.c.get("learn_pos_emb"):
            return self.w["posembed_input.pos_embedding"][0]
        rows = self.c["max_len"] + (self.c.get("classifier_pool") == "CLS")
        t = torch.arange(rows, dtype=torch.float64)[:, None] * torch.exp(torch.arange(0, d, 2, dtype=torch.float64) * (-math.log(10000) / d))
        pe = torch.zeros(rows, d, dtype=torch.float64)
        pe[:, 0::2], pe[:, 1::2] = t.sin(), t.cos()[:, :d // 2]
        return pe.to(self.w["encoder_norm.bias"].dtype)

    def __call__(self, tokens, lengths=None):
        c, w = self.c, self.w
        x, keys = F.embedding(tokens, w["Embed_0.embedding"]), tokens > 0
        pool = c.get("classifier_pool", "CLS") if c.get("classifier") else None
        if pool == "CLS":
            x = torch.cat([w["cls"].expand(len(x), 1, -1), x], 1)
            keys = torch.cat([keys[:, :1], keys], 1)
        x = x + self.positions(x.shape[-1])[:x.shape[1]]
        heads = c["num_heads"]
        mask = keys[:, None, None, :] & keys[:, None, :, None]
        bias = torch.zeros((), dtype=x.dtype).masked_fill(~mask, -1e10)
        for i in range(c["num_layers"]):
            p = "encoderblock." if c.get("tied_weights") else f"encoderblock_{i}."
            y = self.norm(x, p + "LayerNorm_0")
            q, k, v = (torch.einsum("bld,dhe->bhle", y, w[p + f"SelfAttention_1.{n}.kernel"]) for n in ("query", "key", "value"))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = x + torch.einsum("bhle,hed->bld", y, w[p + "SelfAttention_1.out.kernel"])
            y = self.norm(x, p + "LayerNorm_2")
            x = x + self.dense(gelu_tanh(self.dense(y, p + "MlpBlock_3.Dense_0")), p + "MlpBlock_3.Dense_1")
        x = self.norm(x, "encoder_norm")
        if pool is None:
            return x
        x = x[:, 0] if pool == "CLS" else x.mean(1) if pool == "MEAN" else x.sum(1)
        return self.dense(F.relu(self.dense(x, "mlp")), "logits")


class FNet:
    forms = ("fft",)

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w = c, w

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], self.c.get("layer_norm_eps", 1e-12))

    def __call__(self, tokens, lengths=None):
        w, a = self.w, self.c.get("hidden_act", "gelu_new")
        f = gelu_tanh if a == "gelu_new" else lambda x: act(a, x)
        e = "fnet.embeddings."
        x = F.embedding(tokens, w[e + "word_embeddings.weight"]) + w[e + "token_type_embeddings.weight"][0]
        x = self.norm(x + w[e + "position_embeddings.weight"][:x.shape[1]], e + "LayerNorm")
        x = linear(x, w, e + "projection")
        for i in range(self.c["num_hidden_layers"]):
            p = f"fnet.encoder.layer.{i}."
            x = self.norm(x + torch.fft.fftn(x, dim=(1, 2)).real, p + "fourier.output.LayerNorm")
            x = self.norm(x + linear(f(linear(x, w, p + "intermediate.dense")), w, p + "output.dense"), p + "output.LayerNorm")
        if "classifier.weight" in w:
            return linear(torch.tanh(linear(x[:, 0], w, "fnet.pooler.dense")), w, "classifier")
        h = "cls.predictions."
        x = self.norm(f(linear(x, w, h + "transform.dense")), h + "transform.LayerNorm")
        return F.linear(x, w[e + "word_embeddings.weight"], w[h + "bias"])


def folded(w, name):
    """A weight with weight norm."""
    v = w[name + ".weight_v"]
    return w[name + ".weight_g"] * v / v.flatten(1).norm(dim=1).view(-1, 1, 1)


class CDIL:
    forms = ("fft",)

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w, self.blocks = c, w, []
        for i in range(len(c["num_channels"])):
            p = f"conv.conv_net.{i}."
            self.blocks.append((folded(w, p + "conv"), w[p + "conv.bias"], below(w, p + "res.")))

    def __call__(self, x, lengths=None):
        c = self.c
        if c.get("use_embed"):
            name = next(k for k in self.w if "embed" in k)
            x = F.embedding(x, self.w[name])
        x = x.transpose(1, 2)
        for i, (weight, bias, res) in enumerate(self.blocks):
            dilation = 1 if c["model"] == "CNN" else 1 << i
            pad = dilation * (c["kernel_size"] - 1)
            if c["model"] == "CDIL":
                y = F.conv1d(F.pad(x, (pad // 2, pad // 2), mode="circular"), weight, bias, dilation=dilation)
            elif c["model"] == "TCN":
                y = F.conv1d(F.pad(x, (pad, 0)), weight, bias, dilation=dilation)
            else:
                y = F.conv1d(x, weight, bias, padding=pad // 2, dilation=dilation)
            x = F.relu(y) + (F.conv1d(x, res["weight"], res["bias"]) if res else x)
        x = x[..., -1] if c["model"] == "TCN" else x.mean(-1)
        return linear(x, self.w, "linear")


class CKConv:
    forms = ("fft",)

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w, self.dtype, self.kept = c, w, dtype, {}

    def group(self, x, name):
        p = below(self.w, name + ".layer_norm.")
        if "running_mean" in p:
            return F.batch_norm(x, p["running_mean"], p["running_var"], p["weight"], p["bias"])
        return F.group_norm(x, 1, p["weight"], p["bias"], 1e-12) if p else x

    def kernel(self, name, channels, steps):
        c, w = self.c, self.w
        train = int(w[name + ".train_length"]) if name + ".train_length" in w else 0
        train = train or steps
        rate = round(train / steps) if train > steps else 1 / round(steps / train)
        step = 2 / (train - 1) if train > 1 else 0.0
        if rate > 1:
            top = 1 - ((train - 1) % rate) * step
        else:
            top = 1 + ((steps - 1) % (1 / rate)) * step * rate
        x = torch.linspace(-1, top, steps, dtype=self.dtype).view(1, 1, -1)
        net = name + ".Kernel.kernel_net."
        for j in (0, 4, 8):
            x = F.conv1d(x, folded(w, f"{net}{j}"), w[f"{net}{j}.bias"])
            if j < 8:
                kind = c["kernelnet_activation_function"]
                if kind == "Sine":
                    x = torch.sin(c["omega_0"] * x)
                else:
                    x = self.group(x, f"{net}{j + 2}")
                    x = {"ReLU": F.relu, "LeakyReLU": F.leaky_relu, "Swish": F.silu}[kind](x)
        k = x.view(-1, channels, steps)
        if rate < 1:
            h = round(1 / rate)
            taps = torch.exp(-0.5 * (torch.arange(-h, h + 1, dtype=self.dtype) / 0.5) ** 2) / (0.5 * math.sqrt(2 * math.pi))
            smooth = F.conv1d(k.reshape(-1, 1, steps), taps.view(1, 1, -1), padding=h).view_as(k)
            k = torch.cat([k[..., :h], smooth[..., h:steps - h], k[..., steps - h:]], -1)
        return k * rate

    def conv(self, x, name):
        steps = x.shape[-1]
        size = 1 << (2 * steps - 1).bit_length()
        if (name, steps) not in self.kept:
            self.kept[name, steps] = torch.fft.rfft(self.kernel(name, x.shape[1], steps).flip(-1), n=size)
        y = torch.einsum("bif,oif->bof", torch.fft.rfft(x, n=size), self.kept[name, steps])
        return torch.fft.irfft(y, n=size)[..., :steps] + self.w[name + ".bias"].view(-1, 1)

    def __call__(self, x, lengths=None):
        x = x.transpose(1, 2)
        for i in range(self.c["num_blocks"]):
            p = f"backbone.{i}."
            y = F.relu(self.group(self.conv(x, p + "cconv1"), p + "norm1"))
            y = F.relu(self.group(self.conv(y, p + "cconv2"), p + "norm2"))
            short = below(self.w, p + "shortcut.0.")
            if "weight_g" in short:
                x = F.conv1d(x, folded(self.w, p + "shortcut.0"), short.get("bias"))
            elif short:
                x = F.conv1d(x, short["weight"], short.get("bias"))
            x = F.relu(y + x)
        x = x.transpose(1, 2)
        if self.c.get("task", "classification") == "classification":
            x = x[:, -1]
        if "finallyr.weight_g" in self.w:
            return F.linear(x, folded(self.w, "finallyr").squeeze(-1), self.w["finallyr.bias"])
        return linear(x, self.w, "finallyr")


FAMILIES = {"essm": Essm, "s4": Frame, "s4d": Frame, "s4d-minimal": MinimalModel, "dss": Frame, "liquid-s4": Frame, "s5": Flax,
            "lru": Flax, "mamba": Mamba, "mamba2": Mamba2, "mingru": Minimal2, "minlstm": Minimal2, "lstm": Nets,
            "transformer": Nets, "lra-transformer": LRA, "fnet": FNet, "cdil-cnn": CDIL, "ckconv": CKConv}


def model(folder, form, dtype):
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    w = torch_essm.read_safetensors(os.path.join(folder, "model.safetensors"))
    w = {k: v.to(dtype) if v.is_floating_point() else v for k, v in w.items()}
    return FAMILIES[c["model_type"]](c, w, form, dtype, folder)


def forms(folder):
    """The forms that a model may have."""
    with open(os.path.join(folder, "config.json")) as f:
        return FAMILIES[json.load(f)["model_type"]].forms


def inputs(dtype, *files):
    x = [torch.from_numpy(np.load(f)) for f in files]
    return [x[0].to(dtype) if x[0].is_floating_point() else x[0], *x[1:]]


def whole(folder, form, dtype, given):
    m = model(folder, form, dtype)

    def run():
        with torch.inference_mode():
            return m(*given)
    return run


def fastest(folder, dtype, given):
    """The form whose second run is the fastest."""
    best = None
    for form in forms(folder):
        try:
            with torch.inference_mode():
                run = whole(folder, form, dtype, given)
        except ValueError:
            continue  # a form that these layers do not have
        run()
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        if best is None or took < best[0]:
            best = took, run
    return best[1]


def stepping(folder, dtype, given):
    with torch.inference_mode():
        m = model(folder, forms(folder)[0], dtype)
        if not hasattr(m, "start"):
            raise ValueError("this model has no form for steps")
        x = given[0]
        m.start(x.shape[0])
    at = 0

    def run():
        nonlocal at
        with torch.inference_mode():
            y = m.step(x[:, at])
        at = (at + 1) % x.shape[1]
        return y
    return run


def load(mode, folder, precision, *files):
    dtype = torch.float64 if precision == "double" else torch.float32
    given = inputs(dtype, *files)
    if mode == "whole":
        return fastest(folder, dtype, given)
    if mode.startswith("whole-"):
        return whole(folder, mode.removeprefix("whole-"), dtype, given)
    if mode == "step":
        return stepping(folder, dtype, given)
    raise ValueError(f"unknown mode {mode}")


# How far the answers of the released codes are from the truth in float32, where that is more than 1e-5.
SLACK = {"s4d-slow-modes": 1.5e-4, "s5-last-noconj": 1.2e-5, "s4-hippo-doubled": 1.2e-5, "dss-softmax-causal": 5e-5}


def check(root):
    """Holds the modules to the answers of reference cases; prints a line for each, and gives how many are off."""
    wrong = 0
    for config in sorted(glob.glob(os.path.join(root, "*", "config.json"))):
        folder = os.path.dirname(config)
        name = os.path.basename(folder)
        files = [os.path.join(folder, "input.npy")]
        if os.path.exists(os.path.join(folder, "lengths.npy")):
            files.append(os.path.join(folder, "lengths.npy"))
        truth = np.load(os.path.join(folder, "output64.npy"))
        off = lambda y, want: np.abs(y.double().numpy() - want).max() / np.abs(truth).max()
        words, tried = [], 0
        for precision, bound in (("double", 1e-9), ("float", SLACK.get(name, 1e-5))):
            for form in forms(folder):
                try:
                    run = load("whole-" + form, folder, precision, *files)
                except ValueError:
                    continue
                d, tried = off(run(), truth), tried + 1
                words.append(f"{precision} {form} {d:.1e}")
                if not d <= bound:
                    wrong += 1
                    words[-1] += f" is above {bound:.1e}"
            try:
                run = load("step", folder, precision, files[0]) if len(files) == 1 else None
            except ValueError:
                run = None
            if run:
                steps = [run() for _ in range(np.load(files[0], mmap_mode="r").shape[1])]
                y = steps[-1]
                if truth.ndim == 3:  # the last steps, or each
                    y = torch.stack([s.flatten(1) for s in steps[-truth.shape[1]:]], 1)
                d = off(y.reshape(truth.shape), truth)
                words.append(f"{precision} steps {d:.1e}")
                if not d <= bound:
                    wrong += 1
                    words[-1] += f" is above {bound:.1e}"
        if not tried:
            wrong += 1
            words.append("has no form")
        print(f"{name}: {', '.join(words)}")
    return wrong


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if sys.argv[1:2] == ["check"]:
        sys.exit(1 if check(sys.argv[2]) else 0)
    serve(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", load,
          lambda y, file: np.save(file, y.numpy()))
