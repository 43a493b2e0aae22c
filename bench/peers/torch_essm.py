"""PyTorch as a peer: runs a model directory (config.json and model.safetensors), in evaluation.

    load MODE DIR float|double X.npy [LENGTHS.npy]
    load start-MODE DIR float|double X.npy          the model from its directory, and its first run, anew each time

MODE listing   as the paper's listing does: the kernel and its spectrum are computed in every call
     fft       the spectrum of the kernel is kept, a favour to torch
     chunksN   products with Toeplitz matrices within chunks of N steps, a recurrence between them

The number of threads is torch's, and OpenBLAS's, from the environment: OMP_NUM_THREADS, OPENBLAS_NUM_THREADS.
"""
import json
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F

from protocol import serve


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    kinds = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32}
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            lo, hi = t["data_offsets"]
            out[name] = torch.from_numpy(np.frombuffer(raw[8 + n + lo:8 + n + hi], kinds[t["dtype"]]).reshape(t["shape"]).copy())
    return out


def below(w, prefix):
    return {k[len(prefix):]: v for k, v in w.items() if k.startswith(prefix)}


def activation(kind, y, w, suffix):
    def linear(name, x):
        return F.linear(x, w[name + suffix + ".weight"], w[name + suffix + ".bias"])

    if kind is None:
        return y
    if kind == "full_glu":
        g = F.gelu(y)
        return linear("out1", g) * torch.sigmoid(linear("out2", g))
    if kind == "half_glu1":
        g = F.gelu(y)
        return g * torch.sigmoid(linear("out2", g))
    if kind == "half_glu2":
        return y * torch.sigmoid(linear("out2", F.gelu(y)))
    return {"gelu": F.gelu, "relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu, "swish": F.silu,
            "leakyrelu": lambda x: F.leaky_relu(x, 0.05)}[kind](y)


class Layer:
    """One layer; u and what it gives are (batch, features, steps)."""

    def __init__(self, config, weights, mode):
        if "Lambda" not in weights:
            raise ValueError("a layer with a full A is beyond this peer")
        self.c, self.w, self.mode, self.kept = config, weights, mode, {}
        self.chunk = int(mode.removeprefix("chunks")) if mode.startswith("chunks") else 0

    def system(self):
        """λΔ and b of every state."""
        c, w = self.c, self.w
        re, im = w["Lambda"][..., 0], w["Lambda"][..., 1]
        re = {"clip": lambda: re.clamp(max=-c["max_real_lambda"]), "softplus": lambda: -F.softplus(re),
              "sigmoid": lambda: -torch.sigmoid(re), "Gaussian": lambda: -torch.exp(-re ** 2)}[c["lambda_real"]]()
        im = {"same": lambda: im, "softplus": lambda: F.softplus(im), "sigmoid": lambda: torch.sigmoid(im),
              "Gaussian": lambda: torch.exp(im ** 2), "clip": lambda: im.clamp(-1, 1), "zero": lambda: im * 0,
              "negtive": lambda: im.clamp(max=-1e-4)}[c["lambda_imag"]]()
        lam, dt = torch.complex(re, im), w["log_dt"].exp().expand(re.shape)
        if c["discretization"] == "zoh":
            a = lam * dt
            return a, lam.conj() / (lam * lam.conj() + 1e-7) * (a.exp() - 1)
        alpha = {"bilinear": 0.5, "forward_euler": 0.0, "backward_euler": 1.0}[c["discretization"]]
        below = 1 - alpha * dt * lam
        return torch.log((1 + (1 - alpha) * dt * lam) / below), dt / below

    def keep(self, key, make):
        if self.mode == "listing":
            return make()
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def by_fft(self, v):  # (batch, channels, heads, n, steps)
        steps = v.shape[-1]
        taps = min(steps, self.c["max_kernel_length"] or steps)
        size = steps + taps

        def spectrum():
            a, b = self.system()
            k = ((a.unsqueeze(-1) * torch.arange(taps, dtype=a.real.dtype)).exp() * b.unsqueeze(-1)).real
            if self.c["bidirectional"]:
                k = F.pad(k, (0, steps)) + F.pad(k.flip(-1), (steps, 0))
            return torch.fft.rfft(k, n=size)
        return torch.fft.irfft(torch.fft.rfft(v, n=size) * self.keep(steps, spectrum), n=size)[..., :steps]

    def by_chunks(self, v):
        batch, steps, size = v.shape[0], v.shape[-1], self.chunk
        pad = -steps % size
        v = F.pad(v, (0, pad))
        chunks, states = (steps + pad) // size, v.shape[1:4].numel()

        def matrices():
            a, b = (t.reshape(states, 1) for t in self.system())
            k = torch.arange(size)
            taps, lag = (b * torch.exp(a * k)).real, k[:, None] - k[None, :]
            inside = torch.where(lag >= 0, taps[:, lag.clamp(min=0)], torch.zeros((), dtype=taps.dtype))
            end = torch.view_as_real(b * torch.exp(a * (size - 1 - k))).contiguous()
            p = torch.exp(a * (k + 1))
            return inside.transpose(1, 2).contiguous(), end, torch.stack([p.real, -p.imag], 1).contiguous(), torch.exp(a * size)
        inside, end, carry, power = self.keep("chunks", matrices)

        def causal(v):
            rows = v.reshape(batch, states, chunks, size).transpose(0, 1).reshape(states, batch * chunks, size)
            x = torch.bmm(rows, inside)
            left = torch.view_as_complex(torch.bmm(rows, end)).view(states, batch, chunks)
            z, at = torch.empty_like(left), torch.zeros(states, batch, dtype=left.dtype)
            for j in range(chunks):
                z[:, :, j] = at
                at = at * power + left[:, :, j]
            x = x.baddbmm(torch.view_as_real(z).reshape(states, batch * chunks, 2), carry)
            return x.view(states, batch, chunks * size).transpose(0, 1)
        x = causal(v)[..., :steps]
        if self.c["bidirectional"]:
            back = causal(F.pad(v[..., :steps].flip(-1), (0, pad)))[..., :steps].flip(-1)
            x = x + F.pad(back[..., 1:], (0, 1))
        return x.reshape(batch, *v.shape[1:4], steps)

    def __call__(self, u):
        c, w = self.c, self.w
        batch, width, steps = u.shape
        heads = u.reshape(batch, c["heads"], width // c["heads"], steps)
        v = torch.einsum("csnh,bshl->bcsnl", w["B"], heads)
        x = self.by_chunks(v) if self.chunk and not c["max_kernel_length"] else self.by_fft(v)
        y = torch.einsum("csmn,bcsnl->bcsml", w["C"], x) * (2 if c["conj_sym"] else 1)
        if c["d"] == "diagonal":
            y = y + torch.einsum("csm,bsml->bcsml", w["D"], heads)
        elif c["d"] == "full":
            y = y + torch.einsum("csmh,bshl->bcsml", w["D"], heads)
        y = activation(c["activation"], y.permute(0, 1, 4, 2, 3).reshape(batch, y.shape[1], steps, -1), w, "")
        if c["heads"] > 1:
            y = F.linear(y, w["head_mixer.weight"], w["head_mixer.bias"])
        y = y.permute(0, 2, 1, 3).reshape(batch, steps, -1)
        if c["channels"] > 1:
            y = F.linear(y, w["channel_mixer.weight"], w["channel_mixer.bias"])
        return activation(c["post_activation"], y, w, "_post").transpose(1, 2)


class Model:
    def __init__(self, folder, mode, double):
        with open(os.path.join(folder, "config.json")) as f:
            self.c = json.load(f)
        w = read_safetensors(os.path.join(folder, "model.safetensors"))
        self.w = {k: v.double() if double and v.is_floating_point() else v for k, v in w.items()}
        self.layers = [Layer(self.c["layer"], below(self.w, f"model.layers.{i}.layer."), mode) for i in range(self.c["n_layers"])]

    def norm(self, x, prefix):
        w, kind = below(self.w, prefix), self.c["norm"]
        if kind == "none":
            return x
        if kind == "batch":
            return F.batch_norm(x, w["running_mean"], w["running_var"], w["weight"], w["bias"])
        if kind == "instance":
            return F.instance_norm(x)
        if kind == "layer":
            return F.layer_norm(x.transpose(1, 2), x.shape[1:2], w["weight"], w["bias"]).transpose(1, 2)
        deviation, mean = torch.std_mean(x, dim=1, unbiased=False, keepdim=True)
        return w["s"] / deviation * (x - mean + w["m"])

    def __call__(self, x, lengths=None):
        c, w, d = self.c, self.w, self.c["decoder"]
        if c["encoder"]["type"] == "embedding":
            x = F.embedding(x, w["encoder.weight"])
        elif c["encoder"]["type"] == "linear":
            x = F.linear(x, w["encoder.weight"], w["encoder.bias"])
        x = x.transpose(1, 2)
        for i, layer in enumerate(self.layers):
            p = f"model.layers.{i}.norm.norm."
            x = x + layer(self.norm(x, p)) if c["prenorm"] else self.norm(x + layer(x), p)
        if c["prenorm"]:
            x = self.norm(x, "model.norm.norm.")
        x = x.transpose(1, 2)
        pick = {"pool": lambda t: t.mean(-2), "last": lambda t: t[..., -1, :], "first": lambda t: t[..., 0, :],
                "sum": lambda t: t.sum(-2), "none": lambda t: t}[d["mode"]]
        x = pick(x) if lengths is None else torch.stack([pick(t[:int(n)]) for t, n in zip(x, lengths)])
        if d["type"] == "sequence":
            return F.linear(x, w["decoder.output_transform.weight"], w["decoder.output_transform.bias"])
        a, b = x.chunk(2)
        x = torch.cat([a, b, a - b, a * b] if d["nli"] else [a, b], -1)
        n = sum(k.startswith("decoder.retrieval.classifier.") for k in w) // 2
        for i in range(n):
            p = f"decoder.retrieval.classifier.{2 * i}."
            x = F.linear(x, w[p + "weight"], w[p + "bias"])
            if i < n - 1:
                x = F.gelu(x) if d["activation"] == "gelu" else F.relu(x)
        return x


def load(mode, folder, precision, *files):
    if mode.startswith("start-"):
        return lambda: load(mode.removeprefix("start-"), folder, precision, *files)()
    if mode not in ("listing", "fft") and not mode.removeprefix("chunks").isdigit():
        raise ValueError(f"unknown mode {mode}")
    model = Model(folder, mode, precision == "double")
    inputs = [torch.from_numpy(np.load(f)) for f in files]
    if precision == "double" and inputs[0].is_floating_point():
        inputs[0] = inputs[0].double()

    def run():
        with torch.inference_mode():
            return model(*inputs)
    return run


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    serve(f"torch {torch.__version__}, {torch.get_num_threads()} threads", load, lambda y, file: np.save(file, y.numpy()))
