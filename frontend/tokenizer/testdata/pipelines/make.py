"""Trains the 14 pipelines, writes each as published, and what the tokenizers library answers to hard lines.

    python make.py DIR [--lines 20000] [--only bert,gpt2]
    python make.py . --small --lines 180 --cases 36    (the files of this folder)

DIR gets lines.jsonl (a text per line as a JSON string, or {"bytes": base64} if it is not UTF-8) and for each pipeline
a folder with tokenizer.json, tokenizer_config.json, answers.jsonl (per line: ids, tokens, offsets in bytes, type ids,
attention mask, special mask, word ids, decoded text with and without special tokens) and cases.jsonl (pairs,
truncation, padding, decoding token by token). --small trains vocabularies of some thousand entries, for the files of
this folder, and compresses all files. It needs tokenizers, transformers, sentencepiece and protobuf.

Bytes that are not UTF-8 cannot be given to Python: the library gets U+FFFD for each of them, and offsets count one byte.
"""

import argparse
import base64
import codecs
import gzip
import io
import json
import os
import random
import sys
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ["RUST_BACKTRACE"] = "0"
import sentencepiece as spm
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
import transformers.convert_slow_tokenizer as convert
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import corpus

GPT2_ALPHABET = pre_tokenizers.ByteLevel.alphabet()
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def special(content, **flags):
    return AddedToken(content, special=True, **{"normalized": False, **flags})


def plain(content, **flags):
    return AddedToken(content, special=False, **flags)


class Maker:
    def __init__(self, directory, small):
        self.dir, self.small = directory, small
        self.text = corpus.Text(7)
        self.train = list(self.text.training(20000 if small else 90000))
        self.spm_file = None

    def size(self, n):
        return min(n, 2500) if self.small else n

    def bpe(self, size, normalizer, pre, first=(), suffix=None):
        """A byte-level BPE of size entries: vocabulary and merges."""
        tok = Tokenizer(models.BPE(end_of_word_suffix=suffix) if suffix else models.BPE())
        if normalizer:
            tok.normalizer = normalizer
        tok.pre_tokenizer = pre
        more = {"end_of_word_suffix": suffix} if suffix else {}
        tok.train_from_iterator(self.train, trainers.BpeTrainer(vocab_size=self.size(size), show_progress=False, special_tokens=list(first), initial_alphabet=GPT2_ALPHABET, **more))
        state = json.loads(tok.to_str())["model"]
        if suffix:  # as OpenAI's files: each byte also with the suffix
            vocab = {t: None for t in first}
            for b in sorted(GPT2_ALPHABET):
                vocab.setdefault(b), vocab.setdefault(b + suffix)
            for t in state["vocab"]:
                vocab.setdefault(t)
            state["vocab"] = {t: i for i, t in enumerate(vocab)}
        return state["vocab"], [tuple(m) for m in state["merges"]]

    def byte_level(self, size, normalizer, pre, post, decoder, tokens, first=(), suffix=None, **model):
        vocab, merges = self.bpe(size, normalizer, pre, first, suffix)
        options = {"continuing_subword_prefix": "", "end_of_word_suffix": suffix or "", "fuse_unk": False, **model}
        options = {k: v for k, v in options.items() if v is not None}
        tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, **options))
        if normalizer:
            tok.normalizer = normalizer
        tok.pre_tokenizer = pre
        tok.decoder = decoder
        for t in tokens:
            (tok.add_special_tokens if t.special else tok.add_tokens)([t])
        tok.post_processor = post(tok.token_to_id)
        return tok

    def sentencepiece(self, name, **options):
        path = os.path.join(self.dir, name, "spm.model")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path):
            model = io.BytesIO()
            lines = [l for l in self.train if "\n" not in l]
            if self.small:
                options.update(vocab_size=4000, hard_vocab_limit=options["model_type"] == "bpe")
            spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, num_threads=2, minloglevel=2,
                                           character_coverage=0.98 if self.small else 0.9999, **options)
            with open(path, "wb") as f:
                f.write(model.getvalue())
        return path

    # The pipelines. Each is as the file of the model of that name has it.

    def bert(self):
        tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tok.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
        tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        first = ["[PAD]"] + [f"[unused{i}]" for i in range(99)] + ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tok.train_from_iterator(self.train, trainers.WordPieceTrainer(vocab_size=self.size(30522), limit_alphabet=900 if self.small else 6000, show_progress=False, special_tokens=first))
        vocab = json.loads(tok.to_str())["model"]["vocab"]
        out = Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]", max_input_chars_per_word=100))
        out.normalizer, out.pre_tokenizer, out.decoder = tok.normalizer, tok.pre_tokenizer, decoders.WordPiece(prefix="##", cleanup=True)
        out.add_special_tokens([special(t) for t in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]])
        out.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                           special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
        return out

    def roberta(self):
        first = ["<s>", "<pad>", "</s>", "<unk>"]
        tokens = [special(t, normalized=True) for t in first] + [special("<mask>", lstrip=True, normalized=True)]
        return self.byte_level(50264, None, pre_tokenizers.ByteLevel(add_prefix_space=False),
                               lambda id: processors.RobertaProcessing(("</s>", id("</s>")), ("<s>", id("<s>")), trim_offsets=True, add_prefix_space=False),
                               decoders.ByteLevel(), tokens, first)

    def gpt2(self):
        return self.byte_level(50256, None, pre_tokenizers.ByteLevel(add_prefix_space=False),
                               lambda id: processors.ByteLevel(trim_offsets=False), decoders.ByteLevel(), [special("<|endoftext|>")])

    def llama2(self):
        path = self.sentencepiece("llama2", vocab_size=32000, model_type="bpe", byte_fallback=True, split_digits=True,
                                  normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
                                  bos_id=1, eos_id=2, unk_id=0)

        class Slow:
            vocab_file, legacy, add_prefix_space = path, True, True

            @staticmethod
            def convert_ids_to_tokens(i):
                return ["<unk>", "<s>", "</s>"][i]

        class Extractor:  # the converter asks for merges by pieces' scores, as it did in version 4
            def __init__(self, path):
                pass

            def extract(self, scores):
                return None, convert.generate_merges({w: i for i, (w, _) in enumerate(scores)}, scores)

        converter = convert.LlamaConverter(Slow)
        converter.SpmExtractor = Extractor
        tok = converter.converted()
        tok.add_special_tokens([special(t) for t in ["<unk>", "<s>", "</s>"]])
        tok.post_processor = processors.TemplateProcessing(single="<s>:0 $A:0", pair="<s>:0 $A:0 <s>:1 $B:1", special_tokens=[("<s>", 1)])
        return tok

    def llama3(self):
        tokens = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>",
                  "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"]
        tokens += [f"<|reserved_special_token_{i}|>" for i in range(3, 248)]
        pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated", invert=False), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)])
        return self.byte_level(64000, None, pre,
                               lambda id: processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
                                   single="<|begin_of_text|>:0 $A:0", pair="<|begin_of_text|>:0 $A:0 <|begin_of_text|>:1 $B:1", special_tokens=[("<|begin_of_text|>", id("<|begin_of_text|>"))])]),
                               decoders.ByteLevel(), [special(t) for t in tokens],
                               continuing_subword_prefix=None, end_of_word_suffix=None, ignore_merges=True)

    def qwen(self):
        pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), behavior="isolated", invert=False), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
        chat = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
        tools = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"]
        return self.byte_level(60000, normalizers.NFC(), pre, lambda id: processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
                               decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
                               [special(t) for t in chat] + [plain(t, normalized=False) for t in tools], byte_fallback=False, ignore_merges=False)

    def converted(self, converter, name, slow, **options):
        path = self.sentencepiece(name, model_type="unigram", **options)
        tok = None

        class Slow:
            vocab_file, add_prefix_space = path, True

            @staticmethod
            def convert_tokens_to_ids(t):
                return {piece: i for i, (piece, _) in enumerate(made.vocab(made.proto))}[t]

        for k, v in slow.items():
            setattr(Slow, k, v)
        made = converter(Slow)
        return made.converted()

    def legacy_metaspace(self, tok, normalizers_kept):
        """The published files of T5, XLM-R and ALBERT were written by early converters, with the keys of their time."""
        state = json.loads(tok.to_str())
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}]}
        state["decoder"] = {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}
        kept = [n for n in state["normalizer"]["normalizers"] if n["type"] in normalizers_kept]
        kept = [n for n in kept if not (n["type"] == "Replace" and "Regex" in n["pattern"])]
        state["normalizer"] = kept[0] if len(kept) == 1 else {"type": "Sequence", "normalizers": kept}
        return Tokenizer.from_str(json.dumps(state)), state

    def t5(self):
        tok = self.converted(convert.T5Converter, "t5", {"_extra_ids": 100}, vocab_size=32000, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name="nmt_nfkc")
        tok.add_special_tokens([special(t) for t in ["</s>", "<unk>", "<pad>"]] + [special(f"<extra_id_{i}>") for i in range(100)])
        return self.legacy_metaspace(tok, ["Precompiled"])

    def xlmr(self):
        tok = self.converted(convert.XLMRobertaConverter, "xlmr", {}, vocab_size=40000, unk_id=0, bos_id=1, eos_id=2, normalization_rule_name="nmt_nfkc")
        tok.add_special_tokens([special(t) for t in ["<s>", "<pad>", "</s>", "<unk>"]] + [special("<mask>", lstrip=True, normalized=True)])
        return self.legacy_metaspace(tok, ["Precompiled"])

    def albert(self):
        tok = self.converted(convert.AlbertConverter, "albert", {"keep_accents": False, "do_lower_case": True}, vocab_size=30000, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
                             control_symbols="[CLS],[SEP]", user_defined_symbols="[MASK],(,),\",-,.,–,£,€", normalization_rule_name="nmt_nfkc_cf")
        tok.add_special_tokens([special(t) for t in ["<pad>", "<unk>", "[CLS]", "[SEP]"]] + [special("[MASK]", lstrip=True)])
        return self.legacy_metaspace(tok, ["Replace", "NFKD", "StripAccents", "Lowercase", "Precompiled"])

    def deberta(self):
        tok = self.converted(convert.DebertaV2Converter, "deberta", {"do_lower_case": False, "split_by_punct": False}, vocab_size=48000, pad_id=0, bos_id=1, eos_id=2, unk_id=3,
                             pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]", normalization_rule_name="nmt_nfkc")
        tok.add_special_tokens([special(t) for t in ["[PAD]", "[CLS]", "[SEP]"]] + [special("[UNK]", normalized=True), special("[MASK]")])
        return tok

    def clip(self):
        pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), behavior="removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        norm = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
        return self.byte_level(49406, norm, pre,
                               lambda id: processors.RobertaProcessing(("<|endoftext|>", id("<|endoftext|>")), ("<|startoftext|>", id("<|startoftext|>")), trim_offsets=False, add_prefix_space=False),
                               decoders.ByteLevel(), [special("<|startoftext|>", normalized=True), special("<|endoftext|>")], ["<|startoftext|>", "<|endoftext|>"], suffix="</w>", unk_token="<|endoftext|>")

    def modernbert(self):
        tokens = [plain("|||IP_ADDRESS|||", normalized=True), special("<|padding|>")]
        tokens += [plain(" " * n, normalized=True) for n in range(24, 1, -1)] + [plain("|||EMAIL_ADDRESS|||", normalized=True), plain("|||PHONE_NUMBER|||", normalized=True), special("<|endoftext|>")]
        tokens += [special(t) for t in ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]] + [special("[MASK]", lstrip=True)] + [plain(f"[unused{i}]", normalized=True) for i in range(83)]
        return self.byte_level(50254, normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False),
                               lambda id: processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", id("[CLS]")), ("[SEP]", id("[SEP]"))]),
                               decoders.ByteLevel(), tokens, continuing_subword_prefix=None, end_of_word_suffix=None)

    def whisper(self):
        names = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", "<|de|>", "<|es|>", "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nocaptions|>", "<|notimestamps|>"]
        tokens = [special(t) for t in names] + [plain(f"<|{i * 0.02:.2f}|>", normalized=False) for i in range(1501)]
        return self.byte_level(50257, None, pre_tokenizers.ByteLevel(add_prefix_space=False),
                               lambda id: processors.TemplateProcessing(single="<|startoftranscript|>:0 <|notimestamps|>:0 $A:0 <|endoftext|>:0", pair="<|startoftranscript|>:0 <|notimestamps|>:0 $A:0 $B:1 <|endoftext|>:1",
                                                                        special_tokens=[(t, id(t)) for t in ["<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>"]]),
                               decoders.ByteLevel(), tokens)

    def mamba(self):
        tokens = [special("<|endoftext|>"), special("<|padding|>")] + [plain(" " * n, normalized=True) for n in range(24, 1, -1)]
        return self.byte_level(50254, normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False), lambda id: processors.ByteLevel(add_prefix_space=False, trim_offsets=True),
                               decoders.ByteLevel(add_prefix_space=False, trim_offsets=True), tokens, ["<|endoftext|>", "<|padding|>"])


NAMES = ["bert", "roberta", "gpt2", "llama2", "llama3", "qwen", "t5", "xlmr", "clip", "modernbert", "deberta", "whisper", "albert", "mamba"]
LITERALS = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "<|endoftext|>", "<|startoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|im_start|>",
            "<|im_end|>", "<tool_call>", "<extra_id_0>", "<extra_id_99>", "<|0.00|>", "<|29.98|>", "<|en|>", "<|startoftranscript|>", "|||EMAIL_ADDRESS|||", "[unused7]", "     ", "▁", "Ġ", "##s", "``", "''"]


def per_byte(error):
    return "\ufffd", error.start + 1


codecs.register_error("per_byte", per_byte)


def decode_line(line):
    """The text that Python gets, and for each of its characters the first byte in the line."""
    text = line.decode("utf-8", "per_byte")
    starts, at = [], 0
    for c in text:
        starts.append(at)
        size = len(c.encode())
        at += size if line[at:at + size] == c.encode() else 1
    assert at == len(line)
    return text, starts + [at]


def answer(tok, enc, *starts):
    offsets = []
    for (a, b), seq in zip(enc.offsets, enc.sequence_ids):
        table = starts[seq] if seq is not None else None
        offsets.append([table[a], table[b]] if table else [a, b])
    out = {"ids": enc.ids, "tokens": enc.tokens, "offsets": offsets, "type_ids": enc.type_ids, "attention_mask": enc.attention_mask,
           "special": enc.special_tokens_mask, "words": enc.word_ids}
    return out


def write_answers(folder, tok, lines):
    with open(os.path.join(folder, "answers.jsonl"), "w", encoding="utf-8") as f:
        for i in range(0, len(lines), 1000):
            part = [decode_line(l) for l in lines[i:i + 1000]]
            encoded = tok.encode_batch([t for t, _ in part])
            for (text, starts), enc in zip(part, encoded):
                out = answer(tok, enc, starts)
                out["text"] = tok.decode(enc.ids, skip_special_tokens=False)
                out["text_skip"] = tok.decode(enc.ids)
                f.write(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_cases(folder, tok, lines, count):
    """Pairs, truncation, padding, and decoding token by token, over the first lines."""
    from tokenizers.decoders import DecodeStream
    r = random.Random(3)
    t = Tokenizer.from_str(tok.to_str())
    with open(os.path.join(folder, "cases.jsonl"), "w", encoding="utf-8") as f:
        for i in range(count):
            t.no_truncation()
            t.no_padding()
            a, pair = r.randrange(len(lines)), r.random() < 0.6
            b = r.randrange(len(lines)) if pair else None
            ta, sa = decode_line(lines[a])
            tb, sb = decode_line(lines[b]) if pair else (None, [])
            case = {"a": a, "b": b, "add_special": r.random() < 0.8, "truncation": None, "padding": None, "stream": False}
            if r.random() < 0.6:
                tr = {"max_length": r.choice([4, 8, 13, 20, 40, 100]), "stride": r.choice([0, 0, 1, 2]), "strategy": r.choice(["longest_first", "only_first", "only_second"] if pair else ["longest_first", "only_first"]), "direction": r.choice(["right", "left"])}
                case["truncation"] = tr
            if r.random() < 0.4:
                pad = {"direction": r.choice(["right", "left"]), "pad_id": 3, "pad_type_id": r.choice([0, 1]), "pad_token": "<PAD>", "length": r.choice([None, 16, 64]), "pad_to_multiple_of": r.choice([None, 8])}
                case["padding"] = pad
                t.enable_padding(**pad)
            try:
                if case["truncation"]:
                    t.enable_truncation(**case["truncation"])
                enc = t.encode(ta, tb, add_special_tokens=case["add_special"])
                case["answer"] = answer(t, enc, sa, sb)
                case["overflow"] = [answer(t, o, sa, sb) for o in enc.overflowing]
            except BaseException as e:  # a panic of the library is an answer too: what cannot be truncated is refused
                case["error"] = str(e)
            if not case["truncation"] and not case["padding"] and not pair:
                case["stream"] = True
                stream = DecodeStream(skip_special_tokens=bool(i % 2))
                case["skip"] = bool(i % 2)
                try:
                    case["pieces"] = [stream.step(t, id) for id in enc.ids]
                except BaseException as e:
                    case["pieces"] = None
            f.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")


class quiet:
    """The library prints a trace of each truncation that it cannot do."""

    def __enter__(self):
        sys.stderr.flush()
        self.saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)

    def __exit__(self, *_):
        os.dup2(self.saved, 2)
        os.close(self.saved)


def compress(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith((".json", ".jsonl")):
            pack(path)
        elif not name.endswith(".gz"):
            os.remove(path)


def pack(path):
    with open(path, "rb") as f, open(path + ".gz", "wb") as out:
        out.write(gzip.compress(f.read(), 9, mtime=0))
    os.remove(path)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("dir")
    args.add_argument("--lines", type=int, default=20000)
    args.add_argument("--cases", type=int, default=1000)
    args.add_argument("--only", default=",".join(NAMES))
    args.add_argument("--retrain", action="store_true")
    args.add_argument("--small", action="store_true")
    args = args.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    lines = list(corpus.hard_lines(corpus.Text(11), args.lines, LITERALS))
    with open(os.path.join(args.dir, "lines.jsonl"), "w", encoding="utf-8") as f:
        for line in lines:
            try:
                f.write(json.dumps(line.decode("utf-8"), ensure_ascii=False) + "\n")
            except UnicodeDecodeError:
                f.write(json.dumps({"bytes": base64.b64encode(line).decode()}) + "\n")
    if args.small:
        pack(os.path.join(args.dir, "lines.jsonl"))
    maker = None
    for name in args.only.split(","):
        start = time.time()
        folder = os.path.join(args.dir, name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "tokenizer.json")
        if args.retrain or not os.path.exists(path):
            maker = maker or Maker(args.dir, args.small)
            tok = getattr(maker, name)()
            if isinstance(tok, tuple):
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(tok[1], f, ensure_ascii=False, indent=2)
            else:
                tok.save(path)
        tok = Tokenizer.from_file(path)
        trained = time.time()
        write_answers(folder, tok, lines)
        with quiet():
            write_cases(folder, tok, lines, args.cases)
        if args.small:
            compress(folder)
        print(f"{name}: {tok.get_vocab_size()} entries, trained in {trained - start:.0f} s, answered in {time.time() - trained:.0f} s", flush=True)


if __name__ == "__main__":
    main()
