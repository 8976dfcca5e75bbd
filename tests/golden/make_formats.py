"""Pictures in further formats as Pillow and its plug-ins read them -> data/formats/* and formats.safetensors.

"pixels.<name>" is what decoding must give as uint8 [H, W, 3]: upright, in sRGB, over white; "alpha.<name>" how opaque it is, where the file
says; "plain.<name>" the same without its colour profile.
"""
import io
import pathlib
import struct
import subprocess

import numpy as np
import pillow_heif
import pillow_jxl
from PIL import Image, ImageCms, ImageOps
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "data/formats"
pillow_heif.register_heif_opener()
PLUG_INS = pillow_heif, pillow_jxl  # the second registers itself


def picture(height, width, channels, seed):
    """Smooth colours and an edge."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (9 + c) + c + seed) * np.cos(y / (8 + c)) + 30 * (x + y > height) for c in range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def over_white(rgba):
    color, alpha = rgba[..., :3].astype(int), rgba[..., 3:].astype(int)
    return ((color * alpha + (255 - alpha) * 255 + 127) // 255).astype(np.uint8)


def icc_profile(space, connection, tags):
    """A profile of version 2 with these tags (https://www.color.org/icc32.pdf)."""
    body, table = b"", struct.pack(">I", len(tags))
    for name, value in tags.items():
        table += struct.pack(">4sII", name, 132 + 12 * len(tags) + len(body), len(value))
        body += value + b"\0" * (-len(value) % 4)
    head = struct.pack(">I4sI4s4s4s12s4s4sI4s4sQI3I4s44s", 128 + len(table) + len(body), b"", 0x02100000, b"prtr" if space == b"CMYK" else b"mntr",
                       space, connection, b"", b"acsp", b"", 0, b"", b"", 0, 0, 0xF6D6, 0x10000, 0xD32D, b"", b"")
    return head + table + body


def gamma_curve(gamma):
    return struct.pack(">4sIIH", b"curv", 0, 1, round(gamma * 256))


def xyz(*values):
    return struct.pack(">4sI3i", b"XYZ ", 0, *(round(v * 65536) for v in values))


def text_tags(name):
    return {b"desc": struct.pack(">4sII", b"desc", 0, len(name) + 1) + name + b"\0" * 80, b"cprt": b"text\0\0\0\0none\0", b"wtpt": xyz(0.9642, 1, 0.8249)}


def profiles():
    """Primaries wider than sRGB's, a gray with another curve, and inks whose mixtures are interpolated between their 16 corners."""
    wide = text_tags(b"wide") | {b"rXYZ": xyz(0.60974, 0.31111, 0.01947), b"gXYZ": xyz(0.20528, 0.62567, 0.06087), b"bXYZ": xyz(0.14919, 0.06322, 0.74457)}
    wide |= {name: gamma_curve(2.2) for name in (b"rTRC", b"gTRC", b"bTRC")}
    gray = text_tags(b"gray") | {b"kTRC": gamma_curve(1.5)}
    ramp = bytes(range(256))
    corners = b""
    for i in range(16):
        c, m, y, k = i >> 3 & 1, i >> 2 & 1, i >> 1 & 1, i & 1
        corners += bytes([round(255 * (1 - 0.25 * c - 0.3 * m - 0.06 * y) * (1 - 0.85 * k)), 128 + (1 - k) * (70 * m - 40 * c), 128 + (1 - k) * (90 * y - 45 * c)])
    lut = struct.pack(">4sI4B9i", b"mft1", 0, 4, 3, 2, 0, 65536, 0, 0, 0, 65536, 0, 0, 0, 65536) + ramp * 4 + corners + ramp * 3
    return {"RGB": icc_profile(b"RGB ", b"XYZ ", wide), "L": icc_profile(b"GRAY", b"XYZ ", gray),
            "CMYK": icc_profile(b"CMYK", b"Lab ", text_tags(b"inks") | {b"A2B0": lut})}


def in_srgb(image, profile):
    """RGB as Little CMS converts it; opacity stays."""
    convert = lambda x: ImageCms.profileToProfile(x, io.BytesIO(profile), ImageCms.createProfile("sRGB"), outputMode="RGB")
    if image.mode != "RGBA":
        return convert(image)
    colors = convert(image.convert("RGB"))
    colors.putalpha(image.getchannel("A"))
    return colors


def main():
    FOLDER.mkdir(exist_ok=True, parents=True)
    rgb, rgba = Image.fromarray(picture(38, 52, 3, 1)), Image.fromarray(picture(24, 30, 4, 2), "RGBA")
    turned = Image.Exif()
    turned[0x0112] = 6
    files = [("rgb.tif", rgb, {"compression": "tiff_lzw"}), ("rgba.tif", rgba, {}), ("gray.tif", rgb.convert("L"), {"compression": "packbits"}),
             ("palette.tif", rgb.quantize(16), {"compression": "tiff_adobe_deflate"}), ("exif_6.tif", rgb, {"tiffinfo": {274: 6}}),
             ("rgb.heic", rgb, {"quality": 95, "chroma": 444}), ("rgba.heic", rgba, {"quality": 95, "chroma": 444}),
             ("exif_6.heic", rgb, {"quality": 95, "chroma": 444, "exif": turned}),
             ("rgb.avif", rgb, {"quality": 95, "subsampling": "4:4:4"}), ("rgb.jxl", rgb, {"lossless": True}),
             ("rgba.jxl", rgba, {"lossless": True}), ("lossy.jxl", rgb, {"quality": 90}),
             ("palette.gif", rgb.quantize(16), {}), ("interlaced.gif", rgb.quantize(40), {"interlace": 1}),
             ("animated.gif", rgb.quantize(16), {"save_all": True, "append_images": [rgb.rotate(90).quantize(16)]}),
             ("transparent.gif", rgb.quantize(16), {"transparency": 3}),
             ("rgb.bmp", rgb, {}), ("gray.bmp", rgb.convert("L"), {}), ("palette.bmp", rgb.quantize(16), {}), ("one_bit.bmp", rgb.convert("1"), {}),
             ("rgba.bmp", rgba, {})]
    icc = profiles()
    inks = Image.fromarray(picture(38, 52, 4, 3), "CMYK")
    for ending, options in {"png": {}, "jpg": {"quality": 100, "subsampling": 0}, "webp": {"lossless": True}, "tif": {},
                            "heic": {"quality": 95, "chroma": 444}, "avif": {"quality": 95, "subsampling": "4:4:4"}}.items():
        files.append((f"wide.{ending}", rgb, options | {"icc_profile": icc["RGB"]}))
    files += [("wide_rgba.png", rgba, {"icc_profile": icc["RGB"]}), ("gray_icc.png", rgb.convert("L"), {"icc_profile": icc["L"]}),
              ("gray_icc.jpg", rgb.convert("L"), {"icc_profile": icc["L"], "quality": 100}), ("inks.jpg", inks, {"icc_profile": icc["CMYK"], "quality": 100}),
              ("wide.jxl", "wide.png", {"icc_profile": icc["RGB"]}),
              ("srgb.png", rgb, {"icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()})]
    tensors = {}
    for name, image, options in files:
        if isinstance(image, str):  # Pillow's plug-in writes no profiles, the program of Debian's libjxl-tools does
            subprocess.run(["cjxl", FOLDER / image, FOLDER / name, "--distance=0"], check=True)
        else:
            image.save(FOLDER / name, **options)
        read = ImageOps.exif_transpose(Image.open(FOLDER / name))
        if "icc_profile" in options:
            tensors[f"plain.{name}"] = np.ascontiguousarray(over_white(np.asarray(read.convert("RGBA"))))
            read = in_srgb(read, read.info["icc_profile"])
        pixels = np.asarray(read.convert("RGBA"))
        tensors[f"pixels.{name}"] = np.ascontiguousarray(over_white(pixels))
        if read.mode == "RGBA" or "transparency" in read.info:
            tensors[f"alpha.{name}"] = np.ascontiguousarray(pixels[..., 3:])
    save_file(tensors, str(HERE / "formats.safetensors"))


main()
