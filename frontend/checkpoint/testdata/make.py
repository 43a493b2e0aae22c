"""Writes the checkpoints of this folder from model directories, as the authors' released code would have saved them.

    python3 make.py REFERENCE    with torch (1.13 was used) and omegaconf; REFERENCE holds the cases of docs/math.md, Reference cases

For each case NAME it copies NAME/config.json and NAME/model.safetensors, and writes NAME.ckpt (NAME.pt with NAME.yaml) with
the same weights.
"""
import json
import os
import shutil
import struct
import sys
from collections import OrderedDict

import torch
from omegaconf import OmegaConf

here = os.path.dirname(os.path.abspath(__file__))
reference = sys.argv[1]


def weights(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    out = OrderedDict()
    for name, e in json.loads(data[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        assert e["dtype"] == "F32"
        begin, end = (8 + n + o for o in e["data_offsets"])
        out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(e["shape"]).clone()
    for name in [k for k in out if k.endswith("running_mean")]:
        out[name.replace("running_mean", "num_batches_tracked")] = torch.tensor(7)
    return out


def authors(c):
    """The authors' configuration for a config.json, with the keys of their files that play no part in inference."""
    layer = c["layer"]
    model = {
        "_name_": "ldnn_model", "n_layers": c["n_layers"], "d_model": c["d_model"], "prenorm": c["prenorm"],
        "transposed": c["norm"] != "layer", "norm": {"layer_scalar": "layer"}.get(c["norm"], c["norm"]), "residual": "R", "dropout": 0.1,
        "pool": {"_name_": "sample", "pool": 1, "expand": 1},
        "layer": {
            "_name_": "ldnn_multihead_A_complex", "d_s": layer["d_state"], "head": layer["heads"], "channel": layer["channels"],
            "bidirectional": layer["bidirectional"], "conj_sym": layer["conj_sym"], "keep_d_state": True,
            "discrete_method": layer["discretization"], "version_A_neg": layer["lambda_real"], "version_A_imag": layer["lambda_imag"],
            "version_B_imag": "zero", "version_C_imag": "zero", "max_real_Lambda": layer["max_real_lambda"],
            "D_value": {"none": 0, "diagonal": 1, "full": 2}[layer["d"]], "d_dt_is_n": layer["dt"] == "per_state",
            "activation": layer["activation"], "acttivation_post": layer["post_activation"],
            "max_kernel_length": layer["max_kernel_length"], "dropout": "${..dropout}", "dt_min": 0.001, "dt_max": 0.1,
            "Lambda_init": "hippo", "B_init": "hippo", "C_init": "trunc_normal", "D_init": "one", "t_init": "uniform",
            "trainable": {"Lambda": True}, "lr": {"Lambda": 0.001}, "l_max": "${oc.select:dataset.__l_max,1}", "verbose": False,
            "postact": None, "hyper_act": None, "complex_ssm": False,
        },
    }
    d = c["decoder"]
    decoder = {"_name_": d["type"], "mode": d["mode"], "use_lengths": d["use_lengths"]}
    if d["type"] == "retrieval":
        decoder.update(nli=d["nli"], activation=d["activation"])
    return {
        "train": {"seed": 0, "monitor": "val/accuracy"}, "optimizer": {"lr": 0.001, "weight_decay": 0.05},
        "dataset": {"_name_": "example"}, "encoder": {"identity": "id"}.get(c["encoder"]["type"], c["encoder"]["type"]),
        "decoder": decoder, "model": model,
    }


def lightning(state, config):
    return {
        "epoch": 3, "global_step": 100, "pytorch-lightning_version": "1.6.5", "state_dict": state, "callbacks": {}, "loops": None,
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(2)}}}], "hparams_name": "config", "hyper_parameters": config,
    }


for name in ["image", "options-full-glu", "options-concat-retrieval", "layer-vanilla-complex"]:
    os.makedirs(os.path.join(here, name), exist_ok=True)
    for f in ["config.json", "model.safetensors"]:
        shutil.copyfile(os.path.join(reference, name, f), os.path.join(here, name, f))
    state = weights(os.path.join(here, name, "model.safetensors"))
    config = authors(json.load(open(os.path.join(here, name, "config.json"))))
    path = os.path.join(here, name)
    if name == "image":  # as Lightning saves OmegaConf's objects
        torch.save(lightning(state, OmegaConf.create(config)), path + ".ckpt")
    elif name == "options-full-glu":  # deeper, and under a prefix, with a parameter of the loss beside the model
        prefixed = OrderedDict(("net." + k, v) for k, v in state.items())
        prefixed["loss.weight"] = torch.ones(2)
        torch.save(lightning(prefixed, {"hparams": {"config": config}}), path + ".ckpt")
    elif name == "options-concat-retrieval":  # a bare state dict, configuration beside it
        torch.save(state, path + ".pt")
        with open(path + ".yaml", "w") as f:
            f.write(OmegaConf.to_yaml(OmegaConf.create(config)))
    else:
        torch.save(lightning(state, config), path + ".ckpt")
