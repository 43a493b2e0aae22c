"""Makes the images of this folder, and what Pillow and torchvision's arithmetic make of them.

    python images.py        # needs Pillow and numpy; checks itself against torchvision if that is there

Resize is PIL.Image.resize, and with one number torchvision's Resize(N) and CenterCrop(size). Normalize is
(v / 255 - mean) / std in float32, as torchvision's ToTensor and Normalize compute it.
"""
import os

import numpy as np
from PIL import Image

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "images"))
rng = np.random.default_rng(1)
H, W = 37, 53
y, x = np.mgrid[0:H, 0:W]
waves = np.stack([127 + 120 * np.sin(x / 5 + y / 9), 127 + 120 * np.cos(x * y / 190), 4.5 * x], -1)
rgb = np.clip(waves + rng.normal(0, 9, waves.shape), 0, 255).astype(np.uint8)
alpha = np.concatenate([rgb, (x * 5 % 256)[..., None].astype(np.uint8)], -1)
images = {
    "rgb.png": Image.fromarray(rgb),
    "alpha.png": Image.fromarray(alpha),
    "gray.png": Image.fromarray(rgb[..., 1]),
    "palette.png": Image.fromarray(rgb).quantize(32),
}
for name, im in images.items():
    im.save(name, optimize=True)
Image.fromarray(rgb).save("photo.jpg", quality=90)  # chroma at half resolution
Image.fromarray(rgb).save("progressive.jpg", quality=75, progressive=True)

MEANS = {
    "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "-1..1": ([0.5], [0.5]),
    "0.1,0.2,0.3/0.4,0.5,0.6": ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]),
}


def prepared(file, resize, normalize, size, channels):
    im = Image.open(file).convert("L" if channels == 1 else "RGB")
    text, _, kind = resize.partition(",")
    kind = Image.BICUBIC if kind == "bicubic" else Image.BILINEAR
    w, h = im.size
    if text == "":  # stretched to the input
        im = im.resize(size[::-1], kind) if size else im
    elif "x" in text:
        im = im.resize(tuple(int(n) for n in text.split("x"))[::-1], kind)
    else:
        th, tw = size
        if text == "crop":
            scale = (th, tw)
        else:
            scale = (int(text), int(text))
        if h * scale[1] <= w * scale[0]:
            im = im.resize((max(scale[1], int(scale[0] * w / h)), scale[0]), kind)
        else:
            im = im.resize((scale[1], max(scale[0], int(scale[1] * h / w))), kind)
        w, h = im.size
        top, left = int(round((h - th) / 2.0)), int(round((w - tw) / 2.0))
        im = im.crop((left, top, left + tw, top + th))
    a = np.asarray(im)
    if a.ndim == 2:
        a = a[..., None]
    if normalize == "none":
        return a
    v = a.astype(np.float32) / np.float32(255)
    if normalize in MEANS:
        mean, std = (np.array(m, np.float32) for m in MEANS[normalize])
        v = (v - mean) / std
    return v


with open("cases.txt", "w") as f:
    for k, (file, resize, normalize, size, channels) in enumerate([
        ("rgb.png", "", "none", None, 3),
        ("alpha.png", "", "none", None, 3),
        ("gray.png", "", "none", None, 3),
        ("palette.png", "", "none", None, 3),
        ("photo.jpg", "", "none", None, 3),
        ("progressive.jpg", "", "none", None, 3),
        ("rgb.png", "", "0..1", (16, 24), 3),
        ("rgb.png", "", "imagenet", (16, 24), 3),
        ("rgb.png", "30", "imagenet", (24, 24), 3),
        ("photo.jpg", "crop,bicubic", "-1..1", (21, 20), 3),
        ("photo.jpg", "crop", "none", (20, 33), 3),
        ("rgb.png", "48x64,bicubic", "none", None, 3),
        ("rgb.png", "48x11", "0.1,0.2,0.3/0.4,0.5,0.6", None, 3),
        ("rgb.png", "", "-1..1", (28, 28), 1),
        ("gray.png", "28x28,bicubic", "0..1", None, 1),
    ]):
        a = prepared(file, resize, normalize, size, channels)
        np.save(f"{k}.npy", a)
        text = "x".join(map(str, size)) if size else "any"
        f.write(f"{k}.npy {file} {resize or '-'} {normalize} {text} {channels}\n")

try:
    import torch
    from torchvision import transforms as T
except ImportError:
    print("without torchvision")
else:
    im = Image.open("rgb.png")
    t = T.Compose([T.Resize(30), T.CenterCrop(24), T.ToTensor(), T.Normalize(*MEANS["imagenet"])])(im)
    assert torch.equal(t.permute(1, 2, 0), torch.from_numpy(np.load("8.npy"))), "torchvision differs"
    print("equal to torchvision")
