"""Writes golden.json.gz: what Hugging Face's tokenizers makes of hard lines with each normalizer and each pre-tokenizer.

    python3 goldens.py [LINES [FILE]]        # with the package tokenizers 0.23

Each case has the part as a tokenizer.json states it, and an answer for each line: for normalizers the text and the bytes of the
line that each character comes from, for pre-tokenizers the pieces and their bytes. "sweep" has checksums of answers to texts
with all code points, in blocks of 4096.
"""

import base64
import gzip
import json
import random
import struct
import sys
import zlib

from tokenizers import Tokenizer
from tokenizers import models, normalizers, pre_tokenizers

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789²³¼½Ⅷ٣४①",
    "  \t\n\r\u00a0\u3000\u2003\u1680\u2028\u0085\u000b\u000c",
    ".,;:!?'\"`()[]{}<>-_#$%&*+/=@\\^|~«»“”‘’…—–、。，！？؟।",
    "éèêëçñöüÄÖÜßøåæœŁžĳŉǆǱİıſẞﬀﬁﬃǺẠậ",
    "\u0300\u0301\u0302\u0303\u0308\u0323\u0327\u0328\u0331\u0345\u0344\u0340\u0334\u20dd\u0903\u093c\u094d\u05b4\u0e48\u302a\u1dfa\u0487",
    "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad\u061c\ufe0f\u0000\u0001\u0008\u007f\u009f\u008f\ufffd\ue000\u0600\u06dd",
    "αβγΔΩΣςώᾳᾼΐ",
    "привётЙйЁЇҐ",
    "مرحبًاﷺﻻلا",
    "שלוםבּשׁ",
    "हिन्दीक्षत्रक़ड़নমস্কারதமிழ்തമ",
    "ไทยำลาวຳ",
    "漢字中文豈更㐀丽\U0002f800\U00020000\U0002b920々〆",
    "ひらがなガパカタｶﾞﾊﾟー〜゛゜",
    "한국어각가각ᄒힰퟋ",
    "🙂👍🏽👩‍👩‍👧‍👦🇫🇷🇩🇪❤️‍🔥©®™ℹ️",
    "ＡＢｃ１２！ｱ㍿㌔℃ªº№½ⅧﬃÅK",
    "▁▁Ġ",
    "𝔘𝒳𝟘𐐀𞤀ꭰᎠⰀ𑄮𝅗𝅥",
]


def lines(count):
    r = random.Random(7)
    out = ["", " ", "  ", "a", "Hello, world!  It's 2024.", "it's  we'll\tDON'T", "``quoted'' text", "e\u0301a\u0323\u0302", "\u0301a", "\u0001\u0002x\u0003",
           "\u200bab\u200b", "a\u00adb", "\r\n x\r\ny", "©\u200d©\u0301", "क्\u200dषि\u0301", "ﬀ\u0301\u200b", "a\u0300\u0345\u0323b", "1,234.56 ½ km²",
           "ﷺ ﷺ", " ▁ a ▁▁b", "각ᆨ각", "\ufeffstart", "İstanbul ΣΑΣ", "日本語とEnglish混在", "x\u1dfa\u0301\u0323y"]
    while len(out) < count:
        pools = r.sample(ALPHABETS, r.randint(1, 6))
        s = ""
        for _ in range(r.randint(1, 14)):
            pool = r.choice(pools + ALPHABETS[:3])
            s += "".join(r.choice(pool) for _ in range(r.randint(1, 6)))
            if r.random() < 0.4:
                s += " " * r.randint(1, 2)
        out.append(s)
    return out[:count]


def charsmap(rules):
    """The precompiled_charsmap of some rules: a trie in the form of a double array, and the replacements."""
    texts, values = b"", {}
    for old, new in rules.items():
        values[old.encode()] = len(texts)
        texts += new.encode() + b"\0"
    units, used = {0: 0}, {0}

    def add(prefix, at):
        below = sorted({k[len(prefix)] for k in values if k.startswith(prefix) and len(k) > len(prefix)})
        leaf = [0] if prefix in values else []
        offset = 1
        while any(at ^ offset ^ c in used for c in below + leaf) or offset >= 1 << 21:
            offset += 1
        units[at] |= offset << 10 | (1 << 8 if leaf else 0)
        base = at ^ offset
        for c in below + leaf:
            used.add(base ^ c)
            units[base ^ c] = c
        if leaf:
            units[base] = 1 << 31 | values[prefix]
        for c in below:
            add(prefix + bytes([c]), base ^ c)

    add(b"", 0)
    size = (max(units) | 255) + 1
    blob = struct.pack("<I", 4 * size) + b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size)) + texts
    return base64.b64encode(blob).decode()


RULES = {"\t": " ", "\n": " ", "\r": " ", "\u0001": "", "\u200b": "", "\u200d": "", "\ufeff": "", "\u00a0": " ", "\u3000": " ", "ﬀ": "ff", "ﬃ": "ffi", "½": "1⁄2",
         "é": "e", "e\u0301": "é", "a\u0300": "à", "ﷺ": "صلى الله عليه وسلم", "Ａ": "A", "Ｂ": "B", "１": "1", "©": "(c)", "क़": "क\u093c", "ｶ": "カ", "ﾞ": "\u3099", "…": "...",
         "K": "K", "Å": "Å", "\u0301": "", "İ": "i\u0307", "▁": " ", "가": "\u1100\u1161", "🙂": ":)", "ー": "-", "ﾊ": "ハ", "ß": "ss", "œ": ""}


def parts():
    n = normalizers
    bert = lambda *a: n.BertNormalizer(*a)
    yield from [bert(True, True, None, True), bert(True, True, None, False), bert(False, False, True, False), bert(True, False, False, True), bert(False, True, True, True)]
    yield from [n.NFC(), n.NFD(), n.NFKC(), n.NFKD(), n.Lowercase(), n.StripAccents(), n.Nmt(), n.ByteLevel()]
    yield from [n.Strip(True, True), n.Strip(True, False), n.Strip(False, True), n.Prepend("▁"), n.Prepend("<>"), n.Prepend("")]
    from tokenizers import Regex
    yield from [n.Replace(" ", "▁"), n.Replace(Regex(" {2,}"), " "), n.Replace(Regex("[aeiou]+"), "<v>"), n.Replace(Regex(r"\s+"), " "), n.Replace(Regex("x*"), "-"), n.Replace("a", "")]
    yield n.Precompiled(base64.b64decode(charsmap(RULES)))
    yield n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()])
    yield n.Sequence([n.NFKC(), n.Replace("a", "aa"), n.Strip(), n.NFD(), n.Prepend("▁")])
    yield n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(), n.Precompiled(base64.b64decode(charsmap(RULES))), n.Replace(Regex(" {2,}"), " ")])
    yield n.Sequence([n.Nmt(), n.NFC(), n.Lowercase(), bert(True, True, True, True)])

    p = pre_tokenizers
    yield from [p.ByteLevel(False), p.ByteLevel(True), p.ByteLevel(True, True, False), p.BertPreTokenizer(), p.Whitespace(), p.WhitespaceSplit(), p.UnicodeScripts()]
    for scheme in "always", "first", "never":
        yield from [p.Metaspace("▁", scheme, True), p.Metaspace("_", scheme, False)]
    for behavior in "removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous":
        yield p.Punctuation(behavior)
        for invert in False, True:
            yield from [p.Split(Regex(r"\p{L}+|\s"), behavior, invert), p.Split(" ", behavior, invert), p.Split(Regex(r"\d*"), behavior, invert)]
    yield from [p.Digits(True), p.Digits(False), p.CharDelimiterSplit(" "), p.CharDelimiterSplit("é"), p.FixedLength(1), p.FixedLength(3)]
    yield p.Sequence([p.WhitespaceSplit(), p.Metaspace()])
    yield p.Sequence([p.Punctuation(), p.Metaspace("▁", "first"), p.Digits(True)])
    yield p.Sequence([p.ByteLevel(True), p.Split("Ġ", "merged_with_next"), p.ByteLevel(True, True, False)])
    yield p.Sequence([p.Split(Regex(r"\p{N}{1,3}"), "isolated"), p.Whitespace(), p.ByteLevel(False, True, False)])
    yield p.Sequence([p.UnicodeScripts(), p.FixedLength(4), p.CharDelimiterSplit("a")])


def state(part):
    return json.loads(part.__getstate__())


def in_bytes(line):
    at = [0]
    for c in line:
        at.append(at[-1] + len(c.encode()))
    return at


def answers(part, all_lines):
    normalizer = isinstance(part, normalizers.Normalizer)
    if normalizer:
        t = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        t.normalizer, t.pre_tokenizer = part, pre_tokenizers.FixedLength(1)
    for line in all_lines:
        at = in_bytes(line)
        if normalizer:
            yield {"text": part.normalize_str(line), "places": [x for o in t.encode(line).offsets for x in (at[o[0]], at[o[1]])]}
        else:
            pieces = part.pre_tokenize_str(line)
            yield {"pieces": [s for s, _ in pieces], "places": [x for _, o in pieces for x in (at[o[0]], at[o[1]])]}


def sweep(part):
    """Checksums of the normalized text, or of the numbers of bytes where pieces begin and end."""
    for block in range(0, 0x110000, 4096):
        chars = [chr(c) for c in range(block, block + 4096) if not 0xD800 <= c <= 0xDFFF]
        text = "\n".join("a" + c + "b" + c + "\u0301" for c in chars)
        if isinstance(part, normalizers.Normalizer):
            answer = part.normalize_str(text).encode()
        else:
            at = in_bytes(text)
            answer = b"".join(struct.pack("<II", at[a], at[b]) for _, (a, b) in part.pre_tokenize_str(text))
        yield zlib.crc32(answer)


def swept():
    n, p = normalizers, pre_tokenizers
    yield from [n.BertNormalizer(), n.NFC(), n.NFD(), n.NFKC(), n.NFKD(), n.Lowercase(), n.StripAccents(), n.Nmt()]
    yield n.Precompiled(base64.b64decode(charsmap(RULES)))
    yield from [p.ByteLevel(False), p.BertPreTokenizer(), p.Whitespace(), p.WhitespaceSplit(), p.UnicodeScripts(), p.Punctuation(), p.Digits(True)]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 80
    name = sys.argv[2] if len(sys.argv) > 2 else "golden.json.gz"
    out = {"lines": lines(count), "normalizers": [], "pre_tokenizers": []}
    for part in parts():
        kind = "normalizers" if isinstance(part, normalizers.Normalizer) else "pre_tokenizers"
        out[kind].append({"part": state(part), "answers": list(answers(part, out["lines"]))})
    out["sweep"] = [{"part": state(part), "sums": list(sweep(part))} for part in swept()]
    with open(name, "wb") as f, gzip.GzipFile(filename="", fileobj=f, mode="wb", mtime=0) as g:
        g.write(json.dumps(out, ensure_ascii=False, separators=(",", ":")).encode())


main()
