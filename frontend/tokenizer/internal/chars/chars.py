"""Writes chars.txt: the classes of characters that Hugging Face's tokenizers works with, found by asking the library about each
code point. Its parts follow different versions of Unicode (9 to 17), and Go's tables another one.

    python3 chars.py > chars.txt        # with the package tokenizers 0.23
"""

import base64
import struct
import sys

import tokenizers
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

ALL = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def where(test):
    return {c for c in ALL if test(c)}


def ranges(chars):
    out = []
    for c in sorted(map(ord, chars)):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in out)


def charsmap(first):
    """A precompiled charsmap that turns characters with the given first bytes into X, and so a cluster of less than 6 bytes
    that begins with one into one X, and a longer cluster into an X for each of them."""
    units, base, leaf = [0] * 4096, 256, 1024
    units[0] = base << 10
    for i, byte in enumerate(first):
        node = base ^ byte
        units[node] = byte | 1 << 8 | (node ^ (leaf + i)) << 10
        units[leaf + i] = 1 << 31
    return struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + b"X\0"


def classes():
    bert = lambda *a: N.BertNormalizer(*a).normalize_str
    pieces = lambda p: lambda s: len(p.pre_tokenize_str(s))

    split = pieces(P.WhitespaceSplit())
    yield "space", where(lambda c: split("a" + c + "a") == 2)
    punctuation = pieces(P.Punctuation())
    yield "punctuation", where(lambda c: punctuation("a" + c + "a") == 3)
    digits = pieces(P.Digits(True))
    yield "numeric", where(lambda c: digits("a" + c + "a") == 3)
    words = pieces(P.Whitespace())
    yield "word", where(lambda c: words("a" + c + "a") == 1)
    clean = bert(True, False, False, False)
    yield "other", where(lambda c: clean(c) == "")  # and U+0000 and U+FFFD
    accents = bert(False, False, True, False)
    yield "nonspacing", where(lambda c: accents(c) == "")
    marks = N.StripAccents().normalize_str
    yield "mark", where(lambda c: marks(c) == "")

    nfd, nfc = N.NFD().normalize_str, N.NFC().normalize_str
    nfkd, nfkc = N.NFKD().normalize_str, N.NFKC().normalize_str
    hangul = {chr(c) for c in range(0xAC00, 0xD7A4)}
    yield "decomposes", where(lambda c: nfd(c) != c) - hangul
    yield "decomposes-k", where(lambda c: nfkd(c) != c) - hangul
    # A class of 1 sorts before U+0301, all others behind U+0334.
    yield "class", where(lambda c: nfd("\u0301" + c) == nfd(c) + "\u0301" or c != "\u0334" and nfd(c + "\u0334") == "\u0334" + nfd(c))
    yield "excluded", where(lambda c: nfc(c) != c)
    yield "excluded-k", where(lambda c: nfkc(c) != c)
    second = {nfd(c)[-1] for c in ALL if nfd(c) != c and nfc(c) == c}
    yield "second", second

    whole = N.Precompiled(charsmap(range(1, 256))).normalize_str
    attach = where(lambda c: c != "\0" and whole("a" + c) == "X")
    yield "attach", attach
    yield "control", where(lambda c: "\0" < c < "\U00010000" and whole(c + "\u0301") == "XX") | {"\0"}
    prepend = where(lambda c: "\0" < c < "\U00010000" and whole(c + "a") == "X")
    yield "prepend", prepend
    signs = N.Precompiled(charsmap([0xC2])).normalize_str
    yield "pictograph", where(lambda c: signs("\u00a9\u200d" + c).startswith("X\u200d")) - attach
    yield "extend", where(lambda c: signs("\u00a9" + c + "\u200d\u00a9\u0301").endswith("\u0301")) & attach
    indic = N.Precompiled(charsmap([0xE0])).normalize_str
    yield "linker", where(lambda c: indic("\u0915" + c + "\u0915\u0301").endswith("\u0301")) & attach
    conjunct = where(lambda c: indic("\u0915" + c + "\u094d\u0915\u0301").endswith("\u0301")) - prepend
    yield "conjunct-extend", conjunct & attach
    yield "consonant", conjunct - attach


def scripts():
    """Sets of characters that UnicodeScripts does not divide, without those that it never divides from others."""
    p = P.UnicodeScripts()
    divided = lambda s: len(p.pre_tokenize_str(s)) == 2
    runs = []
    for c in ALL:
        if not p.pre_tokenize_str(c):
            continue
        if runs and not divided(runs[-1][-1] + c):
            runs[-1].append(c)
        else:
            runs.append([c])
    sets = []
    for run in runs:
        for s in sets:
            if not divided(s[0] + run[0]):
                s.extend(run)
                break
        else:
            sets.append(run)
    return sets


print(f"# Written by chars.py with tokenizers {tokenizers.__version__}: ranges of code points.")
for name, chars in classes():
    print(f"{name}: {ranges(chars)}")
for i, chars in enumerate(scripts()):
    print(f"script {i + 1}: {ranges(chars)}")
lower = N.Lowercase().normalize_str
print("lowercase:", " ".join(f"{ord(c):X}>" + "+".join(f"{ord(d):X}" for d in lower(c)) for c in ALL if lower(c) != c))
