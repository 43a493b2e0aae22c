"""ONNX Runtime as a peer.

    load model FILE.onnx THREADS NAME=FILE.npy …   the model on these inputs
    load inputs FILE.onnx DIR COMPARE.PY            makes inputs of the kind that the model is for, as the script at
                                                    COMPARE.PY does, and writes them to DIR/N.npy and their names to DIR/names

THREADS is the number of threads within an operator; operators run one after the other.
"""
import importlib.util
import os

import numpy as np
import onnxruntime as ort

from protocol import serve


def session(file, threads):
    o = ort.SessionOptions()
    o.intra_op_num_threads = int(threads)
    o.inter_op_num_threads = 1
    return ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])


def load(kind, file, *words):
    if kind == "model":
        s = session(file, words[0])
        given = dict(w.split("=", 1) for w in words[1:])
        inputs = {k: np.load(v) for k, v in given.items()}
        names = [o.name for o in s.get_outputs()]
        s.run(names, inputs)  # a shape that it does not take is told now
        return lambda: s.run(names, inputs)
    if kind == "inputs":
        folder, script = words
        spec = importlib.util.spec_from_file_location("compare", script)
        compare = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(compare)
        s = session(file, 1)
        for label, x in compare.cases(os.path.basename(file), {i.name: i for i in s.get_inputs()}):
            try:
                s.run(None, x)
            except Exception:  # a shape that this model does not take
                continue
            os.makedirs(folder, exist_ok=True)
            for i, v in enumerate(x.values()):
                np.save(os.path.join(folder, f"{i}.npy"), v)
            with open(os.path.join(folder, "names"), "w") as f:
                f.write("\n".join([label, *x]))
            return lambda: None
        raise ValueError("the model takes none of the inputs")
    raise ValueError(f"unknown kind {kind}")


if __name__ == "__main__":
    ort.set_default_logger_severity(4)
    serve(f"ONNX Runtime {ort.__version__}", load, lambda out, file: np.save(file, out[0]))
