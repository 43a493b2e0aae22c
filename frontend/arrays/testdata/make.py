"""Writes the files of this folder: python3 make.py, with numpy (1.24 was used)."""
import os
import wave

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
path = lambda name: os.path.join(here, name)

for code in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "c8", "c16"]:
    a = np.arange(6).reshape(2, 3).astype(code)
    if a.dtype.kind == "c":
        a = a + 0.5j
        a = a.astype(code)
    np.save(path(f"le_{code}.npy"), a)
    np.save(path(f"be_fortran_{code}.npy"), np.asfortranarray(a.astype(">" + code)))
np.save(path("fortran4.npy"), np.asfortranarray(np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)))
np.save(path("scalar.npy"), np.float64(7))
np.save(path("vector.npy"), np.arange(3))
np.save(path("empty.npy"), np.zeros((0, 4), np.float32))
np.save(path("object.npy"), np.array([None, 1], dtype=object), allow_pickle=True)
np.save(path("record.npy"), np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
np.save(path("text.npy"), np.array(["a", "b"]))
for major in (2, 3):
    with open(path(f"version{major}.npy"), "wb") as f:
        np.lib.format.write_array(f, np.arange(3, dtype=np.int16), version=(major, 0))
np.savez(path("two.npz"), a=np.arange(3), b=np.ones(2, np.float32))
np.savez_compressed(path("one.npz"), x=np.zeros((10, 10), np.float32))
with wave.open(path("pcm16.wav"), "wb") as w:
    w.setnchannels(2)
    w.setsampwidth(2)
    w.setframerate(16000)
    w.writeframes(np.array([0, -32768, 16384, 32767], "<i2").tobytes())
