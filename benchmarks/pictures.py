#!/usr/bin/env python3
"""Pictures to tensors beside Pillow and OpenCV: 200 JPEGs of 2000x1500 scaled and cut to 1024x1024, on one thread each, in turn.

usage: pictures.py [--pictures 200] [--alternations 3]

Each reads a file, decodes it, scales it by an antialiasing filter so that it covers the square (Pillow: BILINEAR, OpenCV: INTER_AREA), cuts
out the centre and makes float32 [3, H, W] from -1 to 1 of it. Pictures lie in the page cache. Ours is bench_micro on the same files.
"""
import argparse
from pathlib import Path

import measure

SIDE, WIDTH, HEIGHT = 1024, 2000, 1500


def make_pictures(folder, count):
    """Waves of many lengths with noise as a camera has it."""
    import numpy as np
    from PIL import Image
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    for i in range(count):
        path = folder / f"{i:03}.jpg"
        if path.exists():
            continue
        waves = [np.sin(x * random.uniform(0.003, 0.2) + i) + np.cos(y * random.uniform(0.003, 0.2)) + np.sin(x * y * random.uniform(1e-6, 1e-4))
                 for _ in range(3)]
        pixels = 128 + 35 * np.stack(waves, -1) + random.normal(0, 3, (HEIGHT, WIDTH, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def to_tensor(pixels):
    import numpy as np
    return np.ascontiguousarray(pixels.transpose(2, 0, 1).astype(np.float32) / 127.5 - 1)


def load_pillow(path):
    import numpy as np
    from PIL import Image
    image = Image.open(path).convert("RGB")
    scale = max(SIDE / image.width, SIDE / image.height)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.BILINEAR)
    left, top = (image.width - SIDE) // 2, (image.height - SIDE) // 2
    return to_tensor(np.asarray(image.crop((left, top, left + SIDE, top + SIDE))))


def load_opencv(path):
    import cv2
    cv2.setNumThreads(1)
    image = cv2.imread(str(path))
    scale = max(SIDE / image.shape[1], SIDE / image.shape[0])
    image = cv2.resize(image, (round(image.shape[1] * scale), round(image.shape[0] * scale)), interpolation=cv2.INTER_AREA)
    left, top = (image.shape[1] - SIDE) // 2, (image.shape[0] - SIDE) // 2
    return to_tensor(cv2.cvtColor(image[top:top + SIDE, left:left + SIDE], cv2.COLOR_BGR2RGB))


LOADERS = {"Pillow": load_pillow, "OpenCV": load_opencv}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--peer", choices=LOADERS)
    args = parser.parse_args()
    folder = measure.SCRATCH / f"pictures-{args.pictures}"
    if args.peer:
        return print(measure.cpu_per_file(LOADERS[args.peer], sorted(folder.glob("*.jpg"))))
    make_pictures(folder, args.pictures)
    times = measure.loaders_in_turn(Path(__file__), ["--pictures", args.pictures], LOADERS, "folder", args.alternations,
                                    BURNISH_BENCH_PICTURES=str(folder))
    measure.record_loaders(
        "pictures", "Pictures to tensors", f"./dev bench pictures --pictures {args.pictures} --alternations {args.alternations}",
        f"{args.pictures} JPEGs of {WIDTH}x{HEIGHT} to {SIDE}x{SIDE} float32, one thread, CPU time, medians of {args.alternations} runs in turn.",
        {f"JPEG, {WIDTH}x{HEIGHT}": times})


if __name__ == "__main__":
    main()
