"""Bucket lists and the sizes of pictures, computed anew in doubles from the published rules -> data/buckets.json.

Kohya's rule is sd-scripts' (library/model_util.py, make_bucket_resolutions; library/train_util.py, BucketManager.select_bucket), the other
OneTrainer's (mgds, AspectBucketing). Fractions take the place of square roots' last bits nowhere: both programs compute in doubles.
"""
import json
import math
import pathlib
import random

HERE = pathlib.Path(__file__).parent
SHAPES = [1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4]


def kohya_list(width, height, least, most, step):
    area = width * height
    square = int(math.sqrt(area) // step) * step
    sizes = {(square, square)}
    for side in range(least, most + 1, step):
        other = min(most, area // side // step * step)
        if other >= least:
            sizes |= {(side, other), (other, side)}
    return sorted(sizes)


def onetrainer_list(side, step):
    sizes = set()
    for shape in SHAPES:
        short, long = (round(x / math.sqrt(shape) * side / step) * step for x in (1, shape))
        sizes |= {(short, long), (long, short)}
    return sorted(sizes)


def nearest(sizes, ratio, of):
    return min(sizes, key=lambda size: abs(of(size) - ratio))


def kohya_own(width, height, area, step):
    """Without upscaling: the picture's own size."""
    if width * height > area:
        ratio = width / height
        new_width = math.sqrt(area * ratio)
        new_height = area / new_width
        steps = lambda side: int(side + 0.5) // step * step
        w1, h2 = steps(new_width), steps(new_height)
        h1, w2 = steps(w1 / ratio), steps(h2 * ratio)
        if abs(w1 / h1 - ratio) < abs(w2 / h2 - ratio):
            width, height = w1, int(w1 / ratio + 0.5)
        else:
            width, height = int(h2 * ratio + 0.5), h2
    return width // step * step, height // step * step


def main():
    random.seed(7)
    pictures = [(random.randint(280, 4000), random.randint(280, 4000)) for _ in range(200)] + [(1024, 1024), (768, 1344), (512, 300)]
    lists = []
    for width, height, least, most, step in [(1024, 1024, 256, 2048, 64), (512, 512, 256, 1024, 64), (768, 512, 320, 960, 64),
                                             (1024, 1024, 512, 1536, 32), (640, 640, 256, 1024, 16)]:
        sizes = kohya_list(width, height, least, most, step)
        chosen = [p if p in sizes else nearest(sizes, p[0] / p[1], lambda s: s[0] / s[1]) for p in pictures]
        own = [kohya_own(*p, width * height, step) for p in pictures]
        lists.append({"rule": "kohya", "resolution": [width, height], "least": least, "most": most, "step": step, "sizes": sizes,
                      "upscaled": chosen, "own": own})
    for side, step in [(512, 64), (1024, 64), (768, 16)]:
        sizes = onetrainer_list(side, step)
        chosen = [nearest(sizes, p[1] / p[0], lambda s: s[1] / s[0]) for p in pictures]
        own = [c if c[0] <= p[0] and c[1] <= p[1] else kohya_own(*p, side * side, step) for c, p in zip(chosen, pictures)]
        lists.append({"rule": "onetrainer", "resolution": [side, side], "least": 256, "most": 1024, "step": step, "sizes": sizes,
                      "upscaled": chosen, "own": own})
    (HERE / "data/buckets.json").write_text(json.dumps({"pictures": pictures, "lists": lists}, separators=(",", ":")) + "\n")


main()
