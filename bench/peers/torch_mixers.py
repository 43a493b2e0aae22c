"""FNet and the Transformer of the Long Range Arena, as torch_families.py runs them: each layer mixes all tokens."""
import math

import torch
import torch.nn.functional as F

from torch_frame import act, gelu_tanh, linear


class LRA:
    forms = ("fft",)

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w = c, w

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".scale"], self.w[name + ".bias"], 1e-6)

    def dense(self, x, name):
        return F.linear(x, self.w[name + ".kernel"].t(), self.w[name + ".bias"])

    def positions(self, d):
        if self.c.get("learn_pos_emb"):
            return self.w["posembed_input.pos_embedding"][0]
        rows = self.c["max_len"] + (self.c.get("classifier_pool") == "CLS")
        t = torch.arange(rows, dtype=torch.float64)[:, None] * torch.exp(torch.arange(0, d, 2, dtype=torch.float64) * (-math.log(10000) / d))
        pe = torch.zeros(rows, d, dtype=torch.float64)
        pe[:, 0::2], pe[:, 1::2] = t.sin(), t.cos()[:, :d // 2]
        return pe.to(self.w["encoder_norm.bias"].dtype)

    def __call__(self, tokens, lengths=None):
        c, w = self.c, self.w
        x, keys = F.embedding(tokens, w["Embed_0.embedding"]), tokens > 0
        pool = c.get("classifier_pool", "CLS") if c.get("classifier") else None
        if pool == "CLS":
            x = torch.cat([w["cls"].expand(len(x), 1, -1), x], 1)
            keys = torch.cat([keys[:, :1], keys], 1)
        x = x + self.positions(x.shape[-1])[:x.shape[1]]
        heads = c["num_heads"]
        mask = keys[:, None, None, :] & keys[:, None, :, None]
        bias = torch.zeros((), dtype=x.dtype).masked_fill(~mask, -1e10)
        for i in range(c["num_layers"]):
            p = "encoderblock." if c.get("tied_weights") else f"encoderblock_{i}."
            y = self.norm(x, p + "LayerNorm_0")
            q, k, v = (torch.einsum("bld,dhe->bhle", y, w[p + f"SelfAttention_1.{n}.kernel"]) for n in ("query", "key", "value"))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = x + torch.einsum("bhle,hed->bld", y, w[p + "SelfAttention_1.out.kernel"])
            y = self.norm(x, p + "LayerNorm_2")
            x = x + self.dense(gelu_tanh(self.dense(y, p + "MlpBlock_3.Dense_0")), p + "MlpBlock_3.Dense_1")
        x = self.norm(x, "encoder_norm")
        if pool is None:
            return x
        x = x[:, 0] if pool == "CLS" else x.mean(1) if pool == "MEAN" else x.sum(1)
        return self.dense(F.relu(self.dense(x, "mlp")), "logits")


class FNet:
    forms = ("fft",)

    def __init__(self, c, w, form, dtype, folder):
        self.c, self.w = c, w

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], self.c.get("layer_norm_eps", 1e-12))

    def __call__(self, tokens, lengths=None):
        w, a = self.w, self.c.get("hidden_act", "gelu_new")
        f = gelu_tanh if a == "gelu_new" else lambda x: act(a, x)
        e = "fnet.embeddings."
        x = F.embedding(tokens, w[e + "word_embeddings.weight"]) + w[e + "token_type_embeddings.weight"][0]
        x = self.norm(x + w[e + "position_embeddings.weight"][:x.shape[1]], e + "LayerNorm")
        x = linear(x, w, e + "projection")
        for i in range(self.c["num_hidden_layers"]):
            p = f"fnet.encoder.layer.{i}."
            x = self.norm(x + torch.fft.fftn(x, dim=(1, 2)).real, p + "fourier.output.LayerNorm")
            x = self.norm(x + linear(f(linear(x, w, p + "intermediate.dense")), w, p + "output.dense"), p + "output.LayerNorm")
        if "classifier.weight" in w:
            return linear(torch.tanh(linear(x[:, 0], w, "fnet.pooler.dense")), w, "classifier")
        h = "cls.predictions."
        x = self.norm(f(linear(x, w, h + "transform.dense")), h + "transform.LayerNorm")
        return F.linear(x, w[e + "word_embeddings.weight"], w[h + "bias"])
