#!/usr/bin/env python3
"""Renders emoji in motion as clips of 17 frames at 16 frames a second, 64 x 64 pixels, with captions like "fox face sliding left".

    make_clips.py --motion MOTION [MOTION ...] [--split all|known|lora|held_out] [--takes N] --out DIR

Motions: standing, sliding left, sliding right, growing, falling; and hopping, which the base model does not know: up and down again, squashed at the ground.
Splits: all characters; known, thirty of them; of these lora, a dozen, which the demo trains on, and held_out, six others that it draws. Each take of
a motion has another size and path. Writes 0000.webp ... and metadata.csv (video,prompt) to DIR. Needs Pillow and fontTools.
"""
import argparse, csv, math, pathlib, random, sys, unicodedata
from fontTools.ttLib import TTFont
from PIL import Image, ImageDraw, ImageFont

SIZE, FRAMES, WORK = 64, 17, 4  # of a clip; and how much larger it is drawn
TIMES = [62 if frame % 2 == 0 else 63 for frame in range(FRAMES)]  # milliseconds: 16 frames a second
FONT, FONT_SIZE = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf", 109
LORA = "🐶🐵🐮🐯🐸🐔🦁🐌🍎🍅🚗🐠"
HELD_OUT = "🦊🐱🐷🐧🍓🐢"
KNOWN = LORA + HELD_OUT + "🐼🐰🐻🦉🐳🍉🍇🎃🚀🌻🤖👻"  # what the model draws well
# Pictures that are recognisable when small: animals, food, things that move.
RANGES = [(0x1F400, 0x1F43F), (0x1F980, 0x1F9A2), (0x1F345, 0x1F353), (0x1F354, 0x1F355), (0x1F366, 0x1F36A), (0x1F680, 0x1F680), (0x1F695, 0x1F697),
          (0x1F332, 0x1F335), (0x1F337, 0x1F33B), (0x1F600, 0x1F606), (0x1F383, 0x1F383), (0x1F388, 0x1F388), (0x1F47B, 0x1F47B), (0x1F916, 0x1F916)]


def characters():
    drawn = TTFont(FONT).getBestCmap()
    return [c for c in map(chr, (c for first, last in RANGES for c in range(first, last + 1))) if unicodedata.name(c, "") and ord(c) in drawn]


def name_of(char):
    return unicodedata.name(char).lower().replace("-", " ")


def glyph(char):
    """Its ink alone, at the font's size."""
    canvas = Image.new("RGBA", (FONT_SIZE * 2, FONT_SIZE * 2), (255, 255, 255, 0))
    ImageDraw.Draw(canvas).text((FONT_SIZE // 2, FONT_SIZE // 3), char, font=ImageFont.truetype(FONT, FONT_SIZE), embedded_color=True)
    return canvas.crop(canvas.getchannel("A").getbbox())


def place(x, y, size, width=1.0, height=1.0):
    """Where a picture's middle is, from 0 to 1 over the frame; its side in pixels; how it is stretched."""
    return x, y, size, width, height


def standing(chance):
    x, y, size = chance.uniform(0.35, 0.65), chance.uniform(0.35, 0.65), chance.uniform(30, 38)
    return lambda t: place(x, y, size, 1, 1 + 0.12 * math.sin(2 * math.pi * t))  # it breathes


def sliding(chance, sign):
    y, size, reach = chance.uniform(0.35, 0.65), chance.uniform(30, 36), chance.uniform(0.18, 0.24)
    return lambda t: place(0.5 + sign * reach * (2 * t - 1), y, size)


def growing(chance):
    x, y, first, last = chance.uniform(0.42, 0.58), chance.uniform(0.42, 0.58), chance.uniform(18, 24), chance.uniform(42, 50)
    return lambda t: place(x, y, first + (last - first) * t)


def falling(chance):
    x, size, reach = chance.uniform(0.35, 0.65), chance.uniform(30, 36), chance.uniform(0.18, 0.24)
    return lambda t: place(x, 0.5 + reach * (2 * t - 1), size)


def hopping(chance):
    x, size, reach = chance.uniform(0.42, 0.58), chance.uniform(31, 35), chance.uniform(0.34, 0.4)

    def at(t):
        rise = 4 * t * (1 - t)
        height = 0.88 + 0.16 * rise  # it is squashed where it starts and lands
        return place(x, 0.7 - reach * rise, size, 2 - height, height)

    return at


MOTIONS = {"standing": standing, "sliding left": lambda chance: sliding(chance, -1), "sliding right": lambda chance: sliding(chance, 1), "growing": growing,
           "falling": falling, "hopping": hopping}


def render(ink, path, t):
    """One frame of a path, over white."""
    x, y, size, width, height = path(t)
    scale = size * WORK / max(ink.size)
    picture = ink.resize((max(1, round(ink.width * scale * width)), max(1, round(ink.height * scale * height))), Image.BICUBIC)
    frame = Image.new("RGBA", (SIZE * WORK, SIZE * WORK), (255, 255, 255, 255))
    at = (round(x * SIZE * WORK - picture.width / 2), round(y * SIZE * WORK - picture.height / 2))
    layer = Image.new("RGBA", frame.size, (255, 255, 255, 0))
    layer.paste(picture, at)
    return Image.alpha_composite(frame, layer).convert("RGB").resize((SIZE, SIZE), Image.BOX)


def write_clip(file, ink, path):
    frames = [render(ink, path, i / (FRAMES - 1)) for i in range(FRAMES)]
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=TIMES, loop=0, lossless=True, quality=20, method=0, minimize_size=False)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--motion", choices=MOTIONS, nargs="+", required=True)
    p.add_argument("--split", choices=["all", "known", "lora", "held_out"], default="all")
    p.add_argument("--takes", type=int, default=1)
    p.add_argument("--out", type=pathlib.Path, required=True)
    args = p.parse_args()
    if not pathlib.Path(FONT).exists():
        sys.exit(f"{FONT} is missing: install Debian's fonts-noto-color-emoji")
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for char in {"all": characters(), "known": KNOWN, "lora": LORA, "held_out": HELD_OUT}[args.split]:
        ink = glyph(char)
        for motion in args.motion:
            for take in range(args.takes):
                rows.append((f"{len(rows):04d}.webp", f"{name_of(char)} {motion}"))
                write_clip(args.out / rows[-1][0], ink, MOTIONS[motion](random.Random(f"{char} {motion} {take}")))
    with open(args.out / "metadata.csv", "w", newline="") as f:
        csv.writer(f).writerows([("video", "prompt"), *rows])
    print(f"{len(rows)} clips in {args.out}")


if __name__ == "__main__":
    main()
