"""Writes the directories of this folder: models of the library transformers with random weights, as save_pretrained writes
them, with an input and its outputs, computed in float64. Requires torch and transformers; run it in this folder.
"""
import os
import shutil

import numpy as np
import torch
import transformers as t

torch.manual_seed(1)
FNET = dict(vocab_size=11, hidden_size=6, num_hidden_layers=2, intermediate_size=8, max_position_embeddings=16, hidden_dropout_prob=0.0)
MAMBA = dict(vocab_size=11, hidden_size=8, num_hidden_layers=2, state_size=4)
MAMBA2 = dict(vocab_size=11, hidden_size=8, num_hidden_layers=2, state_size=4, num_heads=4, head_dim=4, n_groups=2, chunk_size=4)
LABELS = {0: "no", 1: "maybe", 2: "yes"}

# class, settings, names of its outputs: the first is "output"
CASES = [
    ("FNetModel", t.FNetConfig(**FNET), {"last_hidden_state": "output", "pooler_output": "pooler_output"}),
    ("FNetForPreTraining", t.FNetConfig(**FNET), {"prediction_logits": "output",
                                                  "seq_relationship_logits": "seq_relationship_logits"}),
    ("FNetForMaskedLM", t.FNetConfig(**FNET), {"logits": "output"}),
    ("FNetForNextSentencePrediction", t.FNetConfig(**FNET), {"logits": "output"}),
    ("FNetForSequenceClassification", t.FNetConfig(id2label=LABELS, **FNET), {"logits": "output"}),
    ("FNetForMultipleChoice", t.FNetConfig(**FNET), {"logits": "output"}),
    ("FNetForTokenClassification", t.FNetConfig(id2label=LABELS, **FNET), {"logits": "output"}),
    ("FNetForQuestionAnswering", t.FNetConfig(**FNET), {"start_logits": "start", "end_logits": "end"}),
    ("MambaModel", t.MambaConfig(**MAMBA), {"last_hidden_state": "output"}),
    ("MambaForCausalLM", t.MambaConfig(**MAMBA), {"logits": "output"}),
    ("Mamba2Model", t.Mamba2Config(**MAMBA2), {"last_hidden_state": "output"}),
]

for name, config, outputs in CASES:
    model = getattr(t, name)(config).eval()
    for p in model.parameters():  # zeros and ones would hide mistakes
        p.data += 0.3 * torch.randn_like(p)
    if getattr(config, "tie_word_embeddings", False):
        model.tie_weights()
    shutil.rmtree(name, ignore_errors=True)
    model.save_pretrained(name)
    for extra in ("generation_config.json", "README.md"):
        if os.path.exists(os.path.join(name, extra)):
            os.remove(os.path.join(name, extra))
    tokens = torch.randint(0, 11, (3, 7))
    with torch.no_grad():
        out = model.double()(tokens.unsqueeze(0) if name == "FNetForMultipleChoice" else tokens)
    values = {to: out[key].numpy() for key, to in outputs.items()}
    if "start" in values:
        values = {"output": np.stack([values["start"], values["end"]], -1)}
    if name == "FNetForMultipleChoice":
        values["output"] = values["output"].reshape(-1, 1)
    np.save(os.path.join(name, "input.npy"), tokens.numpy())
    for to, x in values.items():
        np.save(os.path.join(name, to + ".npy"), x.astype(np.float64))
