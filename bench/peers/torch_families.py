"""PyTorch as a peer of every family: runs a model directory (config.json and model.safetensors), in evaluation.

    load whole DIR float|double X.npy [LENGTHS.npy]    whole sequences, in the form that is the fastest for them
    load whole-FORM DIR float|double X.npy …           in a form of torch_scan.py
    load step DIR float|double X.npy                   steps, each with the state that the one before left

    python torch_families.py check CASES               holds every form to the stored answers of reference cases

The modules are written for this comparison; they hold the answers of the released codes. The number of threads is torch's,
from the environment.
"""
import functools
import glob
import json
import os
import re
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import torch_essm
from protocol import serve
from torch_conv import CDIL, CKConv
from torch_flax import Flax
from torch_frame import Backbone, Minimal, below, linear
from torch_gated import Mamba, Mamba2, Minimal2
from torch_mixers import FNet, LRA

# Functions that older versions of torch lack, and the first version that has them. Models that need others are at fault.
SINCE = {"torch.nn.functional.scaled_dot_product_attention": (2, 0), "torch.nn.functional.rms_norm": (2, 4)}


class Lacks(Exception):
    """This version of torch is older than a function that the model needs."""


def lacks(e):
    """The Lacks that an AttributeError means, or None."""
    found = re.match(r"module '([\w.]+)' has no attribute '(\w+)'", str(e))
    name = found and ".".join(found.groups())
    version = tuple(int(n) for n in torch.__version__.split(".")[:2])
    if name not in SINCE or version >= SINCE[name]:
        return None
    return Lacks(f"torch {torch.__version__} has no {name}, which came with {'.'.join(map(str, SINCE[name]))}")


def telling(f):
    """f, with Lacks for the functions that this version of torch does not have."""
    @functools.wraps(f)
    def call(*args):
        try:
            y = f(*args)
        except AttributeError as e:
            raise lacks(e) or e
        return telling(y) if callable(y) else y
    return call


FORMS = ("fft", "chunks32", "chunks128", "loop", "blocks")


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


@telling
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
    """Holds the modules to the answers of reference cases; prints a line for each, and gives how many are off. A case whose
    module needs what this torch lacks is skipped."""
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
        try:
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
        except Lacks as e:
            print(f"{name}: skipped: {e}")
            continue
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
