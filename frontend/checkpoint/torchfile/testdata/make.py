"""Writes the files of this folder: python3 make.py, with torch (1.13 was used) and omegaconf."""
import os
import sys
import types
from collections import OrderedDict, defaultdict

import torch
from omegaconf import OmegaConf

here = os.path.dirname(os.path.abspath(__file__))


def save(name, value, **kw):
    torch.save(value, os.path.join(here, name), **kw)


def fake(module, cls):
    """Registers a class under another module's name, so that its instances are pickled as that module's."""
    path = ""
    for part in module.split("."):
        path = path + "." + part if path else part
        sys.modules.setdefault(path, types.ModuleType(path))
    cls.__module__ = module
    cls.__qualname__ = cls.__name__
    setattr(sys.modules[module], cls.__name__, cls)
    return cls


class AttributeDict(dict):
    pass


class ModelCheckpoint:
    pass


fake("pytorch_lightning.utilities.parsing", AttributeDict)
fake("pytorch_lightning.callbacks", ModelCheckpoint)

base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
tensors = OrderedDict(
    f32=base,
    transposed=base.transpose(0, 2),
    slice=base[1, :, 1:3],
    row=base[1, 1],
    expanded=torch.tensor([1.0, 2.0]).unsqueeze(1).expand(2, 3),
    scalar=torch.tensor(2.5),
    empty=torch.empty(0, 3),
    parameter=torch.nn.Parameter(torch.tensor([1.0, -2.0])),
    f64=torch.tensor([0.1], dtype=torch.float64),
    f16=torch.tensor([0.5, -1.0], dtype=torch.float16),
    bf16=torch.tensor([0.5, -1.0], dtype=torch.bfloat16),
    i64=torch.tensor([-(2**62), 2**62]),
    i32=torch.tensor([-5], dtype=torch.int32),
    i16=torch.tensor([-6], dtype=torch.int16),
    i8=torch.tensor([-7], dtype=torch.int8),
    u8=torch.tensor([200], dtype=torch.uint8),
    bool=torch.tensor([True, False]),
    c64=torch.tensor([1 + 2j], dtype=torch.complex64),
    c128=torch.tensor([3 - 4j], dtype=torch.complex128),
)
save("tensors.pt", tensors)
save("protocol5.pt", tensors, pickle_protocol=5)

values = {
    "none": None, "true": True, "false": False, "ints": [0, 255, 256, 65536, -1, 2**31, -(2**63), 2**63, 2**100, -(2**100)],
    "float": 1.5, "str": "ü\n", "bytes": b"\x00\xff", "empty_bytes": b"", "bytearray": bytearray(b"ab"),
    "tuple": (), "nested": ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "set": {7}, "frozenset": frozenset([8]),
    "ordered": OrderedDict([("b", 1), ("a", 2)]), "default": defaultdict(list, {"k": 1}), "size": torch.Size([2, 3]),
    "dtype": torch.float16, "device": torch.device("cpu"), "complex": 1 + 2j, 3: "int key", (1, "a"): "tuple key",
    ModelCheckpoint: "class key", "class": ModelCheckpoint,
}
save("values.pt", values)
save("values5.pt", values, pickle_protocol=5)

config = {"model": {"d_model": 8, "layer": {"lr": {"B": 0.001}, "max_kernel_length": None, "dropout": "${..dropout}"}, "dropout": 0.0,
                    "sizes": [1, 2, [3]]}, "decoder": {"mode": "pool"}, "missing": "???"}
save("omegaconf.ckpt", {"hyper_parameters": OmegaConf.create(config)})
save("attributes.ckpt", {"hyper_parameters": AttributeDict(model=AttributeDict(d_model=8), nodes=OmegaConf.create({"a": [1]}))})

module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))
save("state_dict.pt", module.state_dict())
save("module.pt", module)
save("legacy.pt", {"a": torch.ones(1)}, _use_new_zipfile_serialization=False)
torch.jit.save(torch.jit.script(torch.nn.ReLU()), os.path.join(here, "script.pt"))


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


save("malicious.pt", {"state_dict": {"encoder.weight": Evil()}, "hyper_parameters": {"x": Evil()}})

cycle = []
cycle.append(cycle)
save("cycle.pt", cycle)
