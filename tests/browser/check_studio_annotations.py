#!/usr/bin/env python3
"""Captions and masks that models write, in Burnish Studio in headless Chromium: `./dev test --browser`.

usage: check_studio_annotations.py FOLDER

The dialogs of a dataset's page, work that is done while the page is open, and what it left beside pictures, also in folders of the dataset.
Screenshots, light and dark, wide and narrow, are left in FOLDER, to be looked at.
"""
import pathlib, shutil, tempfile, time, unittest

import check_studio
from browser import Browser

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


class Annotations(unittest.TestCase):
    click, type, wait_text, shoot = (getattr(check_studio.TheWay, name) for name in ("click", "type", "wait_text", "shoot"))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.cats = self.folder / "datasets/cats"
        (self.cats / "more").mkdir(parents=True)
        for name, to in (("a", "a.png"), ("b", "b.png"), ("c", "more/c.png")):
            shutil.copy(GOLDEN / f"captions/pictures/{name}.png", self.cats / to)

    def open(self):
        self.studio = check_studio.Studio(self.folder)
        self.addCleanup(self.studio.close)
        self.browser = self.enterContext(Browser())
        self.browser.open(self.studio.address)
        self.browser.evaluate("location.hash = '#/data?set=cats'")
        self.browser.wait("document.querySelectorAll('.item').length === 3")

    def wait(self, is_true, seconds=120):
        end = time.monotonic() + seconds
        while not is_true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_captions_and_masks_appear(self):
        for model in ("captions/qwen3_vl", "masks/clip_seg"):
            shutil.copytree(GOLDEN / model, self.folder / "models" / pathlib.Path(model).name)
        self.open()
        self.click("Write captions")
        self.wait_text("dialog .explain", "By Qwen3-VL, which is on this machine.")
        self.assertEqual(self.browser.evaluate("document.querySelector('#caption-model').value"), "models/qwen3_vl")
        self.shoot("captions")
        self.type("#caption-trigger_word", "sks cat")
        self.type("#caption-max_new_tokens", "6")
        self.click("Start")
        self.browser.wait("[...document.querySelectorAll('.item textarea')].filter(one => one.value.includes('sks cat')).length === 3", 120)
        for name in ("a", "b", "more/c"):
            self.assertIn("sks cat", (self.cats / f"{name}.txt").read_text())
        self.wait_text(".state.done", "Done")

        # Of one picture alone, though it has a caption.
        for name in ("a", "b", "more/c"):
            (self.cats / f"{name}.txt").write_text("by hand\n")
        self.browser.evaluate("document.querySelector('[aria-label=\"Write its caption: b.png\"]').click()")
        self.wait_text("dialog h2", "Write the caption of b.png")
        self.type("#caption-trigger_word", "sks cat")
        self.type("#caption-max_new_tokens", "6")
        self.shoot("caption-of-one")
        self.click("Start")
        self.wait(lambda: "sks cat" in (self.cats / "b.txt").read_text())
        self.browser.wait("document.querySelectorAll('.state.done').length === 2", 60)
        self.assertEqual([(self.cats / f"{name}.txt").read_text() for name in ("a", "more/c")], ["by hand\n"] * 2)
        self.browser.evaluate("document.querySelector('[aria-label=\"Remove: Write captions\"]').click()")
        self.browser.wait("document.querySelectorAll('.state.done').length === 1")

        self.click("Make masks")
        self.wait_text("dialog .explain", "By CLIPSeg, which is on this machine.")
        self.type("#mask-mask_prompt", "a cat")
        self.shoot("masks")
        self.click("Start")
        self.browser.wait("document.querySelectorAll('.shot .over').length === 3", 120)
        self.assertTrue((self.cats / "more/c-masklabel.png").exists())
        self.browser.wait("document.querySelectorAll('.state.done').length === 2", 60)
        self.shoot("annotated")
        self.browser.evaluate("document.querySelector('[aria-label=\"Remove: Write captions\"]').click()")
        self.browser.wait("document.querySelectorAll('.state.done').length === 1")
        self.assertEqual(self.browser.complaints, [])

    def test_what_goes_wrong_is_said(self):
        self.open()
        self.click("Make masks")
        self.wait_text("dialog .explain", "No CLIPSeg is on this machine.")
        self.type("#mask-model", "nowhere")
        self.click("Start")
        self.wait_text(".toast", "mask_prompt says what is to count")  # before anything waits, and what was typed stays
        self.assertEqual(self.browser.evaluate("document.querySelector('#mask-model').value"), "nowhere")
        self.browser.complaints = [one for one in self.browser.complaints if "400" not in one]
        self.type("#mask-mask_prompt", "a cat")
        self.click("Start")
        self.wait_text(".state.failed", "Failed")
        self.wait_text(".problem", "nowhere")
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    unittest.main()
