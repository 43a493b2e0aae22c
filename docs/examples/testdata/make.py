"""Makes the tiny models of the tests of docs/examples, and the answers of transformers to a few texts.

    pip install torch transformers tokenizers onnx
    python make.py          # writes embeddings/ and classify/ beside this file

The weights are random (with a seed), and the tokenizer is a WordPiece trained on the text below.
"""

import json
import pathlib

import torch
from tokenizers import BertWordPieceTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

CORPUS = """
The cat sleeps on the warm roof. A dog runs through the park and barks at the birds.
The market fell sharply after the bank raised its rates. Shares of the company rose again.
This film was wonderful, and the actors were great! I did not like the book: it was long and dull.
Rain is expected in the north tomorrow; the south stays dry and sunny, with a light wind.
She plays the piano every evening, and he cooks dinner for the whole family.
"""
TEXTS = [
    "The cat sleeps.",
    "A dog runs through the park, and barks at the cat!",
    "Shares of the bank rose again after the company raised its rates.",
    "",
    "Naïve café: 12 unseen words, zzz?",
    "rain",
    "The market fell and the cat sleeps on the warm roof. " * 8,  # longer than the model takes
]
HERE = pathlib.Path(__file__).parent


def tokenizer():
    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(CORPUS.strip().splitlines(), vocab_size=300, min_frequency=1)
    ends = [(t, trained.token_to_id(t)) for t in ("[CLS]", "[SEP]")]
    trained._tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                           special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, unk_token="[UNK]", sep_token="[SEP]",
                                   cls_token="[CLS]", pad_token="[PAD]", mask_token="[MASK]", model_max_length=64,
                                   model_input_names=["input_ids", "token_type_ids", "attention_mask"])


class Output(torch.nn.Module):
    """Has one output of the model, by name."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, input_ids, attention_mask, token_type_ids):
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return out[self.name]


def export(model, name, inputs, path):
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {n: {0: "batch", 1: "length"} for n in names}
    axes[name] = {0: "batch", 1: "length"} if name == "last_hidden_state" else {0: "batch"}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(Output(model, name).eval(), tuple(inputs[n] for n in names), str(path), input_names=names,
                      output_names=[name], dynamic_axes=axes, opset_version=17, dynamo=False)


def write(path, value):
    path.write_text(json.dumps(value, allow_nan=False) + "\n")


def main():
    torch.manual_seed(1)
    tok = tokenizer()
    for name in "embeddings", "classify":  # before it is used, which would put padding and truncation into its file
        tok.save_pretrained(HERE / name)
    sizes = dict(vocab_size=len(tok), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                 intermediate_size=64, max_position_embeddings=64, initializer_range=0.5,
                 attn_implementation="eager")
    inputs = tok(TEXTS, padding=True, truncation=True, return_tensors="pt")

    model = BertModel(BertConfig(**sizes), add_pooling_layer=False).eval()
    folder = HERE / "embeddings"
    export(model, "last_hidden_state", inputs, folder / "onnx" / "model.onnx")
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).float()
    pooled = (hidden * mask).sum(1) / mask.sum(1)
    write(folder / "answers.json", {"texts": TEXTS,
                                    "embeddings": torch.nn.functional.normalize(pooled, dim=-1).tolist()})

    labels = {0: "negative", 1: "neutral", 2: "positive"}
    model = BertForSequenceClassification(BertConfig(**sizes, id2label=labels,
                                                     label2id={v: k for k, v in labels.items()})).eval()
    folder = HERE / "classify"
    export(model, "logits", inputs, folder / "model.onnx")
    model.config.save_pretrained(folder)
    with torch.no_grad():
        logits = model(**inputs).logits
    write(folder / "answers.json", {"texts": TEXTS, "probabilities": logits.softmax(-1).tolist()})


if __name__ == "__main__":
    main()
