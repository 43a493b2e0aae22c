"""Helper of the scripts that make testdata: runs single operators in ONNX Runtime and keeps inputs and answers as JSON.

Needs PyPI's onnxruntime, onnx and numpy. The format is read by Cases in cases.go.
"""
import json
import math

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

ort.set_default_logger_severity(4)
cases = []


def number(x):
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return int(x) if x == int(x) and abs(x) < 2**53 and math.copysign(1, x) > 0 else x


def short(x, dtype):
    """The shortest decimal that gives the same number of the type."""
    y = number(x)
    if isinstance(y, float) and dtype == np.float32:
        return float(str(np.float32(x)))
    return y


def tensor(a):
    if a is None:
        return None
    a = np.asarray(a)
    if a.dtype.kind in "OUS":
        return {"type": "string", "shape": list(a.shape), "text": [str(x) for x in a.ravel()]}
    name = {"float64": "double", "float32": "float"}.get(a.dtype.name, a.dtype.name)
    return {"type": name, "shape": list(a.shape), "data": [short(x, a.dtype) for x in a.ravel()]}


def attribute(v):
    if isinstance(v, (bool, int)):
        return {"int": int(v)}
    if isinstance(v, float):
        return {"float": short(np.float32(v), np.float32)}
    if isinstance(v, str):
        return {"string": v}
    if isinstance(v, np.ndarray):
        return {"tensor": tensor(v)}
    if all(isinstance(x, str) for x in v):
        return {"strings": list(v)}
    if all(isinstance(x, int) for x in v):
        return {"ints": list(v)}
    return {"floats": [short(np.float32(x), np.float32) for x in v]}


def run(name, op, inputs, outputs=1, domain="com.microsoft", version=1, consts=(), onnx_version=18, **attrs):
    """Runs one operator; outputs is a number, or a list of flags where some are left out."""
    flags = [True] * outputs if isinstance(outputs, int) else list(outputs)
    proto = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attrs.items()}
    node = helper.make_node(op, ["" if x is None else f"i{k}" for k, x in enumerate(inputs)],
                            [f"o{k}" if f else "" for k, f in enumerate(flags)], domain=domain, **proto)
    arrays = [None if x is None else np.asarray(x) for x in inputs]
    text = lambda a: a.dtype.kind in "OUS"
    kind = lambda a: onnx.TensorProto.STRING if text(a) else helper.np_dtype_to_tensor_dtype(a.dtype)
    vi = [helper.make_tensor_value_info(f"i{k}", kind(a), a.shape) for k, a in enumerate(arrays) if a is not None and k not in consts]
    init = [numpy_helper.from_array(a, f"i{k}") for k, a in enumerate(arrays) if a is not None and k in consts]
    out = [helper.make_empty_tensor_value_info(f"o{k}") for k, f in enumerate(flags) if f]
    opsets = {"": onnx_version}
    opsets[domain] = version
    model = helper.make_model(helper.make_graph([node], name, vi, out, init), opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()], ir_version=8)
    opts = ort.SessionOptions()
    opts.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    opts.intra_op_num_threads = 1
    s = ort.InferenceSession(model.SerializeToString(), opts, providers=["CPUExecutionProvider"])
    feed = {f"i{k}": (a.astype(object) if text(a) else a) for k, a in enumerate(arrays) if a is not None and k not in consts}
    answers = iter(s.run(None, feed))
    got = [next(answers) if f else None for f in flags]
    cases.append({"name": name, "domain": domain, "op": op, "version": version, "attrs": {k: attribute(v) for k, v in sorted(attrs.items())},
                  "inputs": [tensor(a) for a in arrays], "consts": list(consts), "outputs": [tensor(a) for a in got]})
    return got


def save(path):
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(len(cases), "cases, ONNX Runtime", ort.__version__)
