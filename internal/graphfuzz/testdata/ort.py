"""Answers graphs with ONNX Runtime. It reads requests from standard input and writes answers to standard output, in little
endian: a number is 4 bytes, a text or a block its length and its bytes, an array the name of its type, the number of
dimensions, these, and its elements as a block.

A request is a model and its inputs: their number, and a name and an array for each. An answer is 0, the number of outputs
and an array for each, or 1 and a text: the error.
"""
import struct
import sys

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(4)
options = ort.SessionOptions()
options.log_severity_level = 4
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
source, sink = sys.stdin.buffer, sys.stdout.buffer


def exactly(n):
    b = source.read(n)
    if len(b) < n:
        sys.exit(0)
    return b


def number():
    return struct.unpack("<I", exactly(4))[0]


def block():
    return exactly(number())


def put(b):
    sink.write(struct.pack("<I", len(b)) + b)


while True:
    model, feeds = block(), {}
    for _ in range(number()):
        name, kind = block().decode(), block().decode()
        shape = [number() for _ in range(number())]
        feeds[name] = np.frombuffer(block(), dtype=kind).reshape(shape)
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, feeds)
        if not all(isinstance(x, np.ndarray) and x.dtype.kind in "fiub" for x in outputs):
            raise TypeError("an output is no array of numbers")
        sink.write(struct.pack("<II", 0, len(outputs)))
        for x in outputs:
            put(x.dtype.name.encode())
            sink.write(struct.pack("<I", x.ndim) + b"".join(struct.pack("<I", n) for n in x.shape))
            put(np.ascontiguousarray(x).tobytes())
    except Exception as e:  # whatever it is, the next request is answered
        sink.write(struct.pack("<I", 1))
        put(str(e).encode())
    sink.flush()
