"""S5 and LRU, as torch_families.py runs them: layers in the frame of the released codes, which are in flax."""
import torch
import torch.nn.functional as F

from torch_frame import below, gelu_tanh, pair
from torch_scan import Recurrence


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
