#!/usr/bin/env python3
"""Renders emoji as 48x48 pictures with their Unicode names as captions.

    make_pictures.py --style noto|symbola --split base|lora|held_out --out DIR

Styles: Noto Color Emoji (Debian fonts-noto-color-emoji) and Symbola's line art (Debian fonts-symbola).
Splits: base is every selected character; lora and held_out are two disjoint handfuls that both fonts draw.
Writes 0000.png ... and metadata.csv (image,prompt) to DIR. Needs Pillow.
"""
import argparse, csv, pathlib, sys, unicodedata
from PIL import Image, ImageDraw, ImageFont

SIZE = 48
FONTS = {
    "noto": ("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf", 109),
    "symbola": ("/usr/share/fonts/truetype/ancient-scripts/Symbola_hint.ttf", 96),
}
LORA = "😀😎🐶🐱🐟🦋🍎🍕🌵🌲⚽🚗🏠🎁🔔☂"
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
    chars = [chr(c) for first, last in RANGES for c in range(first, last + 1)] + list(EXTRA)
    return [c for c in dict.fromkeys(chars) if unicodedata.name(c, "")]


def caption(char):
    name = unicodedata.name(char).lower().replace("-", " ")
    for old, new in (("black ", ""), ("heavy ", ""), ("white medium ", "")):
        name = name.replace(old, new)
    return name


def render(char, style):
    """The glyph, cropped to its ink and centred on white with a small margin; None when the font has no such glyph."""
    path, size = FONTS[style]
    font = ImageFont.truetype(path, size)
    canvas = Image.new("RGBA", (size * 2, size * 2), (255, 255, 255, 0))
    ImageDraw.Draw(canvas).text((size // 2, size // 3), char, font=font, embedded_color=True, fill=(20, 20, 40, 255))
    box = canvas.getchannel("A").getbbox()
    if box is None:
        return None
    ink = canvas.crop(box)
    side = int(max(ink.size) * 1.08)
    square = Image.new("RGBA", (side, side), (255, 255, 255, 255))
    square.alpha_composite(ink, ((side - ink.width) // 2, (side - ink.height) // 2))
    return square.convert("RGB").resize((SIZE, SIZE), Image.LANCZOS)


def covered(style):
    from fontTools.ttLib import TTFont
    return set(TTFont(FONTS[style][0], fontNumber=0).getBestCmap())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--style", choices=FONTS, required=True)
    p.add_argument("--split", choices=["base", "lora", "held_out"], default="base")
    p.add_argument("--out", type=pathlib.Path, required=True)
    args = p.parse_args()
    if not pathlib.Path(FONTS[args.style][0]).exists():
        sys.exit(f"{FONTS[args.style][0]} is missing: install Debian's fonts-noto-color-emoji and fonts-symbola")
    args.out.mkdir(parents=True, exist_ok=True)
    known = covered(args.style)
    chosen = {"base": characters(), "lora": list(LORA), "held_out": list(HELD_OUT)}[args.split]
    rows = []
    for char in chosen:
        picture = render(char, args.style) if ord(char) in known else None
        if picture is None:
            continue
        name = f"{len(rows):04d}.png"
        picture.save(args.out / name)
        rows.append((name, caption(char)))
    with open(args.out / "metadata.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(("image", "prompt"))
        writer.writerows(rows)
    print(f"{len(rows)} pictures in {args.out}")


if __name__ == "__main__":
    main()
