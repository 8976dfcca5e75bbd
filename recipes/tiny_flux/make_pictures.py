#!/usr/bin/env python3
"""Renders emoji as square pictures with their Unicode names as captions.

    make_pictures.py --style STYLE [STYLE ...] --split all|lora|held_out --out DIR [--size 48]

Styles, all drawn from Noto Color Emoji (Debian fonts-noto-color-emoji): colour as the font has them; crayon, their edges in their own colours;
silhouette; grey; block, the means of 24 x 24 squares; square, the same in brighter colours with a dark outline; pixel, pixel art: 24 x 24 squares
in five colours of the picture's own with a dark outline. Captions are the name alone for colour, "crayon NAME" and so on for the others. pixel,
which the base model does not know, goes by the name alone as well.
Splits: all selected characters, held_out a dozen of them, lora all the others.
Writes 0000.png ... and metadata.csv (image,prompt) to DIR. Needs Pillow, numpy and fontTools.
"""
import argparse, csv, pathlib, sys, unicodedata
import numpy as np
from fontTools.ttLib import TTFont
from PIL import Image, ImageDraw, ImageFilter, ImageFont

WORK = 192  # pixels of a side while a picture is drawn
SQUARES, TINTS = 24, 5  # of a side in pixel art, and of a picture
FONT, FONT_SIZE = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf", 109
INK = np.array([20, 20, 40]) / 255
HELD_OUT = "😍😡🐰🐻🐙🐝🍓🍔🌹🍄🚲🎈"
# Ranges of pictures that are recognisable when small; flags, hands, people, clocks and signs are left out.
RANGES = [
    (0x1F600, 0x1F644), (0x1F910, 0x1F917), (0x1F920, 0x1F925), (0x1F970, 0x1F976),
    (0x1F400, 0x1F43F), (0x1F980, 0x1F9A2), (0x1F9A5, 0x1F9A9),
    (0x1F330, 0x1F370), (0x1F37A, 0x1F37A), (0x1F382, 0x1F384), (0x1F950, 0x1F95D), (0x1F965, 0x1F96A), (0x1F9C0, 0x1F9C1),
    (0x1F308, 0x1F308), (0x1F30A, 0x1F30B), (0x1F30D, 0x1F30D), (0x1F319, 0x1F319), (0x1F31E, 0x1F31F),
    (0x1F380, 0x1F381), (0x1F388, 0x1F388), (0x1F393, 0x1F393), (0x1F3A8, 0x1F3A9), (0x1F3AE, 0x1F3B2), (0x1F3B5, 0x1F3B5), (0x1F3B7, 0x1F3BB),
    (0x1F3C0, 0x1F3C0), (0x1F3E0, 0x1F3E0), (0x1F3F0, 0x1F3F0), (0x1F451, 0x1F45F), (0x1F48D, 0x1F48E), (0x1F493, 0x1F49D),
    (0x1F4A1, 0x1F4A3), (0x1F4A5, 0x1F4A5), (0x1F4A9, 0x1F4A9), (0x1F4D6, 0x1F4DA), (0x1F4DE, 0x1F4DE), (0x1F4F7, 0x1F4FB),
    (0x1F50B, 0x1F50D), (0x1F511, 0x1F514), (0x1F525, 0x1F528), (0x1F5FB, 0x1F5FE), (0x1F680, 0x1F682), (0x1F68C, 0x1F68C), (0x1F691, 0x1F697),
    (0x1F69A, 0x1F69C), (0x1F6B2, 0x1F6B2), (0x1F9E9, 0x1F9E9), (0x1F9F2, 0x1F9F2), (0x1F9F8, 0x1F9F8),
]
EXTRA = "☀☁☂☃☎☕☘⚓⚡⚽⛵⛺✂✈✏❄❤⭐"


def characters():
    """Those that Python knows a name of and the font a picture."""
    chars = [chr(c) for first, last in RANGES for c in range(first, last + 1)] + list(EXTRA)
    drawn = TTFont(FONT).getBestCmap()
    return [c for c in dict.fromkeys(chars) if unicodedata.name(c, "") and ord(c) in drawn]


def caption(char):
    name = unicodedata.name(char).lower().replace("-", " ")
    for old, new in (("black ", ""), ("heavy ", ""), ("white medium ", "")):
        name = name.replace(old, new)
    return name


def glyph(char):
    """Its ink in the middle of a transparent square with a small margin: colours over white [h, w, 3] and opacity [h, w], 0 to 1."""
    font = ImageFont.truetype(FONT, FONT_SIZE)
    canvas = Image.new("RGBA", (FONT_SIZE * 2, FONT_SIZE * 2), (255, 255, 255, 0))
    ImageDraw.Draw(canvas).text((FONT_SIZE // 2, FONT_SIZE // 3), char, font=font, embedded_color=True)
    ink = canvas.crop(canvas.getchannel("A").getbbox())
    side = int(max(ink.size) * 1.08)
    square = Image.new("RGBA", (side, side), (255, 255, 255, 0))
    square.paste(ink, ((side - ink.width) // 2, (side - ink.height) // 2))
    pixels = np.asarray(square.resize((WORK, WORK), Image.LANCZOS)).astype(float) / 255
    opacity = pixels[..., 3]
    return pixels[..., :3] * opacity[..., None] + 1 - opacity[..., None], opacity


def filtered(plane, along_rows, along_columns):
    for kernel in (along_rows, along_columns):
        reach = len(kernel) // 2
        padded = np.pad(plane, ((0, 0), (reach, reach)), mode="symmetric")
        plane = np.apply_along_axis(np.convolve, 1, padded, kernel, mode="valid").T
    return plane


def bell(sigma):
    x = np.arange(-int(4 * sigma + 0.5), int(4 * sigma + 0.5) + 1)
    weights = np.exp(-x**2 / (2 * sigma**2))
    return weights / weights.sum(), -x / sigma**2 * weights / weights.sum()


def steepness(plane):
    """The length of the gradient of a plane, smoothed by two pixels."""
    smooth, slope = bell(2)
    return np.hypot(filtered(plane, slope, smooth), filtered(plane, smooth, slope))


def edges(colours, opacity):
    steep = np.maximum(sum(steepness(colours[..., k]) for k in range(3)), 3 * steepness(opacity))
    smooth, _ = bell(0.7)
    return filtered(np.clip((steep - 0.06) / 0.12, 0, 1), smooth, smooth)[..., None]


def luminance(colours):
    return colours @ [0.3, 0.59, 0.11]


def crayon(colours, opacity):
    image = Image.fromarray((colours * 255).astype(np.uint8)).filter(ImageFilter.MinFilter(9))
    return 1 - edges(colours, opacity) * (1 - 0.85 * np.asarray(image) / 255)


def silhouette(colours, opacity):
    return 1 - opacity[..., None] * (1 - INK)


def grey(colours, opacity):
    light = luminance(colours)
    return np.repeat((0.8 * light + 0.2 * (light > 0.97))[..., None], 3, axis=-1)


def in_squares(colours, opacity):
    """Means of SQUARES x SQUARES squares: the glyph's own colours, where it is, and where its outline of one square is."""
    square = WORK // SQUARES
    mean = lambda plane: plane.reshape(SQUARES, square, SQUARES, square, -1).mean((1, 3))
    covered = mean(opacity)
    own = np.clip(mean(colours - 1 + opacity[..., None]) / np.maximum(covered, 1e-3), 0, 1)
    inside = np.pad(covered[..., 0] > 0.4, 1)
    beside = inside[:-2, 1:-1] | inside[2:, 1:-1] | inside[1:-1, :-2] | inside[1:-1, 2:]
    return own, inside[1:-1, 1:-1, None], beside[..., None]


def enlarged(squares):
    return np.kron(squares, np.ones((WORK // SQUARES, WORK // SQUARES, 1)))


def block(colours, opacity):
    own, inside, _ = in_squares(colours, opacity)
    return enlarged(np.where(inside, own, 1))


def square(colours, opacity):
    own, inside, beside = in_squares(colours, opacity)
    return enlarged(np.where(inside, np.round(np.clip(1.25 * own - 0.1, 0, 1) * 4) / 4, np.where(beside, INK, 1)))


def pixel(colours, opacity):
    own, inside, beside = in_squares(colours, opacity)
    own = (own * 255).astype(np.uint8)
    palette = Image.fromarray(own[inside[..., 0]][None]).quantize(TINTS, method=Image.MEDIANCUT, kmeans=2).getpalette()
    tints = np.array(palette[:3 * TINTS]).reshape(-1, 3)
    nearest = ((own[:, :, None].astype(int) - tints) ** 2).sum(-1).argmin(-1)
    return enlarged(np.where(inside, tints[nearest] / 255, np.where(beside, INK, 1)))


STYLES = {"colour": lambda colours, opacity: colours, "crayon": crayon, "silhouette": silhouette, "grey": grey, "block": block, "square": square,
          "pixel": pixel}
WORDS = {"colour": "", "pixel": ""}  # before a name; the style's own otherwise


def render(char, style, size):
    pixels = np.clip(STYLES[style](*glyph(char)), 0, 1)
    return Image.fromarray((pixels * 255).astype(np.uint8)).resize((size, size), Image.LANCZOS)


def prompt(char, style):
    return WORDS.get(style, style + " ") + caption(char)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--style", choices=STYLES, nargs="+", required=True)
    p.add_argument("--split", choices=["all", "lora", "held_out"], default="all")
    p.add_argument("--size", type=int, default=48, help="pixels of a side (48)")
    p.add_argument("--out", type=pathlib.Path, required=True)
    args = p.parse_args()
    if not pathlib.Path(FONT).exists():
        sys.exit(f"{FONT} is missing: install Debian's fonts-noto-color-emoji")
    args.out.mkdir(parents=True, exist_ok=True)
    chosen = list(HELD_OUT) if args.split == "held_out" else [c for c in characters() if args.split == "all" or c not in HELD_OUT]
    rows = []
    for char, style in ((c, s) for c in chosen for s in args.style):
        rows.append((f"{len(rows):04d}.png", prompt(char, style)))
        render(char, style, args.size).save(args.out / rows[-1][0])
    with open(args.out / "metadata.csv", "w", newline="") as f:
        csv.writer(f).writerows([("image", "prompt"), *rows])
    print(f"{len(rows)} pictures in {args.out}")


if __name__ == "__main__":
    main()
