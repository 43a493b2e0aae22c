"""Holds essmc against ONNX Runtime on the models that fetch.sh took out of packages.

    compare.py [--device cpu|ref] [--compile] [--only TEXT] ESSMC DIR

DIR is the one that fetch.sh filled; its venv has ONNX Runtime. Each model runs on inputs of the kind that it is for (speech
like sound, bytes of text, pictures of text) at several batch sizes and lengths. The error of an output is its largest
difference from ONNX Runtime's, relative to the largest absolute value that it takes for any of the inputs (a probability
of 1e-6 alone would measure the rounding of ONNX Runtime's sigmoid); above 1e-4 the exit code is 1. Shapes that ONNX Runtime
refuses are not asked of essmc.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

TOLERANCE = 1e-4


def sound(batch, n, rate=16000, seed=0):
    """A few gliding harmonics with syllables, over noise; in [-1, 1]."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / rate
    out = []
    for b in range(batch):
        pitch = 110 * (1 + b) * (1 + 0.1 * np.sin(2 * np.pi * 3 * t))
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voice = sum(np.sin(k * phase) / k for k in range(1, 9))
        out.append(0.2 * voice * (0.5 + 0.5 * np.sin(2 * np.pi * 4 * t + b)) + 0.01 * rng.standard_normal(n))
    return np.clip(np.array(out), -1, 1).astype(np.float32)


def text(batch):
    """The bytes of this file, from different places, as magika takes them: 1024 from the beginning, 1024 from the end."""
    with open(__file__, "rb") as f:
        data = f.read()
    samples = [data, b"#include <stdio.h>\nint main(void) { return 0; }\n" * 30, b"a,b,c\n1,2,3\n" * 8, bytes(range(256)) * 9]
    out = np.full((batch, 2048), 256, np.int32)
    for b in range(batch):
        s = samples[b % len(samples)].strip()
        head, tail = s[:1024], s[-1024:]
        out[b, :len(head)] = list(head)
        out[b, 2048 - len(tail):] = list(tail)
    return out


GLYPHS = {  # seven rows of five dots
    "E": (31, 16, 16, 30, 16, 16, 31), "S": (15, 16, 16, 14, 1, 1, 30), "M": (17, 27, 21, 21, 17, 17, 17),
    "A": (14, 17, 17, 31, 17, 17, 17), "T": (31, 4, 4, 4, 4, 4, 4), "L": (16, 16, 16, 16, 16, 16, 31),
    "2": (14, 17, 1, 6, 8, 16, 31), "0": (14, 17, 19, 21, 25, 17, 14), " ": (0,) * 7,
}


def picture(batch, h, w, seed=0):
    """Dark letters of about 28 pixels on light paper, normalised as OCR models take it."""
    rng = np.random.default_rng(seed)
    img = np.full((batch, 3, h, w), 0.92, np.float32)
    dot = 4
    for b in range(batch):
        for top in range(10, h - 7 * dot - 5, 12 * dot):
            for i, left in enumerate(range(12, w - 6 * dot, 6 * dot)):
                rows = GLYPHS["ESSM 2048 AT LAST "[(i + 3 * b + top) % 18].replace("4", "A").replace("8", "E")]
                for y, row in enumerate(rows):
                    for x in range(5):
                        if row >> (4 - x) & 1:
                            img[b, :, top + y * dot:top + (y + 1) * dot, left + x * dot:left + (x + 1) * dot] = 0.1
    img += 0.02 * rng.standard_normal(img.shape).astype(np.float32)
    return ((img - 0.5) / 0.5).astype(np.float32)


def noise(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def cases(name, inputs):
    """Inputs for a model, told by what it takes: (label, {input: array})."""
    names = set(inputs)
    shape = {k: v.shape for k, v in inputs.items()}
    if names == {"bytes"}:
        for b in (1, 4):
            yield f"{b}x2048", {"bytes": text(b)}
    elif {"h", "c", "input"} <= names and "sr" not in names:  # whole recordings, in windows of 576
        for n in (1, 20):
            h = 0.1 * noise(1, 1, 128)
            yield f"{n} windows", {"input": sound(1, n * 576).reshape(n, 576), "h": h, "c": -h}
    elif "input" in names and ("state" in names or "h" in names):  # voice activity, window by window
        rates = [(16000, (512, 576, 1024, 1536)), (8000, (256, 288, 512, 768))]
        for rate, lengths in rates if "sr" in names else rates[:1]:
            for b in (1, 3):
                for n in lengths:
                    x = {"input": sound(b, n, rate)}
                    if "sr" in names:
                        x["sr"] = np.array(rate, np.int64)
                    if "state" in names:
                        x["state"] = 0.1 * noise(2, b, 128)
                    else:
                        x["h"], x["c"] = 0.1 * noise(2, b, 64), -0.1 * noise(2, b, 64)
                    yield f"{b}x{n}@{rate // 1000}k", x
    elif names == {"input"} and len(shape["input"]) == 2:  # spectrograms of sound
        for b, n in ((1, 1280), (1, 16000), (2, 12345)):
            yield f"{b}x{n}", {"input": 32767 * sound(b, n)}
    elif len(names) == 1 and len(next(iter(shape.values()))) == 4 and shape[next(iter(names))][-1] == 1:  # of spectrograms
        for b in (1, 5):
            yield f"{b}x76x32", {next(iter(names)): noise(b, 76, 32, 1)}
    elif names == {"x"} and len(shape["x"]) == 4:  # pictures
        sizes = ((1, 96, 320), (2, 128, 224)) if "det" in name else ((1, 48, 192), (3, 48, 192), (2, 48, 100))
        for b, h, w in sizes:
            yield f"{b}x3x{h}x{w}", {"x": picture(b, h, w)}
    elif len(names) == 1 and all(isinstance(d, int) for d in next(iter(shape.values()))):
        k = next(iter(names))
        for scale in (1, 8):
            yield f"{'x'.join(map(str, shape[k]))}*{scale}", {k: scale * noise(*shape[k])}
    else:
        sys.exit(f"{name}: nothing is known of a model with inputs {shape}")


def difference(got, want):
    """The largest difference of two outputs, and the largest absolute value of the second."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf"), 1.0
    if want.size == 0:
        return 0.0, 0.0
    if want.dtype.kind != "f":
        return (0.0 if np.array_equal(got, want) else float("inf")), 1.0
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return float("inf"), 1.0
    if not finite.any():
        return 0.0, 0.0
    return float(np.abs(got[finite].astype(np.float64) - want[finite]).max()), float(np.abs(want[finite]).max())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("essmc")
    p.add_argument("dir")
    p.add_argument("--device", default="cpu")
    p.add_argument("--compile", action="store_true", help="run the plan that essmc compile makes of each model")
    p.add_argument("--only", default="", help="models whose path contains TEXT", metavar="TEXT")
    p.add_argument("--limit", type=float, default=1e9, help="stop before another model after so many SECONDS", metavar="SECONDS")
    a = p.parse_args()
    ort.set_default_logger_severity(4)
    root = os.path.join(a.dir, "models")
    models = sorted(os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(root) for f in fs if f.endswith(".onnx"))
    bad = ran = 0
    started = time.monotonic()
    for model in (m for m in models if a.only in m):
        if time.monotonic() - started > a.limit:
            print(f"stopped before {model}: {a.limit:g} s are over")
            break
        path = os.path.join(root, model)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        inputs = {i.name: i for i in session.get_inputs()}
        outputs = [o.name for o in session.get_outputs()]
        why, done, refused = [], [], []
        most, scale = dict.fromkeys(outputs, 0.0), dict.fromkeys(outputs, 0.0)
        with tempfile.TemporaryDirectory() as tmp:
            what = path
            if a.compile:
                what = f"{tmp}/model.essm"
                r = subprocess.run([a.essmc, "compile", path, "-o", what], capture_output=True, text=True)
                if r.returncode != 0:
                    why.append(f"compile: {r.stderr.strip()}")
            for label, x in cases(model, inputs):
                try:
                    want = session.run(outputs, x)
                except Exception:  # a shape that this model does not take
                    refused.append(label)
                    continue
                cmd = [a.essmc, "run", what, "--device", a.device]
                for i, (k, v) in enumerate(x.items()):
                    np.save(f"{tmp}/in{i}.npy", v)
                    cmd += ["-i", f"{k}={tmp}/in{i}.npy"]
                for i, k in enumerate(outputs):
                    cmd += ["-o", f"{k}={tmp}/out{i}.npy"]
                r = subprocess.run(cmd, capture_output=True, text=True)
                done.append(label)
                if r.returncode != 0:
                    why.append(f"{label}: {r.stderr.strip()}")
                    continue
                for i, (k, w) in enumerate(zip(outputs, want)):
                    got = np.load(f"{tmp}/out{i}.npy")
                    d, s = difference(got, w)
                    most[k], scale[k] = max(most[k], d), max(scale[k], s)
                    if d == float("inf"):
                        why.append(f"{label}: {k}: found {got.shape} {got.dtype}, expected {w.shape} {w.dtype}")
        if not done:
            why.append("ONNX Runtime takes none of the inputs")
        worst = float("inf") if why else max(most[k] / (scale[k] or 1.0) for k in outputs)
        ran += 1
        verdict = "ok " if worst <= TOLERANCE else "BAD"
        bad += worst > TOLERANCE
        print(f"{verdict} {worst:8.1e}  {model}  {' '.join(done)}{'  refused: ' + ' '.join(refused) if refused else ''}", flush=True)
        for line in why:
            print(f"    {line}", flush=True)
    print(f"{ran - bad} of {ran} models agree with ONNX Runtime {ort.__version__} to {TOLERANCE:g}")
    return 1 if bad or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
