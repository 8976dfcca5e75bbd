"""A dataset as the package webdataset writes it, and one in tar's other dialects -> data/tars/*.tar."""
import io
import pathlib
import tarfile

import numpy as np
import webdataset
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "data/tars"


def picture(i):
    pixels = np.full((32, 48, 3), 40 * i, np.uint8)
    pixels[: 8 * (i + 1)] = 255 - 40 * i
    return Image.fromarray(pixels)


def png(i):
    bytes_ = io.BytesIO()
    picture(i).save(bytes_, "png")
    return bytes_.getvalue()


def add(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def main():
    FOLDER.mkdir(exist_ok=True, parents=True)
    with webdataset.TarWriter(str(FOLDER / "shard-000000.tar"), mtime=0, user="root", group="root") as sink:
        sink.write({"__key__": "000000", "png": picture(0), "txt": "a black square"})
        sink.write({"__key__": "000001", "png": picture(1), "json": {"caption": "a dark square", "width": 48}})
    mask = io.BytesIO()
    picture(0).convert("L").point(lambda value: 255 if value > 127 else 0).save(mask, "png")
    captions = [{"text": "a black square", "weight": 3}, {"text": "a square", "weight": 1}]
    with webdataset.TarWriter(str(FOLDER / "masked-000000.tar"), mtime=0, user="root", group="root") as sink:
        sink.write({"__key__": "000000", "png": picture(0), "mask.png": mask.getvalue(), "json": {"caption": captions, "loss_weight": 0.5}})
    long_name = "photographs of squares, " * 5 + "every one/0002"
    for name, dialect in {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT, "ustar": tarfile.USTAR_FORMAT}.items():
        with tarfile.open(FOLDER / f"{name}.tar", "w", format=dialect) as archive:
            folder = tarfile.TarInfo("squares")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            add(archive, f"squares/{long_name}.png", png(2))
            add(archive, f"squares/{long_name}.txt", b"a grey square")
            add(archive, "./brighter.png", png(3))
            add(archive, "./brighter.txt", "a brighter square, très clair".encode())
    with tarfile.open(FOLDER / "outside.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("/etc/hostname.png", "../../secret.png", "inside.png"):
            add(archive, name, png(1))
            add(archive, name.replace(".png", ".txt"), name.encode())


main()
