"""CDIL-CNN with its siblings, and CKConv, as torch_families.py runs them: convolutions with weight norm."""
import math

import torch
import torch.nn.functional as F

from torch_frame import below, linear


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
