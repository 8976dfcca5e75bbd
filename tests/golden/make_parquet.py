"""Datasets with pictures inside as the package datasets writes them, and tables in pyarrow's own types -> data/parquets/*.parquet."""
import io
import pathlib

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "data/parquets"
CAPTIONS = ["a black square", "a dark square", "a grey square, très clair"]


def picture(i, mode="RGB"):
    pixels = np.full((32, 48, 3), 40 * i, np.uint8)
    pixels[: 8 * (i + 1)] = 255 - 40 * i
    return Image.fromarray(pixels).convert(mode)


def png(i, mode="RGB"):
    bytes_ = io.BytesIO()
    picture(i, mode).save(bytes_, "png")
    return bytes_.getvalue()


def write(name, rows, features):
    """By the package's own writer; the fingerprint is given, since computing one pickles what no longer can be."""
    table = datasets.table.InMemoryTable(pyarrow.Table.from_pylist(rows, schema=features.arrow_schema))
    datasets.Dataset(table, info=datasets.DatasetInfo(features=features), fingerprint="0").to_parquet(str(FOLDER / name))


def main():
    FOLDER.mkdir(exist_ok=True, parents=True)
    features = datasets.Features({"image": datasets.Image(), "text": datasets.Value("string"), "loss_weight": datasets.Value("float32"),
                                  "label": datasets.ClassLabel(names=["dark", "light"])})
    rows = [{"image": {"bytes": png(i), "path": f"square_{i}.png"}, "text": CAPTIONS[i], "loss_weight": 0.5 * i, "label": i % 2}
            for i in range(3)]
    write("photos.parquet", rows, features)
    # As push_to_hub names and divides them.
    for shard in range(2):
        write(f"train-{shard:05}-of-00002.parquet", rows[2 * shard : 2 * shard + 2], features)
    write("test-00000-of-00001.parquet", rows[:1], features)
    # Several pictures a row: a mask, lists of references, and rows that lack some.
    several = datasets.Features({"mask": datasets.Image(), "picture": datasets.Image(), "reference_images": datasets.List(datasets.Image()),
                                 "prompt": datasets.List(datasets.Value("string"))})
    rows = [{"picture": {"bytes": png(0), "path": None}, "mask": {"bytes": png(0, "L"), "path": None}, "prompt": ["a square", "a shape"],
             "reference_images": [{"bytes": png(1), "path": None}, {"bytes": png(2), "path": "2.png"}]},
            {"picture": {"bytes": png(1), "path": None}, "mask": None, "prompt": ["a square"], "reference_images": []},
            {"picture": None, "mask": None, "prompt": ["nothing"], "reference_images": None}]
    write("several.parquet", rows, several)
    # What pyarrow knows beyond that, in two row groups and every compression that is common.
    table = pyarrow.table({
        "jpg": pyarrow.array([png(0), b"no picture", png(2)], pyarrow.large_binary()),
        "caption": pyarrow.array(CAPTIONS).dictionary_encode(),
        "size": pyarrow.array([{"width": 48, "sides": [1.5, None]}, {"width": None, "sides": []}, None]),
        "time": pyarrow.array([0, 1, None], pyarrow.timestamp("ms")),
        "ratio": pyarrow.array([1.5, float("nan"), -2.0], pyarrow.float64()),
        "good": pyarrow.array([True, False, None])})
    for compression in ("snappy", "zstd", "gzip", "brotli", "lz4", "none"):
        pyarrow.parquet.write_table(table, FOLDER / f"types_{compression}.parquet", compression=compression, row_group_size=2)


main()
