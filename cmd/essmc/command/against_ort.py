# Runs an ONNX file in ONNX Runtime, and writes every value of its graph: against_ort.py MODEL INPUTS.npz OUTPUTS.npz
import json, sys
try:
    import numpy as np, onnx, onnxruntime as ort
except ImportError as e:
    print(json.dumps({"missing": e.name})); sys.exit(0)
path, inputs, outputs = sys.argv[1:4]
given = {n: a for n, a in np.load(inputs).items()}
ort.set_default_logger_severity(4)
def run(model, level):
    o = ort.SessionOptions()
    o.graph_optimization_level = level
    s = ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])
    names = [x.name for x in s.get_outputs()]
    return dict(zip(names, s.run(names, given)))
try:
    final = run(path, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
except Exception as e:
    print(json.dumps({"error": str(e).splitlines()[0]})); sys.exit(0)
values, why = {}, ""
try:  # every value as an output, without the optimizations that would remove it
    m = onnx.load(path)
    have = {x.name for x in m.graph.output}
    for node in m.graph.node:
        for name in node.output:
            if name and name not in have:
                have.add(name)
                m.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    values = run(m.SerializeToString(), ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
except Exception as e:
    why = str(e).splitlines()[0]
kept, files = {}, {}
for group, of in (("output", final), ("value", values)):
    kept[group] = {}
    for name, a in of.items():
        if isinstance(a, np.ndarray) and a.dtype != object:
            key = "%s%d" % (group, len(files))
            files[key], kept[group][name] = a, key
np.savez(outputs, **files)
print(json.dumps({"outputs": kept["output"], "values": kept["value"], "no_values": why, "version": ort.__version__}))
