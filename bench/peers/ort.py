"""ONNX Runtime as a peer.

    load model FILE.onnx THREADS WORD …             the model on inputs NAME=FILE.npy; DIM:N fixes a dimension that is
                                                    open in the file, so that whatever depends on it is folded
    load start FILE.onnx THREADS WORD …             a session, and its first run, anew each time
    load inputs FILE.onnx DIR COMPARE.PY            makes inputs of the kind that the model is for, as the script at
                                                    COMPARE.PY does, and writes them to DIR/N.npy and their names to DIR/names

THREADS is the number of threads within an operator; operators run one after the other. Inputs and outputs are bound
beforehand, which saves what a call from Python costs otherwise: about 5 µs, much where a model takes 20.
"""
import importlib.util
import os

import numpy as np
import onnxruntime as ort

from protocol import serve


def session(file, threads, dims=()):
    o = ort.SessionOptions()
    o.intra_op_num_threads = int(threads)
    o.inter_op_num_threads = 1
    for name, n in dims:
        o.add_free_dimension_override_by_name(name, int(n))
    return ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])


def bound(s, inputs):
    """A function that runs the session on the inputs and gives what they are bound to."""
    b = s.io_binding()
    for name, x in inputs.items():
        b.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(x))
    for o in s.get_outputs():
        b.bind_output(o.name)

    def run():
        s.run_with_iobinding(b)
        return b
    return run


def load(kind, file, *words):
    if kind in ("model", "start"):
        threads, words = words[0], words[1:]
        inputs = {k: np.load(v) for k, v in (w.split("=", 1) for w in words if "=" in w)}
        dims = [w.split(":", 1) for w in words if "=" not in w]
        if kind == "start":
            return lambda: bound(session(file, threads, dims), inputs)()
        return bound(session(file, threads, dims), inputs)
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


def save(b, file):
    """Writes the first output to FILE.npy, and the others to FILE.npy.N.npy."""
    for i, y in enumerate(b.copy_outputs_to_cpu()):
        np.save(f"{file}.{i}.npy" if i else file, y)


if __name__ == "__main__":
    ort.set_default_logger_severity(4)
    serve(f"ONNX Runtime {ort.__version__}", load, save)
