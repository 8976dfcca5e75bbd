#!/usr/bin/env python3
"""How long Burnish Studio lets one wait: with many runs, and with many pictures in a dataset.

usage: python3 benchmarks/studio.py [--runs 50] [--pictures 10000]

Makes a workspace in a temporary folder, whose runs have logs of 5000 steps, and opens it in headless Chromium. Of each page it prints when
something is first painted and when all that is in sight is there, the first time and once more, and at the end the memory of the server.
"""
import argparse, json, os, pathlib, re, struct, subprocess, sys, tempfile, time, urllib.request, zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/browser"))
from browser import Browser  # noqa: E402

BURNISH = os.path.abspath(os.environ.get("BURNISH", "build/burnish"))
NUM_STEPS = 5000


def png(path, number, side=64):
    """A picture of one color, another for each number."""
    row = b"\0" + bytes([number % 256, number // 256 % 256, number * 7 % 256]) * side
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(row * side)) + chunk(b"IEND", b""))


def make_workspace(root, num_runs, num_pictures):
    log = "".join(json.dumps({"step": i + 1, "loss": 1 / (i + 1), "lr": 1e-4, "step_seconds": 0.5, "time": 1.7e9 + i}) + "\n" for i in range(NUM_STEPS))
    for i in range(num_runs):
        run = root / f"runs/run {i:03}"
        (run / "previews").mkdir(parents=True)
        (run / "config.toml").write_text('model = ["model"]\n')
        (run / "log.jsonl").write_text(log)
    pictures = root / "datasets/many"
    pictures.mkdir(parents=True)
    for i in range(num_pictures):
        png(pictures / f"{i:05}.png", i)
        (pictures / f"{i:05}.txt").write_text(f"a color, number {i}\n")


def seconds_of(request):
    begun = time.monotonic()
    with urllib.request.urlopen(request) as answer:
        num_bytes = len(answer.read())
    return time.monotonic() - begun, num_bytes


def seconds_to(browser, address, is_there):
    """[first paint, all in sight] after the page was asked for."""
    browser.call("Page.navigate", url="about:blank")
    begun = time.monotonic()
    browser.call("Page.navigate", url=address)
    while not browser.evaluate(is_there):
        time.sleep(0.005)
    there = time.monotonic() - begun
    browser.wait("performance.getEntriesByType('paint').length > 0")
    return browser.evaluate("performance.getEntriesByType('paint')[0].startTime") / 1000, there


def main():
    parser = argparse.ArgumentParser(description="Waiting times of Burnish Studio.")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--pictures", type=int, default=10000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make_workspace(root, given.runs, given.pictures)
        studio = subprocess.Popen([BURNISH, "studio", str(root), "--port", "0", "--no_browser"], stdout=subprocess.PIPE, text=True)
        try:
            address = studio.stdout.readline().strip()
            host, token = re.match(r"(http://[^/]+)/\?token=(\w+)", address).groups()
            for path in ("runs", "datasets/many/items"):
                request = urllib.request.Request(f"{host}/api/{path}", headers={"Authorization": f"Bearer {token}"})
                times = [seconds_of(request) for _ in range(3)]
                print(f"GET /api/{path}: {times[0][1] / 1024:.0f} KiB; {times[0][0] * 1000:.0f} ms, then {min(t for t, _ in times[1:]) * 1000:.0f} ms")
            with Browser() as browser:
                browser.open(address)
                pages = (("runs", "#/", f"document.querySelectorAll('.run').length === {given.runs}"),
                         ("a run", "runs/run%20000/", "document.querySelectorAll('#charts svg').length > 0"),
                         ("a dataset", "#/data?set=many", "document.querySelectorAll('.thumb-box img').length > 10 && [...document.querySelectorAll('.thumb-box img')].every(one => one.complete && one.naturalWidth > 0)"))
                for name, path, is_there in pages:
                    for turn in ("first", "again"):
                        paint, there = seconds_to(browser, f"{host}/{path}", is_there)
                        print(f"{name}, {turn}: something is painted after {paint * 1000:.0f} ms, all in sight is there after {there * 1000:.0f} ms")
            status = pathlib.Path(f"/proc/{studio.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # KiB
            print(f"the server's memory at its peak: {peak / 1024:.0f} MiB")
        finally:
            studio.terminate()
            studio.wait()


if __name__ == "__main__":
    main()
