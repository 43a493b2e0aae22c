"""Writes classes.json.gz: for each class, what the tokenizers library's expressions match of all characters.

    python classes.py NAME… > classes.json.gz     (names of scripts and properties besides those below)

Ranges are differences: each number is the distance to the one before.
"""

import gzip
import json
import sys

from tokenizers import Regex, pre_tokenizers

TEXT = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn L M N P S Z C LC".split()
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper xdigit word".split()


def ranges(expr):
    split = pre_tokenizers.Split(Regex(expr + "+"), "removed", invert=True)
    out = []
    for _, (a, b) in split.pre_tokenize_str(TEXT):
        out += [a if a < 0xD800 else a + 0x800, b - 1 if b - 1 < 0xD800 else b + 0x7FF]
    return [b - a for a, b in zip([0] + out, out)]


def main():
    found = {}
    for expr in ["\\w", "\\d", "\\s", "\\h"] + [f"[[:{c}:]]" for c in POSIX] + [f"\\p{{{c}}}" for c in POSIX + CATEGORIES + sys.argv[1:]]:
        try:
            found[expr] = ranges(expr)
        except Exception:
            pass  # a property that the library does not know
    sys.stdout.buffer.write(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), 9, mtime=0))


main()
