#!/usr/bin/env python3
"""An archive as img2dataset writes it -> data/tars/img2dataset-00000.tar: pictures of data/ from a server on this machine, one of which is
not there, with captions, one of them empty, and a column of their own. Runs where the package is (`pip install img2dataset`, in an
environment of its own: it asks for other releases than tools/requirements-golden.txt); elsewhere the archive stays as it is.
"""
import csv
import functools
import http.server
import importlib.util
import pathlib
import shutil
import tempfile
import threading

DATA = pathlib.Path(__file__).parent / "data"
ROWS = [("rgb.jpg", "a picture, with colours", 0.5), ("nothing.jpg", "not there", 0.5), ("rgb.png", "très clair", 0.25), ("progressive.jpg", "", 0.5)]


def main():
    from img2dataset import download

    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(DATA))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with open(folder / "urls.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["url", "caption", "punsafe"])
            rows.writerows([f"http://127.0.0.1:{server.server_address[1]}/{picture}", *rest] for picture, *rest in ROWS)
        download(url_list=str(folder / "urls.csv"), input_format="csv", url_col="url", caption_col="caption", save_additional_columns=["punsafe"],
                 output_format="webdataset", output_folder=str(folder / "out"), processes_count=1, thread_count=1, image_size=48, resize_mode="keep_ratio")
        shutil.copy(folder / "out/00000.tar", DATA / "tars/img2dataset-00000.tar")
    server.shutdown()


if __name__ == "__main__":
    if importlib.util.find_spec("img2dataset"):
        main()
    else:
        print("img2dataset is not there; its archive stays as it is")
