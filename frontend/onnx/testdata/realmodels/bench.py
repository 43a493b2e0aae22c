"""Times essmc against ONNX Runtime, both on one thread, on the models that fetch.sh took out of packages.

    bench.py [--only TEXT] [--rounds N] [--json FILE] [--ops N] ESSMC DIR

Rounds of the two alternate; a round is the median of many runs, and what is printed is the median of the rounds, in
milliseconds. Inputs are those of compare.py, the first that ONNX Runtime takes. --ops lists the steps that took longest.
"""
import argparse
import collections
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime as ort

from compare import cases


def once(session, outputs, x, seconds):
    session.run(outputs, x)
    times, until = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < until:
        t = time.perf_counter()
        session.run(outputs, x)
        times.append(time.perf_counter() - t)
    return 1e3 * statistics.median(times)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("essmc")
    p.add_argument("dir")
    p.add_argument("--only", default="", help="models whose path contains TEXT", metavar="TEXT")
    p.add_argument("--rounds", type=int, default=3, metavar="N")
    p.add_argument("--repeat", type=int, default=0, help="runs of essmc in a round; 0: two seconds", metavar="N")
    p.add_argument("--json", default="", metavar="FILE")
    p.add_argument("--ops", type=int, default=0, metavar="N")
    a = p.parse_args()
    ort.set_default_logger_severity(4)
    root = os.path.join(a.dir, "models")
    models = sorted(os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(root) for f in fs if f.endswith(".onnx"))
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    total, seen, all_rows = collections.Counter(), set(), []
    for model in (m for m in models if a.only in m):
        path = os.path.join(root, model)
        with open(path, "rb") as f:
            key = hash(f.read())
        if key in seen:
            continue
        seen.add(key)
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        outputs = [o.name for o in session.get_outputs()]
        chosen = None
        for label, x in cases(model, {i.name: i for i in session.get_inputs()}):
            try:
                session.run(outputs, x)
                chosen = label, x
                break
            except Exception:
                continue
        if chosen is None:
            print(f"{model}: ONNX Runtime takes none of the inputs")
            continue
        label, x = chosen
        with tempfile.TemporaryDirectory() as tmp:
            cmd = [a.essmc, "bench", path, "--json", "--threads", "1"]
            if a.repeat:
                cmd += ["--repeat", str(a.repeat)]
            for i, (k, v) in enumerate(x.items()):
                np.save(f"{tmp}/in{i}.npy", v)
                cmd += ["-i", f"{k}={tmp}/in{i}.npy"]
                if v.ndim:
                    cmd += ["--shape", f"{k}={','.join(map(str, v.shape))}"]
            theirs, ours = [], []
            for _ in range(a.rounds):
                theirs.append(once(session, outputs, x, 0.5))
                r = subprocess.run(cmd, capture_output=True, text=True)
                if r.returncode != 0:
                    print(f"{model}: {r.stderr.strip()}")
                    break
                report = json.loads(r.stdout)
                ours.append(report["median_ms"])
            if not ours:
                continue
        t, o = statistics.median(theirs), statistics.median(ours)
        print(f"{t:9.3f} {o:9.3f} {o / t:8.2f}  {model}  {label}", flush=True)
        all_rows.append({"model": model, "input": label, "ort_ms": t, "essmc_ms": o, "ratio": o / t})
        for s in report["ops"]:
            total[s["op"], s.get("form", "")] += s["ms"]
        for s in sorted(report["ops"], key=lambda s: -s["ms"])[:a.ops]:
            print(f"          {s['ms']:9.3f}  {s['op']} {s.get('form', '')} {s['name']}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(all_rows, f, indent=1)
    print("by operator, over all models:")
    for (op, form), ms in total.most_common(30):
        print(f"{ms:9.3f}  {op} {form}")


if __name__ == "__main__":
    main()
