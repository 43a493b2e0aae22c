"""Measures essmc and PyTorch on the same card, and writes a table in Markdown.

    torch_cuda.py ESSMC OUT.md [--device cuda|cpu] [--without-torch] MODEL:BxL,BxL,… …

A MODEL is a directory with config.json and model.safetensors. essmc is measured by `essmc bench`, whose times include the
copies of inputs and results; torch is measured with these copies, and, beside that, without them. Its forms: "fft" keeps the
spectrum of the kernel (cuFFT), "chunks64" has products with Toeplitz matrices, and "compile" is "fft" under torch.compile.
Both compute in float32; TF32 is off in torch unless its own default has it on for cuFFT and products. Outputs are compared.
runtime/cuda/device.sh calls this on a machine with a card; --device cpu tries it on one without.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

WARM, LEAST, SECONDS = 5, 10, 2.0


def median(times):
    times = sorted(times)
    return times[len(times) // 2]


def measured(run, wait):
    """Milliseconds of run: the median of as many as take two seconds."""
    for _ in range(WARM):
        run()
    wait()
    times, began = [], time.perf_counter()
    while len(times) < LEAST or time.perf_counter() - began < SECONDS:
        start = time.perf_counter()
        run()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def of_essmc(essmc, model, shape, device):
    p = subprocess.run([essmc, "bench", model, "--shape", shape, "--json", "--device", device],
                       capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(p.stderr.strip())
    return json.loads(p.stdout)["median_ms"]


def output_of_essmc(essmc, model, x, device):
    import numpy as np
    with tempfile.TemporaryDirectory() as d:
        a, b = os.path.join(d, "x.npy"), os.path.join(d, "y.npy")
        np.save(a, x)
        subprocess.run([essmc, "run", model, "--input", "input=" + a, "--output", "output=" + b, "--outputs", "output",
                        "--device", device], check=True, capture_output=True)
        return np.load(b)


def of_torch(model, mode, x, device):
    """Times with and without copies, and the output."""
    import torch
    from torch_essm import Model
    torch.set_default_device(device)
    m = Model(model, "fft" if mode == "compile" else mode, False)
    for w in [m.w] + [layer.w for layer in m.layers]:
        for k in w:
            w[k] = w[k].to(device)
    f = torch.compile(m) if mode == "compile" else m
    host = torch.from_numpy(x)
    if device == "cuda":
        host = host.pin_memory()
    there = host.to(device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.inference_mode():
        y = f(there).cpu().numpy()
        return measured(lambda: f(host.to(device, non_blocking=True)).cpu(), wait), measured(lambda: f(there), wait), y


def sample(model, shape):
    import numpy as np
    with open(os.path.join(model, "config.json")) as f:
        c = json.load(f)["encoder"]
    batch, steps = (int(n) for n in shape.split("x"))
    r = np.random.default_rng(1)
    if c["type"] == "embedding":
        return r.integers(0, c["vocab_size"], (batch, steps))
    return r.standard_normal((batch, steps, c["d_input"])).astype(np.float32)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("essmc")
    p.add_argument("out")
    p.add_argument("--device", default="cuda")
    p.add_argument("--without-torch", action="store_true")
    p.add_argument("models", nargs="+")
    a = p.parse_args()
    modes = [] if a.without_torch else ["fft", "chunks64", "compile"]
    lines = ["Milliseconds of a run with the copies of its input and result; in brackets without them. float32.", ""]
    if modes:
        import torch
        name = torch.cuda.get_device_name() if a.device == "cuda" else "the processor"
        lines[0] += f" PyTorch {torch.__version__} on {name}."
    differ = " outputs differ by |" if modes else ""
    lines += ["| model | shape | essmc |" + "".join(f" torch, {m} |" for m in modes) + differ,
              "|---|---|---:|" + "---:|" * (len(modes) + bool(modes))]
    failed = False
    for arg in a.models:
        model, shapes = arg.rsplit(":", 1)
        for shape in shapes.split(","):
            cells, difference = [os.path.basename(model), shape], ""
            try:
                cells.append(f"{of_essmc(a.essmc, model, shape, a.device):.3f}")
            except Exception as e:
                failed = True
                cells.append(" ".join(str(e).split()))
            for mode in modes:
                try:
                    x = sample(model, shape)
                    whole, inside, y = of_torch(model, mode, x, a.device)
                    cells.append(f"{whole:.3f} ({inside:.3f})")
                    if mode == "fft":
                        ours = output_of_essmc(a.essmc, model, x, a.device)
                        difference = f"{abs(ours - y).max() / max(abs(y).max(), 1e-30):.1e}"
                except Exception as e:
                    cells.append(" ".join(f"{type(e).__name__}: {e}".split())[:160].replace("|", "/"))
            lines.append("| " + " | ".join(cells + ([difference] if modes else [])) + " |")
            print(lines[-1], flush=True)
    with open(a.out, "w") as f:
        f.write("\n".join(lines) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
