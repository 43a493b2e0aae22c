"""The frame of state-spaces/s4 in torch: encoder, residual blocks, decoder; and its layers, those of S4, S4D, DSS, Liquid-S4,
LSTM and attention. Weights have the names of the released codes. See docs/families.md."""
import itertools
import math

import torch
import torch.nn.functional as F

from torch_scan import Convolution, kernels


def below(w, prefix):
    return {k[len(prefix):]: v for k, v in w.items() if k.startswith(prefix)}


def linear(x, w, name):
    weight, bias = w[name + ".weight"], w.get(name + ".bias")
    return F.linear(x, weight.reshape(weight.shape[:2]), None if bias is None else bias.reshape(-1))


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def act(kind, x):
    """An activation; glu-f halves the last axis."""
    if kind in (None, "id", "identity", "linear", "none"):
        return x
    if kind.startswith("glu"):
        a, b = x.chunk(2, -1)
        return a * act(kind[4:] or "sigmoid", b)
    return {"tanh": torch.tanh, "relu": F.relu, "gelu": F.gelu, "elu": F.elu, "swish": F.silu, "silu": F.silu,
            "sigmoid": torch.sigmoid, "softplus": F.softplus, "sqrelu": lambda x: F.relu(x) ** 2, "relu2": lambda x: F.relu(x) ** 2,
            "laplace": lambda x: 0.5 * (1 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2))))}[kind](x)


def positive(kind, p):
    return {"none": lambda: p, "exp": lambda: p.exp(), "relu": lambda: F.relu(p) + 1e-4, "sigmoid": lambda: torch.sigmoid(p),
            "softplus": lambda: torch.log1p(p.exp())}[kind]()


def pair(p):
    return torch.complex(p[..., 0], p[..., 1])


class Systems:
    """What the layers S4, S4D, DSS and Liquid-S4 share: a Convolution, D, activations, the last linear layer."""

    own_lengths = False  # whether steps beyond lengths are cleared before the layer

    def __init__(self, c, w, d, form, dtype):
        self.c, self.w, self.d = c, w, d
        self.complex = torch.complex64 if dtype == torch.float32 else torch.complex128

    def finish(self, y):
        """y (batch, channels, features, steps), D included → (batch, steps, features)."""
        c = self.c
        y = act(c.get("activation", "gelu"), y.flatten(1, 2).transpose(1, 2))
        if c.get("hyper_act"):
            a, b = y.chunk(2, -1)
            y = act(c["hyper_act"], b) * a
        last = c.get("final_act", "glu") if "postact" not in c else c["postact"]
        y = act(c.get("mult_act"), y)
        if "output_linear.0.weight" in self.w:
            return act(last, linear(y, self.w, "output_linear.0"))
        return linear(y, self.w, "output_linear") if "output_linear.weight" in self.w else y

    def __call__(self, x, lengths=None):
        if lengths is not None and self.own_lengths:
            x = x * (torch.arange(x.shape[1]) < lengths[:, None]).unsqueeze(2)
        u = x.transpose(1, 2).contiguous()
        y = torch.addcmul(self.conv(u), self.direct, u.unsqueeze(1))
        more = self.besides(u)
        return self.finish(y if more is None else y + more)

    def besides(self, u):
        """What else is added to the outputs, or None."""

    # A step: x (batch, features), z (batch, channels, features, states).
    def start(self, batch):
        raise ValueError("these layers have no form for steps")


class Diagonal(Systems):
    """Layers with eigenvalues: x and the weights of exp(xk) are (channels, features, states)."""

    def set(self, x, weight, later, form, dtype, taps):
        self.x, self.weight = x, weight
        self.direct = self.w["layer.D" if "layer.D" in self.w else "D"].unsqueeze(-1)
        k = lambda w: lambda steps: kernels(x, w, min(steps, taps or steps))
        self.conv = Convolution(form, dtype, k(weight), later is not None and k(later), x, weight, taps)
        self.causal, self.taps = later is None, taps
        self.factor, self.read = torch.exp(x).to(self.complex), weight.to(self.complex)

    def start(self, batch):
        if not self.causal or self.taps:
            raise ValueError("these layers have no form for steps")
        return torch.zeros(batch, *self.weight.shape, dtype=self.complex)

    def step(self, x, z):
        z = torch.addcmul(x[:, None, :, None].to(self.complex), z, self.factor)
        y = torch.einsum("bchn,chn->bch", z, self.read).real + self.direct[..., 0] * x.unsqueeze(1)
        return self.finish(y.unsqueeze(-1))[:, 0], z


class S4D(Diagonal):
    own_lengths = True

    def __init__(self, c, w, d, form, dtype):
        super().__init__(c, w, d, form, dtype)
        k = {name: v.double() for name, v in below(w, "layer.kernel.").items()}
        old = "inv_A_real" in k or "inv_w_real" in below(k, "kernel.")
        if old:
            raise ValueError("names of versions before 4")
        real = c.get("is_real", False)
        lam = -positive(c.get("real_transform", "exp"), k["A_real"]).to(torch.complex128)
        b, cc = k["B"][0], k["C"]
        if real:
            b, cc = b.to(torch.complex128), cc.to(torch.complex128)
        else:
            lam = lam - 1j * positive(c.get("imag_transform", "none"), k["A_imag"])
            b, cc = pair(b), pair(cc)
        each = lambda p: p.repeat(d // p.shape[0], 1)
        lam, b = each(lam), each(b)
        dt = k["inv_dt"].sinh() if c.get("dt_fast") else k["inv_dt"]
        dt = positive(c.get("dt_transform", "exp"), dt)
        x = dt * lam
        if c.get("bandlimit"):
            b = b * (dt * lam.imag.abs() / (2 * math.pi) < c["bandlimit"] / 2)
        if c.get("disc", "zoh") == "zoh":
            b = b * (torch.exp(x) - 1) / lam
        else:
            b, x = b * dt / (1 - x / 2), torch.log((1 + x / 2) / (1 - x / 2))
        weight = 2 * cc * b
        n = c.get("channels", 1)
        self.swap = c.get("swap_channels", False)
        self.set(x.expand(n, *x.shape), weight[:n], weight[n:] if c.get("bidirectional") else None, form, dtype, c.get("l_max"))

    def finish(self, y):
        if self.swap:
            y = y.transpose(1, 2)
        return super().finish(y)


class Minimal(Diagonal):
    def __init__(self, w, d, form, dtype):
        super().__init__({"activation": "gelu", "final_act": "glu"}, w, d, form, dtype)
        k = {name: v.double() for name, v in below(w, "kernel.").items()}
        lam = torch.complex(-k["log_A_real"].exp(), k["A_imag"])
        x = lam * k["log_dt"].exp()[:, None]
        weight = 2 * pair(k["C"]) * (torch.exp(x) - 1) / lam
        self.w = {**w, "D": w["D"].unsqueeze(0)}
        self.set(x.unsqueeze(0), weight.unsqueeze(0), None, form, dtype, None)


class DSS(Diagonal):
    def __init__(self, c, w, d, form, dtype):
        super().__init__(c, w, d, form, dtype)
        k = {name: v.double() for name, v in below(w, "kernel.").items()}
        if "Lambda" in k:
            re, im = k["Lambda"][:, 0], k["Lambda"][:, 1]
            if c["version"].startswith("clip"):
                re = re.clamp(max=-c.get("max_real_Lambda", 1e-4))
        else:
            re = -k["Lambda_log_neg_re"].exp()
            im = k["Lambda_im"] if "Lambda_im" in k else k["Lambda_log_im"].exp()
        lam, weight = torch.complex(re, im), pair(k["W"])
        dt = k["log_dt"].exp()
        if dt.dim() == 2:
            x = torch.complex(dt[:, :1] * re, dt[:, 1:] * im)
        else:
            x = dt[:, None] * lam
        n = c.get("channels", 1) * (2 if c.get("hyper_act") else 1)
        taps = c.get("max_kernel_length")
        if c["version"] == "softmax":
            self.softmax(x, lam, weight, n, c, form, dtype, taps)
            return
        if not c["version"].endswith("no-scale"):
            weight = weight * (torch.exp(x) - 1) * lam.conj() / (lam * lam.conj()).real.clamp(min=1e-7)
        self.set(x.expand(n, *x.shape), weight[:n], weight[n:] if c.get("bidirectional") else None, form, dtype, taps)

    def softmax(self, x, lam, weight, n, c, form, dtype, taps):
        """A kernel that depends on the length."""
        self.direct, self.causal = self.w["D"].unsqueeze(-1), False  # no form for steps
        grows = (lam.real > 0).double()

        def kernel(w):
            def of(steps):
                last = min(steps, taps or steps)
                low = torch.where(grows > 0, -x, x)
                q = (torch.exp(low * last) - 1) * lam
                scaled = w * (torch.exp(low) - 1) * q.conj() / ((q * q.conj()).real + c.get("epsilon", 1e-7))
                k = torch.arange(last, dtype=torch.float64)
                return torch.stack([torch.einsum("cn,nk->ck", scaled[:, h], torch.exp(x[h][:, None] * (k - grows[:, None] * (last - 1)))).real
                                    for h in range(x.shape[0])], 1)
            return of
        self.conv = Convolution(form, dtype, kernel(weight[:n]), kernel(weight[n:]) if c.get("bidirectional") else None, taps=taps)


class S4(Systems):
    """Diagonal plus low rank: kernels from powers of the matrix, steps by Woodbury's identity."""
    own_lengths = True

    def __init__(self, c, w, d, form, dtype):
        super().__init__(c, w, d, form, dtype)
        prefix = "layer.kernel." if "layer.D" in w else "kernel.kernel."
        k = {name: v.double() for name, v in below(w, prefix).items()}
        if "A_real" in k:
            lam = torch.complex(-positive(c.get("real_transform", "exp"), k["A_real"]),
                                -positive(c.get("imag_transform", "none"), k["A_imag"]))
            dt = k["inv_dt"].sinh() if c.get("dt_fast") else k["inv_dt"]
            dt, prepared = positive(c.get("dt_transform", "exp"), dt), int(k["l_kernel"])
        else:
            lam = torch.complex(-positive(c.get("real_type", "exp"), k["inv_w_real"]), k["w_imag"])
            dt, prepared = k["log_dt"].exp()[:, None], int(k["L"])
        each = lambda p: p.repeat(d // p.shape[0], *[1] * (p.dim() - 1))
        self.lam, self.dt = each(lam), dt
        self.p = each(pair(k["P"]).transpose(0, 1))  # features, rank, states
        self.b = each(pair(k["B"])[0])
        twice = lambda z: torch.cat([z, z.conj()], -1)
        lam, p, b, dt = twice(self.lam), twice(self.p), twice(self.b), self.dt.expand(d, lam.shape[-1])
        dt = torch.cat([dt, dt], -1)
        a = torch.diag_embed(lam) - p.transpose(1, 2) @ p.conj()
        one = torch.eye(a.shape[-1], dtype=a.dtype)
        inverse = torch.linalg.inv(one - 0.5 * dt.unsqueeze(-1) * a)
        self.a, bbar = inverse @ (one + 0.5 * dt.unsqueeze(-1) * a), inverse @ (dt * b).unsqueeze(-1)
        cc = twice(pair(k["C"]))
        if prepared:
            power = torch.linalg.matrix_power(self.a, prepared)
            cc = torch.linalg.solve((one - power).transpose(1, 2), cc.permute(1, 2, 0)).permute(2, 0, 1)
        self.bbar = bbar
        n = c.get("channels", 1)
        taps = c.get("l_max")
        self.causal, self.taps, self.out = not c.get("bidirectional"), taps, cc[:n]
        self.direct = w["layer.D" if "layer.D" in w else "D"].unsqueeze(-1)
        self.conv = Convolution(form, dtype, lambda steps: self.kernel(cc[:n], steps),
                                None if self.causal else lambda steps: self.kernel(cc[n:], steps), taps=taps)
        g = 1 / (2 / self.dt - self.lam)
        gp = g.unsqueeze(1) * self.p
        m = torch.linalg.inv(torch.eye(p.shape[1], dtype=torch.float64) + 2 * (self.p.conj() @ gp.transpose(1, 2)).real)
        self.steps = [t.to(self.complex) for t in (2 / self.dt + self.lam, g, gp, self.p, self.p.conj(), 2 * self.b,
                                                   2 * self.out[..., :self.lam.shape[-1]])] + [m.to(w["D" if "D" in w else "layer.D"].dtype)]

    def kernel(self, c, steps, block=64):
        """c Āᵏ b̄ in blocks of lags."""
        x = [self.bbar]
        for _ in range(block - 1):
            x.append(self.a @ x[-1])
        x, power = torch.cat(x, -1), torch.linalg.matrix_power(self.a, block)
        c, out = c.transpose(0, 1), []  # features, channels, states
        for _ in range(0, steps, block):
            out.append((c @ x).real)
            c = c @ power
        return torch.cat(out, -1)[..., :steps].transpose(0, 1)

    def start(self, batch):
        if not self.causal or self.taps:
            raise ValueError("these layers have no form for steps")
        return torch.zeros(batch, *self.lam.shape, dtype=self.complex)

    def step(self, x, z):
        e, g, gp, p, pc, b, out, m = self.steps
        low = 2 * torch.einsum("hrn,bhn->bhr", pc, z).real
        v = g * (e * z - torch.einsum("hrn,bhr->bhn", p, low.to(z.dtype)) + b * x.unsqueeze(-1))
        low = torch.einsum("hrq,bhq->bhr", m, 2 * torch.einsum("hrn,bhn->bhr", pc, v).real)
        z = v - torch.einsum("hrn,bhr->bhn", gp, low.to(z.dtype))
        y = torch.einsum("bhn,chn->bch", z, out).real + self.direct[..., 0] * x.unsqueeze(1)
        return self.finish(y.unsqueeze(-1))[:, 0], z


class Liquid(S4):
    """S4 before version 4, with the products of inputs (polyb)."""

    def __init__(self, c, w, d, form, dtype):
        super().__init__(c, w, d, form, dtype)
        if c.get("liquid_kernel") not in (None, "polyb"):
            raise ValueError(f"liquid_kernel {c['liquid_kernel']}")
        self.scales = []
        if c.get("liquid_kernel"):
            k = {name: v.double() for name, v in below(w, "liquid.").items()}
            twice = lambda z: torch.cat([z, z.conj()], -1)
            lam, b, cc = twice(pair(k["w"])), twice(pair(k["B"])), twice(pair(k["C"]))
            dt = k["log_dt"].exp()[:, None]
            each = lambda p: p.repeat(d // p.shape[0], 1)
            lam, b = each(lam), each(b)
            g = dt * b / (1 - 0.5 * dt * lam)
            for _ in range(c.get("liquid_degree", 2) - 1):
                g = g * g.sum(-1, keepdim=True)
                self.scales.append((cc * g).sum(-1).real.to(dtype))  # channels, features
        self.subsets = {}

    def products(self, u, degree, before):
        """The products U of one degree."""
        if not self.c.get("allcombs", True):
            return before * F.pad(before, (1, -1))
        steps = u.shape[-1]
        if (steps, degree) not in self.subsets:
            m = 2
            while math.comb(m, degree) < steps:
                m += 1
            if m > steps:
                m = steps
            chosen = list(itertools.combinations(range(steps - m, steps), degree))[-steps:]
            self.subsets[steps, degree] = torch.tensor(chosen)
        at = self.subsets[steps, degree]
        return F.pad(u[..., at].prod(-1), (0, steps - len(at)))

    def besides(self, u):
        if not self.scales:
            return None
        total, before = 0, u
        contract = {None: lambda x: x, "tanh": torch.tanh, "lecun": lambda x: 1.7159 * torch.tanh(0.666 * x)}[self.c.get("lcontract")]
        for i, scale in enumerate(self.scales):
            before = self.products(u, i + 2, before)
            f = contract(before)
            total = total + (scale[0].unsqueeze(-1) * f.flip(-1)).unsqueeze(1)
            if self.c.get("bidirectional"):
                total = total + (scale[1].unsqueeze(-1) * f).unsqueeze(1)
        return total

    def start(self, batch):
        raise ValueError("these layers have no form for steps")


class LSTM:
    def __init__(self, c, w, d, form, dtype):
        hidden, layers = c["d_hidden"], c.get("n_layers", 1)
        self.net = torch.nn.LSTM(w["weight_ih_l0"].shape[1], hidden, layers, batch_first=True).to(dtype)
        self.net.load_state_dict({k: v for k, v in w.items() if k.startswith(("weight_", "bias_"))})
        self.layers, self.hidden, self.dtype = layers, hidden, dtype

    def __call__(self, x, lengths=None):
        return self.net(x)[0]

    def start(self, batch):
        return tuple(torch.zeros(self.layers, batch, self.hidden, dtype=self.dtype) for _ in range(2))

    def step(self, x, z):
        y, z = self.net(x.unsqueeze(1), z)
        return y[:, 0], z


class Attention:
    def __init__(self, c, w, d, form, dtype):
        self.c, self.w = c, w

    def __call__(self, x, lengths=None):
        batch, steps, d = x.shape
        heads = self.c["n_heads"]
        qkv = F.linear(x, self.w["mha.in_proj_weight"], self.w.get("mha.in_proj_bias"))
        q, k, v = (t.view(batch, steps, heads, d // heads).transpose(1, 2) for t in qkv.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.c.get("causal", True))
        return linear(y.transpose(1, 2).reshape(batch, steps, d), self.w, "mha.out_proj")


class FeedForward:
    def __init__(self, c, w, d, form, dtype):
        self.c, self.w = c, w

    def __call__(self, x, lengths=None):
        return linear(act(self.c.get("activation", "gelu"), linear(x, self.w, "ff.0.0")), self.w, "ff.2")


def layer(c, w, d, form, dtype):
    kind = c["_name_"]
    if kind == "s4":
        return (S4D if c.get("mode", "diag") in ("diag", "s4d") else S4)(c, w, d, form, dtype)
    return {"dss": DSS, "liquid-s4": Liquid, "lstm": LSTM, "mha": Attention, "ffn": FeedForward}[kind](c, w, d, form, dtype)


class Norm:
    def __init__(self, kind, w):
        self.kind, self.w = kind, {k.removeprefix("norm."): v for k, v in w.items()}

    def __call__(self, x):
        kind, w = self.kind, self.w
        if kind == "none":
            return x
        if kind == "layer" and "m" in w:
            deviation, mean = torch.std_mean(x, dim=-1, unbiased=False, keepdim=True)
            return w["s"] / deviation * (x - mean + w["m"])
        if kind == "layer":
            return F.layer_norm(x, x.shape[-1:], w["weight"], w["bias"])
        if kind == "batch":
            scale = w["weight"] * (w["running_var"] + 1e-5).rsqrt()
            return torch.addcmul(w["bias"] - w["running_mean"] * scale, x, scale)
        if kind == "instance":
            return F.instance_norm(x.transpose(1, 2)).transpose(1, 2)
        return F.group_norm(x.transpose(1, 2), 1, w["weight"], w["bias"]).transpose(1, 2)


class Backbone:
    """A model of the frame. Inputs (batch, steps, features) or tokens (batch, steps)."""

    def __init__(self, config, w, form, dtype):
        self.c, self.w, m = config, w, config["model"]
        encoders = config["encoder"]
        self.encoders = encoders if isinstance(encoders, list) else [encoders]
        self.whole = m["_name_"] == "lstm"  # a layer as the whole model
        if self.whole:
            self.blocks = [(None, layer(m, below(w, "model."), m["d_model"], form, dtype))]
        else:
            kinds = m["layer"] if isinstance(m["layer"], list) else [m["layer"]]
            self.blocks = []
            for i in range(m["n_layers"] * len(kinds)):
                self.blocks.append((Norm(m.get("norm", "none") or "none", below(w, f"model.layers.{i}.norm.")),
                                    layer(kinds[i % len(kinds)], below(w, f"model.layers.{i}.layer."), m["d_model"], form, dtype)))
            self.last = Norm(m.get("norm", "none") or "none", below(w, "model.norm.")) if m.get("prenorm") else None
        self.decoder = "decoder.0.output_transform" if "decoder.0.output_transform.weight" in w else "decoder.output_transform"

    def encode(self, x):
        for i, e in enumerate(self.encoders):
            name = f"encoder.{i}" if f"encoder.{i}.weight" in self.w or f"encoder.{i}.pe" in self.w else "encoder"
            if e["_name_"] == "embedding":
                x = F.embedding(x, self.w[name + ".weight"])
            elif e["_name_"] == "linear":
                x = linear(x, self.w, name)
            elif e["_name_"] == "position":
                x = x + self.w[name + ".pe"][:x.shape[1]]
        return x

    def layers(self, x, apply):
        """apply(i, layer, x) gives what a layer gives."""
        if self.whole:
            return apply(0, self.blocks[0][1], x)
        m = self.c["model"]
        add = m.get("residual", "R") == "R"
        for i, (norm, block) in enumerate(self.blocks):
            y = apply(i, block, norm(x) if m.get("prenorm") else x)
            x = x + y if add else y
            if not m.get("prenorm"):
                x = norm(x)
        return self.last(x) if self.last else x

    def decode(self, x, lengths):
        d = self.c["decoder"]
        n, mode = d.get("l_output"), d.get("mode", "last")
        steps = x.shape[1]
        if not d.get("use_lengths"):
            lengths = None
        if lengths is not None:
            x = torch.stack([self.pick(t[None, :int(k)], n, mode)[0] for t, k in zip(x, lengths)])
        else:
            x = self.pick(x, n, mode)
        return linear(x, self.w, self.decoder)

    def pick(self, x, n, mode):
        steps = x.shape[1]
        count = steps if n is None else n
        if mode == "first":
            x = x[:, :max(count, 1)]
        elif mode == "last":
            x = x[:, -max(count, 1):]
        else:
            if count == 0:
                x = x.sum(1, keepdim=True) / (steps if mode == "pool" else 1)
            else:
                total = x.cumsum(1)
                if mode == "pool":
                    total = total / torch.arange(1, steps + 1, dtype=x.dtype)[:, None]
                x = total[:, -count:]
        return x[:, 0] if n == 0 else x

    def __call__(self, x, lengths=None):
        return self.decode(self.layers(self.encode(x), lambda i, block, x: block(x, lengths)), lengths)

    def start(self, batch):
        if any(not hasattr(b, "start") or n and n.kind in ("instance", "group") for n, b in self.blocks):
            raise ValueError("this model has no form for steps")
        self.states, self.count, self.sum = [b.start(batch) for _, b in self.blocks], 0, 0

    def step(self, x):
        """x (batch, features) or (batch)."""
        def one(i, block, x):
            y, self.states[i] = block.step(x[:, 0], self.states[i])
            return y.unsqueeze(1)
        x = self.layers(self.encode(x.unsqueeze(1)), one)
        if self.c["decoder"].get("mode") in ("pool", "sum"):
            self.count, self.sum = self.count + 1, self.sum + x
            x = self.sum / (self.count if self.c["decoder"]["mode"] == "pool" else 1)
        return linear(x[:, -1] if self.c["decoder"].get("l_output") == 0 else x, self.w, self.decoder)
