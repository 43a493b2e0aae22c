"""Measures encode_batch of the tokenizers library on one thread, with offsets: MB/s of processor time for each pipeline.

    python speed.py DIR [REPEATS [NAME,…]]
"""

import os
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import base64
import json

from tokenizers import Tokenizer

import make


def main():
    folder, repeats = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    texts, size = [], 0
    for line in open(os.path.join(folder, "lines.jsonl"), encoding="utf-8", newline="\n"):
        v = json.loads(line)
        raw = v.encode() if isinstance(v, str) else base64.b64decode(v["bytes"])
        size += len(raw)
        texts.append(make.decode_line(raw)[0])
    for name in sys.argv[3].split(",") if len(sys.argv) > 3 else make.NAMES:
        tok = Tokenizer.from_file(os.path.join(folder, name, "tokenizer.json"))
        times = []
        for _ in range(repeats):
            start = time.process_time()
            out = tok.encode_batch(texts)
            times.append(time.process_time() - start)
            del out
        print(f"{name} {size / min(times) / 1e6:.2f}", flush=True)


if __name__ == "__main__":
    main()
