#!/usr/bin/env python3
"""Pictures scaled by Pillow 13, which begins with the rows where the height loses more than twice the pixels that the width does
-> resample.safetensors, all uint8 [H, W, 3].

source.{wide,tall}                          pictures of noise, in which the order shows
{bicubic,lanczos}.<source>.<height>x<width> the source at that size
cover.<source>.<height>x<width>             scaled to cover that size by the bilinear filter, and cut at the centre
"""
import pathlib

import numpy as np
import PIL
import torch
from PIL import Image
from safetensors.torch import save_file

# Of the last two of "wide", one loses just twice the pixels, the other one pixel more.
SIZES = {"wide": [(28, 39), (30, 48), (16, 20), (28, 38), (27, 38)], "tall": [(20, 24), (33, 12)]}
COVERED = {"wide": [(16, 16)], "tall": [(30, 10), (40, 14), (12, 12)]}


def crop_and_resize(image, height, width):
    scale = max(width / image.width, height / image.height)
    image = image.resize((max(round(image.width * scale), width), max(round(image.height * scale), height)), Image.Resampling.BILINEAR)
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def main():
    assert PIL.__version__.startswith("13."), PIL.__version__
    rng, tensors = np.random.default_rng(31), {}
    for name, (height, width) in {"wide": (32, 40), "tall": (60, 18)}.items():
        source = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        tensors[f"source.{name}"] = source
        for h, w in SIZES[name]:
            tensors |= {f"{word}.{name}.{h}x{w}": source.resize((w, h), kind) for word, kind in
                        (("bicubic", Image.Resampling.BICUBIC), ("lanczos", Image.Resampling.LANCZOS))}
        tensors |= {f"cover.{name}.{h}x{w}": crop_and_resize(source, h, w) for h, w in COVERED[name]}
    file = pathlib.Path(__file__).with_name("resample.safetensors")
    save_file({name: torch.from_numpy(np.array(image)) for name, image in tensors.items()}, file)
    file.chmod(0o644)


if __name__ == "__main__":
    main()
