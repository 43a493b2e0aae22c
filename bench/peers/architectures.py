"""Exports standard architectures with random weights as ONNX files, for `go run ./bench -suite onnx`.

    python architectures.py DIR [EXPRESSION]

writes DIR/GROUP/NAME.FORM/model.onnx with its inputs, DIR/…/N.npy, and their names, a line each, in DIR/…/names, where
NAME.FORM matches the expression. What is there already stays. Forms:

    float32   as torch's exporter writes it, operator set 18
    float16   weights and activations converted, inputs and outputs too
    qdq       U8S8: static quantization per channel, in pairs of QuantizeLinear and DequantizeLinear, calibrated with
              four inputs
    dynamic   int8 weights, activations quantized in the run (MatMulInteger, DynamicQuantizeLSTM)
    trees     scikit-learn, LightGBM and XGBoost, for one row and for 1000

It needs torch, torchvision, transformers, onnx, onnxscript and onnxruntime; for trees scikit-learn, skl2onnx, onnxmltools,
lightgbm and xgboost. Seeds are fixed; files differ with the versions of these packages.
"""
import functools
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn

SET = 18


def image(size=224, channels=3):
    return lambda: (torch.randn(1, channels, size, size),)


def ids(length=128, vocabulary=1000):
    return lambda: (torch.randint(1, vocabulary, (1, length)),)


def signal(*shape):
    return lambda: (torch.randn(*shape),)


# Vision

def torchvision(name, **options):
    def make():
        import torchvision
        return torchvision.models.get_model(name, weights=None, **options)
    return make


def vision():
    for name in ("alexnet", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121",
                 "squeezenet1_1", "shufflenet_v2_x1_0", "regnet_y_400mf", "mnasnet1_0", "convnext_tiny", "resnext50_32x4d",
                 "wide_resnet50_2"):
        yield "cnn", name, torchvision(name), image()
    yield "cnn", "googlenet", torchvision("googlenet", init_weights=False, aux_logits=False), image()
    yield "cnn", "inception_v3", torchvision("inception_v3", init_weights=False, aux_logits=False), image(299)
    yield "cnn", "unet", UNet, image(256, 1)
    yield "transformer", "vit_b_16", torchvision("vit_b_16"), image()
    yield "transformer", "swin_t", torchvision("swin_t"), image()


class UNet(nn.Module):
    """Ronneberger et al. 2015, with a quarter of the features, padded, and batch norms."""

    def __init__(self, features=(16, 32, 64, 128, 256)):
        super().__init__()

        def two(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                                 nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.down = nn.ModuleList(two(i, o) for i, o in zip((1, *features), features))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, 2) for i, o in zip(features[:0:-1], features[-2::-1]))
        self.join = nn.ModuleList(two(i, o) for i, o in zip(features[:0:-1], features[-2::-1]))
        self.out = nn.Conv2d(features[0], 2, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, k in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([k, up(x)], 1))
        return self.out(x)


# Text

class First(nn.Module):
    """A model of the transformers library whose answer is one tensor."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return getattr(self.model(**{self.name: x}), self.answer)


def hugging(cls, config, answer="last_hidden_state", input="input_ids", **options):
    def make():
        import transformers
        options.setdefault("attn_implementation", "eager")
        m = First(getattr(transformers, cls)(getattr(transformers, config)(**options)), input)
        m.answer = answer
        return m
    return make


BERT = dict(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)


def text():
    yield "transformer", "bert", hugging("BertModel", "BertConfig", **BERT), ids()
    yield "transformer", "roberta", hugging("RobertaModel", "RobertaConfig", **BERT), ids()
    yield "transformer", "electra", hugging("ElectraModel", "ElectraConfig", embedding_size=128, **BERT), ids()
    yield "transformer", "albert", hugging("AlbertModel", "AlbertConfig", embedding_size=64, **BERT), ids()
    yield "transformer", "distilbert", hugging("DistilBertModel", "DistilBertConfig", vocab_size=1000, dim=256, n_layers=4,
                                               n_heads=4, hidden_dim=1024), ids()
    yield "transformer", "gpt2", hugging("GPT2LMHeadModel", "GPT2Config", "logits", vocab_size=1000, n_embd=256, n_layer=4,
                                         n_head=4, use_cache=False), ids()
    yield "transformer", "llama", hugging("LlamaForCausalLM", "LlamaConfig", "logits", vocab_size=1000, hidden_size=256,
                                          intermediate_size=688, num_hidden_layers=4, num_attention_heads=4,
                                          num_key_value_heads=2, use_cache=False), ids()
    yield "transformer", "t5_encoder", hugging("T5EncoderModel", "T5Config", vocab_size=1000, d_model=256, d_kv=64, d_ff=1024,
                                               num_layers=4, num_heads=4), ids()
    yield "transformer", "encoder", Encoder, signal(1, 128, 256)
    yield "transformer", "fnet", hugging("FNetModel", "FNetConfig", vocab_size=1000, hidden_size=256, num_hidden_layers=4,
                                         intermediate_size=1024), ids()
    yield "recurrent", "lstm_classifier", Recurrent, ids(100)
    yield "recurrent", "gru_classifier", functools.partial(Recurrent, nn.GRU), ids(100)
    yield "cnn", "text_cnn", TextCNN, ids(100)


class Encoder(nn.Module):
    """torch's own encoder."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
        self.m = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, x):
        return self.m(x)


class Recurrent(nn.Module):
    def __init__(self, cell=nn.LSTM):
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        self.cell = cell(128, 128, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(256, 10)

    def forward(self, x):
        return self.out(self.cell(self.embed(x))[0].mean(1))


class TextCNN(nn.Module):
    """Kim 2014."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        self.convs = nn.ModuleList(nn.Conv1d(128, 100, k) for k in (3, 4, 5))
        self.out = nn.Linear(300, 10)

    def forward(self, x):
        x = self.embed(x).transpose(1, 2)
        return self.out(torch.cat([c(x).relu().amax(2) for c in self.convs], 1))


# Audio

def audio():
    yield "audio", "tcn", TCN, signal(1, 16, 1024)
    yield "audio", "wavenet", WaveNet, signal(1, 1, 4096)
    yield "audio", "hifigan", HiFiGAN, signal(1, 80, 64)
    yield "audio", "crnn", CRNN, signal(1, 1, 32, 160)
    yield "audio", "ds_cnn", DSCNN, signal(1, 1, 49, 10)
    yield "audio", "m5", M5, signal(1, 1, 16000)
    yield "audio", "deepspeech", DeepSpeech, signal(1, 1, 161, 200)
    yield "audio", "conformer", Conformer, signal(1, 200, 144)
    yield "audio", "wav2vec2", hugging("Wav2Vec2Model", "Wav2Vec2Config", input="input_values", hidden_size=256,
                                       num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                                       conv_dim=(128,) * 7, num_conv_pos_embeddings=64), signal(1, 16000)
    yield "audio", "whisper_encoder", WhisperEncoder, signal(1, 80, 3000)
    yield "audio", "autoencoder", Dense, signal(1, 640)
    yield "audio", "seq2seq_lstm", functools.partial(Frames, nn.LSTM), signal(1, 200, 80)
    yield "audio", "gru_denoiser", functools.partial(Frames, nn.GRU), signal(1, 200, 80)


class TCN(nn.Module):
    """Bai et al. 2018."""

    def __init__(self, width=64, levels=6):
        super().__init__()
        self.a = nn.ModuleList(nn.Conv1d(16 if i == 0 else width, width, 3, dilation=2 ** i) for i in range(levels))
        self.b = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=2 ** i) for i in range(levels))
        self.skip, self.out = nn.Conv1d(16, width, 1), nn.Linear(width, 10)

    def forward(self, x):
        for i, (a, b) in enumerate(zip(self.a, self.b)):
            y = a(nn.functional.pad(x, (2 << i, 0))).relu()
            y = b(nn.functional.pad(y, (2 << i, 0))).relu()
            x = (y + (self.skip(x) if i == 0 else x)).relu()
        return self.out(x[:, :, -1])


class WaveNet(nn.Module):
    """van den Oord et al. 2016."""

    def __init__(self, width=32, skip=64, levels=10):
        super().__init__()
        self.start = nn.Conv1d(1, width, 1)
        self.dilated = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2 ** i) for i in range(levels))
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(levels))
        self.skip = nn.ModuleList(nn.Conv1d(width, skip, 1) for _ in range(levels))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 256, 1))

    def forward(self, x):
        x, total = self.start(x), 0
        for i, (d, m, s) in enumerate(zip(self.dilated, self.mix, self.skip)):
            a, b = d(nn.functional.pad(x, (1 << i, 0))).chunk(2, 1)
            z = a.tanh() * b.sigmoid()
            total, x = total + s(z), x + m(z)
        return self.end(total)


class HiFiGAN(nn.Module):
    """Kong et al. 2020, the generator V3 in small."""

    def __init__(self, width=128, rates=(8, 8, 4)):
        super().__init__()
        self.start, self.up, self.blocks = nn.Conv1d(80, width, 7, padding=3), nn.ModuleList(), nn.ModuleList()
        for r in rates:
            self.up.append(nn.ConvTranspose1d(width, width // 2, 2 * r, r, r // 2))
            width //= 2
            self.blocks.append(nn.ModuleList(nn.Conv1d(width, width, k, dilation=d, padding=(k - 1) * d // 2)
                                             for k in (3, 5, 7) for d in (1, 3)))
        self.end = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x):
        x = self.start(x)
        for up, blocks in zip(self.up, self.blocks):
            x = up(nn.functional.leaky_relu(x, 0.1))
            x = sum(x + b(nn.functional.leaky_relu(x, 0.1)) for b in blocks) / len(blocks)
        return self.end(nn.functional.leaky_relu(x)).tanh()


class CRNN(nn.Module):
    """Shi et al. 2015: text in pictures."""

    def __init__(self):
        super().__init__()

        def block(i, o, pool):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(pool))
        self.cnn = nn.Sequential(block(1, 64, 2), block(64, 128, 2), block(128, 256, (2, 1)), block(256, 512, (2, 1)),
                                 nn.Conv2d(512, 512, 2), nn.ReLU())
        self.rnn, self.out = nn.LSTM(512, 256, 2, batch_first=True, bidirectional=True), nn.Linear(512, 37)

    def forward(self, x):
        return self.out(self.rnn(self.cnn(x).squeeze(2).transpose(1, 2))[0])


class DSCNN(nn.Module):
    """Zhang et al. 2017: keywords."""

    def __init__(self, width=64):
        super().__init__()

        def norm():
            return [nn.BatchNorm2d(width), nn.ReLU()]
        layers = [nn.Conv2d(1, width, (10, 4), 2, (5, 1)), *norm()]
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1, groups=width), *norm(), nn.Conv2d(width, width, 1), *norm()]
        self.m = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 12))

    def forward(self, x):
        return self.m(x)


class M5(nn.Module):
    """Dai et al. 2016: waveforms."""

    def __init__(self, width=32):
        super().__init__()
        layers = []
        for i, o, k, s in ((1, width, 80, 16), (width, width, 3, 1), (width, 2 * width, 3, 1), (2 * width, 2 * width, 3, 1)):
            layers += [nn.Conv1d(i, o, k, s), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(4)]
        self.m, self.out = nn.Sequential(*layers), nn.Linear(2 * width, 35)

    def forward(self, x):
        return self.out(self.m(x).mean(2))


class DeepSpeech(nn.Module):
    """Amodei et al. 2015, in small."""

    def __init__(self, width=256):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(1, 32, (41, 11), 2, (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
                                 nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
        self.rnn = nn.GRU(32 * 41, width, 3, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, 29)

    def forward(self, x):
        return self.out(self.rnn(self.cnn(x).flatten(1, 2).transpose(1, 2))[0])


class Conformer(nn.Module):
    """Gulati et al. 2020, with torch's attention."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()

            def feed():
                return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            self.a, self.b, self.norms = feed(), feed(), nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.wide, self.narrow = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
            self.depth, self.batch = nn.Conv1d(width, width, 31, padding=15, groups=width), nn.BatchNorm1d(width)

        def forward(self, x):
            x = x + self.a(x) / 2
            y = self.norms[0](x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            y = nn.functional.glu(self.wide(self.norms[1](x).transpose(1, 2)), 1)
            x = x + self.narrow(nn.functional.silu(self.batch(self.depth(y)))).transpose(1, 2)
            return self.norms[2](x + self.b(x) / 2)

    def __init__(self, width=144, blocks=4):
        super().__init__()
        self.m = nn.Sequential(*(self.Block(width) for _ in range(blocks)))

    def forward(self, x):
        return self.m(x)


class WhisperEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import WhisperConfig, WhisperModel
        c = WhisperConfig(d_model=192, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3, vocab_size=1000,
                          encoder_ffn_dim=768, decoder_start_token_id=1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                          attn_implementation="eager")
        self.m = WhisperModel(c).encoder

    def forward(self, x):
        return self.m(x).last_hidden_state


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (640, 128, 128, 128, 8, 128, 128, 128)
        self.m = nn.Sequential(*(layer for i, o in zip(sizes, sizes[1:]) for layer in
                                 (nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU())), nn.Linear(128, 640))

    def forward(self, x):
        return self.m(x)


class Frames(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell, self.out = cell(80, 256, 3, batch_first=True), nn.Linear(256, 80)

    def forward(self, x):
        return self.out(self.cell(x)[0])


# Forms

QDQ = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121", "unet", "bert",
       "encoder", "vit_b_16", "tcn", "ds_cnn", "text_cnn")
DYNAMIC = ("bert", "gpt2", "distilbert", "llama", "encoder", "vit_b_16", "lstm_classifier", "conformer")
HALF = ("resnet18", "mobilenet_v2", "unet", "bert", "gpt2", "encoder", "vit_b_16", "tcn", "wavenet", "conformer")


def save(folder, write, inputs):
    """Writes a case whole or not at all."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    part = tempfile.mkdtemp(dir=os.path.dirname(folder))
    try:
        write(os.path.join(part, "model.onnx"))
        for i, x in enumerate(inputs.values()):
            np.save(os.path.join(part, f"{i}.npy"), x)
        with open(os.path.join(part, "names"), "w") as f:
            f.write("\n".join(inputs))
        os.chmod(part, 0o755)
        os.rename(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def exported(make, args, file):
    torch.manual_seed(0)
    m = make().eval()
    with torch.no_grad():  # random weights whose answers are neither 0 nor infinite
        for p in m.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=(2 / p[0].numel()) ** 0.5)
        for b in m.modules():
            if isinstance(b, nn.modules.batchnorm._BatchNorm):
                b.running_mean.normal_(std=0.1)
                b.running_var.uniform_(0.5, 1.5)
        torch.onnx.export(m, args, file, input_names=["x"], output_names=["y"], opset_version=SET, dynamo=True,
                          external_data=False, verbose=False)


def sample(inputs, seed):
    torch.manual_seed(seed)
    return {"x": inputs()[0].numpy()}


def static(source, file, inputs):
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.rest = iter([sample(inputs, s) for s in range(1, 5)])

        def get_next(self):
            return next(self.rest, None)
    prepared = file + ".prepared"
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    q.quantize_static(prepared, file, Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True,
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    os.remove(prepared)


def dynamic(source, file, _):
    import onnx
    from onnxruntime import quantization as q
    m = onnx.load(source)
    del m.graph.value_info[:]  # the quantizer transposes weights whose old shapes the exporter has stated
    source = file + ".prepared"
    onnx.save(m, source)
    q.quantize_dynamic(source, file, weight_type=q.QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm", "LSTM"])
    os.remove(source)


def half(source, file, _):
    import onnx
    from onnxconverter_common import float16
    onnx.save(float16.convert_float_to_float16(onnx.load(source), disable_shape_infer=True), file)


def architectures(root, wanted):
    for group, name, make, inputs in (*vision(), *text(), *audio()):
        x = sample(inputs, 0)
        base = os.path.join(root, group, name + ".float32")
        forms = [("float32", None)] + [(form, f) for form, f, names in
                                       (("qdq", static, QDQ), ("dynamic", dynamic, DYNAMIC), ("float16", half, HALF))
                                       if name in names]
        for form, convert in forms:
            full = f"{name}.{form}"
            folder = os.path.join(root, group if form == "float32" else form, full)
            if os.path.isdir(folder) or not wanted.search(full):
                continue
            if convert is None:
                attempt(full, lambda: save(folder, lambda f: exported(make, tuple(map(torch.from_numpy, x.values())), f), x))
                continue
            given = {k: v.astype(np.float16) if form == "float16" and v.dtype == np.float32 else v for k, v in x.items()}
            source = os.path.join(base, "model.onnx")
            attempt(full, lambda: save(folder, lambda f: convert(source, f, inputs), given))


def attempt(name, f):
    try:
        f()
        print(f"{name}", flush=True)
    except Exception as e:  # the others go on
        print(f"{name}: {type(e).__name__}: {' '.join(str(e).split())[:300]}", flush=True)
        global failed
        failed = True


failed = False


# Trees and linear models

def trees(root, wanted):
    from sklearn import ensemble, linear_model, naive_bayes, neural_network, pipeline, preprocessing, svm, tree
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20)).astype(np.float32)
    kind = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int) + (x[:, 3] > 1)
    value = x[:, 0] ** 2 + np.sin(3 * x[:, 1]) + x[:, 2] * x[:, 3]
    several = dict(n_estimators=100, max_depth=8, random_state=0)
    models = {
        "decision_tree": (tree.DecisionTreeClassifier(max_depth=10, random_state=0), kind),
        "random_forest": (ensemble.RandomForestClassifier(**several), kind),
        "random_forest_regressor": (ensemble.RandomForestRegressor(**several), value),
        "extra_trees": (ensemble.ExtraTreesRegressor(**several), value),
        "gradient_boosting": (ensemble.GradientBoostingClassifier(n_estimators=50, random_state=0), kind),
        "hist_gradient_boosting": (ensemble.HistGradientBoostingRegressor(random_state=0), value),
        "logistic": (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()), kind),
        "svc": (svm.SVC(probability=False, random_state=0), kind),
        "naive_bayes": (naive_bayes.GaussianNB(), kind),
        "mlp": (neural_network.MLPClassifier((64, 64), max_iter=20, random_state=0), kind),
    }
    try:
        import lightgbm
        models["lightgbm"] = lightgbm.LGBMClassifier(n_estimators=100, verbose=-1), kind
        models["lightgbm_regressor"] = lightgbm.LGBMRegressor(n_estimators=100, verbose=-1), value
    except (ImportError, OSError) as e:
        print(f"lightgbm: {e}")
    try:
        import xgboost
        models["xgboost"] = xgboost.XGBClassifier(n_estimators=100), kind
        models["xgboost_regressor"] = xgboost.XGBRegressor(n_estimators=100), value
    except (ImportError, OSError) as e:
        print(f"xgboost: {e}")
    for name, (model, target) in models.items():
        for rows in (1, 1000):
            full = f"{name}.{rows}"
            folder = os.path.join(root, "trees", full)
            if wanted.search(full) and not os.path.isdir(folder):
                attempt(full, lambda: save(folder, lambda f: converted(model, x, target, f), {"x": x[:rows]}))


def converted(model, x, target, file):
    from skl2onnx.common.data_types import FloatTensorType
    model.fit(x, target)
    types, of = [("x", FloatTensorType([None, x.shape[1]]))], type(model).__module__.split(".")[0]
    if of == "sklearn":
        from skl2onnx import to_onnx
        from skl2onnx.common import _container
        make = _container.make_node
        plain = lambda v: [int(x) if isinstance(x, (bool, np.integer)) else x for x in v] if isinstance(v, list) else v
        # the indices and flags of histogram trees are uint32 and bool, which no attribute holds
        _container.make_node = lambda *args, **attrs: make(*args, **{k: plain(v) for k, v in attrs.items()})
        onx = to_onnx(model, initial_types=types, target_opset={"": SET, "ai.onnx.ml": 3},
                      options={"zipmap": False} if hasattr(model, "predict_proba") or hasattr(model, "decision_function")
                      else None)
    else:
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType as Type
        convert = onnxmltools.convert_lightgbm if of == "lightgbm" else onnxmltools.convert_xgboost
        more = {"zipmap": False} if of == "lightgbm" else {}
        onx = convert(model, initial_types=[("x", Type([None, x.shape[1]]))], target_opset=15, **more)
    with open(file, "wb") as f:
        f.write(onx.SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    expression = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    architectures(sys.argv[1], expression)
    try:
        trees(sys.argv[1], expression)
    except ImportError as e:
        print(f"trees: {e}")
    sys.exit(failed)
