#!/usr/bin/env python3
"""Datasets of Burnish Studio in headless Chromium: `./dev test --browser`.

usage: check_studio_datasets.py FOLDER

Masks by mouse, pen, finger and keys; what settings cut out; what looks the same; an archive, a linked folder, a clip; ten thousand pictures, with the times that they take.
Screenshots of each page, light and dark, wide and narrow, are left in FOLDER, to be looked at.
"""
import json, os, pathlib, shutil, struct, subprocess, sys, tempfile, time, unittest, zipfile, zlib

import check_studio
from browser import Browser

NUM_PICTURES = int(os.environ.get("BURNISH_PICTURES", "10000"))
MOST_MILLISECONDS = 50  # of a frame in the median, on a machine that has other work too


def png(path, width, height, color_at):
    """A picture of colors by place."""
    rows = b"".join(b"\0" + b"".join(bytes(color_at(x, y)) for x in range(width)) for y in range(height))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def waves(seed):
    return lambda x, y: ((x * (seed + 3)) % 256, (y * (2 * seed + 5) + x) % 256, (x * y // (seed + 1)) % 256)


def gray_at(path, share_x, share_y):
    """The value of a gray PNG that was written without interlace, at a place in shares of its sides."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", data[at + 8:at + 16])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    raw, rows, before = zlib.decompress(packed), [], bytes(width)
    for y in range(height):
        kind, line = raw[y * (width + 1)], bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
        for x in range(width):
            left, up, corner = line[x - 1] if x else 0, before[x], before[x - 1] if x else 0
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda one: abs(guess - one))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, nearest)[kind]) % 256
        rows.append(line)
        before = line
    return rows[int(share_y * (height - 1))][int(share_x * (width - 1))]


class Datasets(unittest.TestCase):
    click, type, wait_text, shoot = (getattr(check_studio.TheWay, name) for name in ("click", "type", "wait_text", "shoot"))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.cats = self.folder / "datasets/cats"
        self.cats.mkdir(parents=True)

    def open(self, name="cats"):
        self.studio = check_studio.Studio(self.folder)
        self.addCleanup(self.studio.close)
        self.browser = self.enterContext(Browser())
        self.browser.open(self.studio.address)
        self.browser.evaluate(f"location.hash = '#/data?set={name}'")
        self.browser.wait("document.querySelector('.item') !== null")

    def press(self, label):
        """A press on what is labelled so."""
        found = f"document.querySelector('[aria-label={json.dumps(label)}]')"
        self.browser.wait(f"{found} !== null")
        self.browser.evaluate(f"{found}.click()")

    def box(self, selector):
        return self.browser.evaluate(f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; }})()")

    def at(self, x, y):
        """A place on the canvas, in shares of its sides."""
        left, top, width, height = self.box("canvas.mask")
        return left + x * width, top + y * height

    def pick(self, label, value):
        self.browser.evaluate(f"(() => {{ const box = document.querySelector('select[aria-label={json.dumps(label)}]'); box.value = {json.dumps(value)}; box.dispatchEvent(new Event('change')); }})()")

    def wait(self, is_true, seconds=60):
        end = time.monotonic() + seconds
        while not is_true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_masks(self):
        png(self.cats / "a.png", 320, 240, waves(1))
        (self.cats / "a.txt").write_text("a cat")
        mask = self.cats / "a-masklabel.png"
        self.open()
        self.press("Mask: a.png")
        self.browser.wait("document.querySelector('canvas.mask')?.width === 320")
        self.browser.drag(self.at(0.25, 0.5), self.at(0.3, 0.5))
        pen = dict(pointerType="pen", force=0.5, button="left", buttons=1, clickCount=1)
        for kind, place in (("mousePressed", (0.7, 0.2)), ("mouseMoved", (0.75, 0.2)), ("mouseReleased", (0.75, 0.2))):
            x, y = self.at(*place)
            self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pen)
        for kind, places in (("touchStart", [(0.7, 0.8)]), ("touchMove", [(0.75, 0.8)]), ("touchEnd", [])):
            self.browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=[dict(zip("xy", self.at(*place))) for place in places])
        self.browser.evaluate("document.querySelector('.mask-editor').focus()")
        self.shoot("mask")
        self.click("Save the mask")
        self.wait(mask.exists)
        for place in ((0.28, 0.5), (0.72, 0.2), (0.72, 0.8)):
            self.assertEqual(gray_at(mask, *place), 255, place)
        self.assertEqual(gray_at(mask, 0.5, 0.5), 0)
        self.browser.wait("document.querySelector('.shot .over')?.complete")

        # Erased, inverted, filled, and taken back, by keys alone.
        self.press("Mask: a.png")
        self.browser.wait("document.querySelector('canvas.mask')?.width === 320")
        self.browser.press("e")
        self.browser.drag(self.at(0.25, 0.5), self.at(0.3, 0.5))
        self.browser.press("i")
        self.click("Save the mask")
        self.wait(lambda: gray_at(mask, 0.72, 0.2) == 0)
        self.assertEqual(gray_at(mask, 0.28, 0.5), 255)
        self.press("Mask: a.png")
        self.browser.wait("document.querySelector('canvas.mask')?.width === 320")
        for key in ("f", "c", "f"):
            self.browser.press(key)
        self.browser.evaluate("[...document.querySelectorAll('.mask-editor button')].find(one => one.textContent === 'Undo').click()")
        self.click("Save the mask")
        self.wait(lambda: gray_at(mask, 0.28, 0.5) == 0)
        self.click("Undo")
        self.wait(lambda: gray_at(mask, 0.28, 0.5) == 255)
        self.press("Mask: a.png")
        self.click("Take the mask away")
        self.wait(lambda: not mask.exists())
        self.assertEqual(self.browser.complaints, [])

    def test_cuts(self):
        for name, width, height in (("wide", 512, 256), ("high", 256, 512), ("small", 40, 40), ("left", 96, 64)):
            png(self.cats / f"{name}.png", width, height, waves(2))
            (self.cats / f"{name}.txt").write_text("a cat")
        (self.cats / ".excluded").mkdir()
        (self.cats / "left.png").rename(self.cats / ".excluded/left.png")
        self.open()
        self.browser.evaluate("location.hash = '#/new'")
        self.type("#toml", f'model = ["{check_studio.MODEL}"]\ndataset_base_path = "../datasets/cats"\nenable_bucket = true\nresolution = ["128"]\nmin_bucket_reso = 64\n'
                           'bucket_reso_steps = 32\nbucket_no_upscale = false\n')
        self.wait_text(".judged", "It fits.")
        self.browser.evaluate("location.hash = '#/data?set=cats'")
        self.browser.wait("[...document.querySelectorAll(\"select[aria-label='Show crops of'] option\")].length > 1")
        self.browser.evaluate("(() => { const box = document.querySelector(\"select[aria-label='Show crops of']\"); box.selectedIndex = 1; box.dispatchEvent(new Event('change')); })()")
        self.browser.wait("document.querySelectorAll('.shot .cut').length === 3")
        facts = self.browser.evaluate("[...document.querySelectorAll('.item')].map(one => [one.querySelector('.file').textContent, one.querySelector('.facts-line').textContent])")
        self.assertEqual(dict(facts)["small.png"], "40 × 40 · → 128 × 128 ↑")
        self.assertNotIn("→", dict(facts)["left.png"])
        self.shoot("cuts")
        self.pick("Trained size", "up")
        self.browser.wait("document.querySelectorAll('.item').length === 1")
        sizes = self.browser.evaluate("[...document.querySelectorAll(\"select[aria-label='Trained size'] option\")].map(one => one.textContent)")
        self.assertIn("128 × 128 (1)", sizes)
        self.assertEqual(self.browser.complaints, [])

    def test_what_looks_the_same(self):
        png(self.cats / "a.png", 160, 120, waves(1))
        png(self.cats / "b.png", 160, 120, waves(7))
        png(self.cats / "small.png", 80, 60, lambda x, y: waves(1)(2 * x, 2 * y))
        png(self.cats / "flat.png", 160, 120, lambda x, y: (x, x, x))
        self.open()
        # Whoever writes goes on when what was seen of the pictures comes in between.
        self.browser.evaluate("(() => { const box = document.querySelector('.item textarea'); box.focus(); box.value = 'half a'; })()")
        self.browser.wait("document.querySelector('.facts-line') !== null && document.querySelectorAll('.item').length === 4")
        self.pick("Order", "name")
        self.browser.wait("document.activeElement.value === 'half a'")
        self.browser.evaluate("document.activeElement.value = ''")
        self.browser.evaluate("document.querySelector('#alike-bits').value = 12")
        self.pick("Show", "alike")
        self.browser.wait("document.querySelectorAll('.item').length === 2")
        self.shoot("alike")
        self.click("Leave out all but the best")
        self.wait(lambda: (self.cats / ".excluded/small.png").exists())
        self.click("Undo")
        self.wait(lambda: (self.cats / "small.png").exists())
        # One with a caption stays, though it is smaller.
        (self.cats / "small.txt").write_text("a small cat")
        self.browser.wait("document.querySelector('textarea[data-file=\"small.png\"]')?.value === 'a small cat'")
        self.click("Leave out all but the best")
        self.wait(lambda: (self.cats / ".excluded/a.png").exists())
        self.click("Undo")
        self.wait(lambda: (self.cats / "a.png").exists())
        self.pick("Show", "all")
        self.pick("Order", "blur")
        self.browser.wait("document.querySelector('.item .file').textContent === 'flat.png'")
        self.assertEqual(self.browser.complaints, [])

    def test_archives_links_and_clips(self):
        png(self.cats / "a.png", 64, 48, waves(1))
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        png(elsewhere / "dog.png", 64, 48, waves(2))
        clip = self.folder / "clip.webm"
        subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=1.5", "-c:v", "libvpx-vp9", str(clip)], check=True)
        with zipfile.ZipFile(self.folder / "more.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(self.cats / "a.png", "below/a.png")
            archive.writestr("below/a.txt", "another cat")
            archive.writestr("below/notes.doc", "no picture")
            archive.write(clip, "clip.webm")
        self.open()
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        files = self.browser.call("DOM.querySelector", nodeId=document, selector="input[type=file]")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=files, files=[str(self.folder / "more.zip")])
        self.wait(lambda: (self.cats / "a-2.txt").exists())
        self.assertEqual(sorted(path.name for path in self.cats.iterdir()), ["a-2.png", "a-2.txt", "a.png", "clip.webm"])
        self.wait_text(".facts-line", "64 × 48 · 15 frames, 1.5 s")
        self.browser.wait("[...document.querySelectorAll('.shot img')].every(one => one.complete && one.naturalWidth > 0)")
        left, top, width, height = self.box("[aria-label='Play: clip.webm']")  # a browser plays what somebody pressed
        self.browser.drag((left + width / 2, top + height / 2), (left + width / 2, top + height / 2))
        self.browser.wait("document.querySelector('.shot video')?.currentTime > 0.2")
        self.shoot("clip")

        self.browser.evaluate("location.hash = '#/data'")
        self.click("New dataset")
        self.browser.evaluate("document.querySelector('.new-dataset details').open = true")
        self.type("#dataset-folder", str(elsewhere))
        self.click("Create")
        self.wait_text("h1", "elsewhere")
        self.browser.wait("document.querySelector('.item .file')?.textContent === 'dog.png'")
        self.browser.evaluate("location.hash = '#/data'")
        self.wait_text(".linked", str(elsewhere))
        self.shoot("datasets")
        self.press("Unlink: elsewhere")
        self.browser.wait("document.querySelectorAll('.set').length === 1")
        self.assertTrue((elsewhere / "dog.png").exists())
        self.assertEqual(self.browser.complaints, [])

    def test_ten_thousand_pictures(self):
        first = self.cats / "00000.png"
        png(first, 48, 32, waves(3))
        pixels = first.read_bytes()
        for i in range(1, NUM_PICTURES):
            (self.cats / f"{i:05}.png").write_bytes(pixels)
        for i in range(NUM_PICTURES):
            (self.cats / f"{i:05}.txt").write_text(f"a cat, number {i}, {'black' if i % 3 else 'white'}\n")
        self.studio = check_studio.Studio(self.folder)
        self.addCleanup(self.studio.close)
        self.browser = self.enterContext(Browser())
        self.browser.open(self.studio.address)
        fetched = "(async () => { const begun = performance.now(); await (await fetch('/api/datasets/cats/items')).json(); return performance.now() - begun; })()"
        cold, warm = self.browser.evaluate(fetched), min(self.browser.evaluate(fetched) for _ in range(3))
        shown = self.browser.evaluate("(async () => { const begun = performance.now(); location.hash = '#/data?set=cats';"
                                      "while (!document.querySelector('.item img')?.complete) await new Promise(requestAnimationFrame); return performance.now() - begun; })()")
        cells = self.browser.evaluate("document.querySelectorAll('.item').length")
        self.assertLess(cells, 100)
        frames = self.browser.evaluate("(async () => { const times = []; let last = performance.now(); for (let y = 0; y < 120; ++y) { scrollTo(0, y * 300); await new Promise(requestAnimationFrame);"
                                       "const now = performance.now(); times.push(now - last); last = now; } return times.sort((a, b) => a - b); })()")
        searched = self.browser.evaluate("(async () => { const box = document.querySelector('input[type=search]'), begun = performance.now(); box.value = 'number 777,'; box.dispatchEvent(new Event('input'));"
                                         "while (document.querySelectorAll('.item').length !== 1) await new Promise(requestAnimationFrame); return performance.now() - begun; })()")
        status = pathlib.Path(f"/proc/{self.studio.process.pid}/status").read_text()
        memory = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
        begun = time.monotonic()
        looked = "(async () => { const answer = await (await fetch('/api/datasets/cats/looks')).json(); return 'looks' in answer; })()"
        self.wait(lambda: self.browser.evaluate(looked), 600)
        print(f"\n{NUM_PICTURES} pictures: items {cold:.0f} ms cold, {warm:.0f} ms warm; page with its first picture {shown:.0f} ms; {cells} cells; frames while it scrolls "
              f"{frames[60]:.0f} ms in the median, {frames[-2]:.0f} ms at most; search {searched:.0f} ms; server {memory:.0f} MiB; looked at in {time.monotonic() - begun:.0f} s", file=sys.stderr)
        self.assertLess(frames[60], MOST_MILLISECONDS, "it scrolls smoothly")
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    check_studio.SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
