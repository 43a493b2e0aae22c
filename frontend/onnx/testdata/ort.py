"""Runs models with ONNX Runtime: for each folder given, model.onnx on the arrays in case*/in-NAME.npy, and writes
case*/out-NAME.npy. Prints one line for each case, with the best of a few times in milliseconds. Checks the models where
the package onnx is installed."""
import glob
import os
import sys
import time

import numpy as np
import onnxruntime as ort

try:
    import onnx
except ImportError:
    onnx = None

options = ort.SessionOptions()
options.log_severity_level = 3
for folder in sys.argv[1:]:
    path = os.path.join(folder, "model.onnx")
    if onnx:
        onnx.checker.check_model(path, full_check=True)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for case in sorted(glob.glob(os.path.join(folder, "case*"))):
        feeds = {i.name: np.load(os.path.join(case, f"in-{i.name}.npy")) for i in session.get_inputs()}
        best = float("inf")
        for _ in range(int(os.environ.get("RUNS", "1"))):
            start = time.perf_counter()
            answers = session.run(None, feeds)
            best = min(best, time.perf_counter() - start)
        for output, answer in zip(session.get_outputs(), answers):
            np.save(os.path.join(case, f"out-{output.name}.npy"), answer)
        print(case, f"{best * 1e3:.1f} ms")
