"""Pictures as Pillow reads and resizes them -> data/* and data.safetensors.

data/<name> are the pictures; "pixels.<name>" is what decoding must give as uint8 [H, W, 3]: Pillow's pixels, upright, over white.
"resize.<source>.<height>x<width>" is source "source.<source>" scaled to cover that size with Pillow's bilinear filter (antialiased when
it shrinks) and cut at the centre, as DiffSynth-Studio prepares pictures.
"""
import pathlib
import struct
import zlib

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "data"
SIZES = [(32, 32), (64, 48), (16, 96), (80, 112), (61, 47), (7, 5)]


def picture(height, width, channels, seed):
    """Smooth colours, an edge, and some noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (5 + c) + c) * np.cos(y / (4 + c)) + 40 * (x + y > height) for c in range(channels)]
    noisy = np.stack(planes, -1) + random.normal(0, 8, (height, width, channels))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def over_white(rgba):
    color, alpha = rgba[..., :3].astype(int), rgba[..., 3:].astype(int)
    return ((color * alpha + (255 - alpha) * 255 + 127) // 255).astype(np.uint8)


def png(width, height, depth, color_type, rows, chunks=()):
    """A PNG written by hand, for what Pillow does not write."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*c) for c in chunks) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block


def jpegs(expected):
    rgb = Image.fromarray(picture(37, 52, 3, 1))
    for name, image, options in [("rgb.jpg", rgb, {"quality": 90, "subsampling": 0}), ("half_color.jpg", rgb, {"quality": 80, "subsampling": 2}),
                                 ("progressive.jpg", rgb, {"quality": 85, "progressive": True}), ("gray.jpg", rgb.convert("L"), {}),
                                 ("cmyk.jpg", Image.fromarray(picture(21, 30, 4, 2), "CMYK"), {"quality": 92})]:
        image.save(FOLDER / name, **options)
        expected[name] = np.asarray(Image.open(FOLDER / name).convert("RGB"))
    for orientation in range(1, 9):
        name = f"exif_{orientation}.jpg"
        Image.fromarray(picture(10, 24, 3, 3)).save(FOLDER / name, exif=exif(orientation), quality=95)
        expected[name] = np.asarray(ImageOps.exif_transpose(Image.open(FOLDER / name)).convert("RGB"))


def pngs(expected):
    rgb = picture(19, 26, 3, 4)
    Image.fromarray(rgb).save(FOLDER / "rgb.png")
    expected["rgb.png"] = rgb
    Image.fromarray(rgb).save(FOLDER / "exif_6.png", exif=exif(6))
    expected["exif_6.png"] = np.rot90(rgb, -1)
    rgba = picture(19, 26, 4, 5)
    rgba[:4, :, 3], rgba[4:8, :, 3] = 0, 255
    Image.fromarray(rgba, "RGBA").save(FOLDER / "rgba.png")
    expected["rgba.png"] = over_white(rgba)
    gray_alpha = picture(12, 12, 2, 6)
    Image.fromarray(gray_alpha, "LA").save(FOLDER / "gray_alpha.png")
    expected["gray_alpha.png"] = over_white(np.asarray(Image.fromarray(gray_alpha, "LA").convert("RGBA")))
    palette = Image.fromarray(rgb).quantize(16)
    palette.save(FOLDER / "palette.png", transparency=bytes([0, 128, 255, 64]))
    expected["palette.png"] = over_white(np.asarray(Image.open(FOLDER / "palette.png").convert("RGBA")))
    Image.fromarray(rgb[..., 0] > 120).save(FOLDER / "one_bit.png")
    expected["one_bit.png"] = np.asarray(Image.open(FOLDER / "one_bit.png").convert("RGB"))

    # 16 bits a sample: the upper byte is the 8-bit value.
    wide = np.random.default_rng(7).integers(0, 65536, (9, 14, 3), dtype=np.uint16)
    (FOLDER / "rgb_16.png").write_bytes(png(14, 9, 16, 2, [row.astype(">u2").tobytes() for row in wide]))
    expected["rgb_16.png"] = np.asarray(Image.open(FOLDER / "rgb_16.png").convert("RGB"))
    assert (expected["rgb_16.png"] == wide >> 8).all()
    (FOLDER / "gray_16.png").write_bytes(png(14, 9, 16, 0, [row.astype(">u2").tobytes() for row in wide[..., 0]]))
    expected["gray_16.png"] = np.repeat(wide[..., :1] >> 8, 3, -1).astype(np.uint8)


def webps(expected):
    rgb = picture(23, 31, 3, 8)
    Image.fromarray(rgb).save(FOLDER / "lossy.webp", quality=80)
    expected["lossy.webp"] = np.asarray(Image.open(FOLDER / "lossy.webp").convert("RGB"))
    rgba = picture(23, 31, 4, 9)
    Image.fromarray(rgba, "RGBA").save(FOLDER / "rgba.webp", lossless=True, exact=True)
    expected["rgba.webp"] = over_white(rgba)
    Image.fromarray(rgb).save(FOLDER / "exif_8.webp", lossless=True, exif=exif(8))
    expected["exif_8.webp"] = np.rot90(rgb, 1)
    frames = [Image.fromarray(picture(16, 20, 3, seed)) for seed in (10, 11, 12)]
    frames[0].save(FOLDER / "animated.webp", save_all=True, append_images=frames[1:], duration=100, lossless=True)
    expected["animated.webp"] = np.asarray(frames[0])


def crop_and_resize(image, height, width):
    scale = max(width / image.width, height / image.height)
    cover = max(round(image.width * scale), width), max(round(image.height * scale), height)
    image = image.resize(cover, Image.Resampling.BILINEAR)
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def main():
    FOLDER.mkdir(exist_ok=True)
    expected, tensors = {}, {}
    jpegs(expected)
    pngs(expected)
    webps(expected)
    for name, pixels in expected.items():
        tensors[f"pixels.{name}"] = torch.from_numpy(np.array(pixels, order="C"))
    for name, (height, width) in {"landscape": (61, 94), "portrait": (83, 47), "tiny": (3, 4)}.items():
        source = picture(height, width, 3, 13)
        tensors[f"source.{name}"] = torch.from_numpy(source)
        for h, w in SIZES:
            tensors[f"resize.{name}.{h}x{w}"] = torch.from_numpy(np.array(crop_and_resize(Image.fromarray(source), h, w)))
    save_file(tensors, str(HERE / "data.safetensors"))


main()
