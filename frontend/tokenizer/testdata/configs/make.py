"""Writes configs.json.gz: what AutoTokenizer of transformers 5.23 answers for directories with the tokenizer.json of a pipeline of
../pipelines and some tokenizer_config.json, with ids of texts and of a pair, and decoded texts.

    python make.py
"""

import gzip
import json
import os
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
from transformers import AutoTokenizer

TEXTS = ["Hello there", "State spaces are small.", "it 's a test , isn 't it ?", "they 've got n't 'm 're . . ! ?", "  two  spaces ,  and ' quotes ' !", "don't do not I'm you're",
         "été , naïve ! 漢字 . 🙂 ?", "a . b , c ! d ? e 's f 've", "", " ", ".", "a ' b ' c '' d", "The end ."]
SPECIAL = {"llama2": {"bos_token": "<s>", "eos_token": "</s>"}, "gpt2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}}
ADD = [{}, {"add_bos_token": True}, {"add_bos_token": False}, {"add_eos_token": True}, {"add_bos_token": False, "add_eos_token": True}]
CLEAN = [{}, {"clean_up_tokenization_spaces": True}, {"clean_up_tokenization_spaces": False},
         {"clean_up_tokenization_spaces": True, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True}]


def case(name, config, processor=True):
    with tempfile.TemporaryDirectory() as folder:
        with gzip.open(f"../pipelines/{name}/tokenizer.json.gz") as f:
            state = json.load(f)
        if not processor:
            state["post_processor"] = None
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            json.dump(state, f)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump(config, f)
        tok = AutoTokenizer.from_pretrained(folder)
        ids = [tok(t)["input_ids"] for t in TEXTS]
        out = {"pipeline": name, "config": config, "no_processor": not processor, "class": type(tok).__name__, "ids": ids, "pair": tok(TEXTS[0], TEXTS[1])["input_ids"],
               "decoded": [tok.decode(i) for i in ids], "skip": [tok.decode(i, skip_special_tokens=True) for i in ids]}
        return json.dumps(out, ensure_ascii=False, separators=(",", ":"))


def main():
    rows = []
    for add in ADD:
        for name, classes in {"llama2": ["LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast"], "gpt2": ["GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast"]}.items():
            rows += [case(name, {"tokenizer_class": c, **SPECIAL[name], **add}) for c in classes]
        rows.append(case("llama2", {"tokenizer_class": "LlamaTokenizer", **SPECIAL["llama2"], **add}, processor=False))
    for clean in CLEAN:
        for name, classes in {"bert": ["BertTokenizer", "PreTrainedTokenizerFast"], "t5": ["PreTrainedTokenizerFast"], "xlmr": ["PreTrainedTokenizerFast"], "albert": ["PreTrainedTokenizerFast"],
                              "llama2": ["LlamaTokenizerFast"], "gpt2": ["GPT2TokenizerFast", "PreTrainedTokenizerFast"], "modernbert": ["PreTrainedTokenizerFast"]}.items():
            rows += [case(name, {"tokenizer_class": c, **SPECIAL.get(name, {}), **clean}) for c in classes]
    text = json.dumps({"texts": TEXTS}, ensure_ascii=False)[:-1] + ',"cases":[\n' + ",\n".join(rows) + "\n]}\n"
    with open("configs.json.gz", "wb") as f:
        f.write(gzip.compress(text.encode(), 9, mtime=0))


main()
