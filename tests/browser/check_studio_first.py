#!/usr/bin/env python3
"""The first five minutes in Burnish Studio, by mouse alone: `./dev test --browser`.

usage: check_studio_first.py FOLDER

Somebody who has never trained goes from an empty page to a LoRA and to pictures drawn with it, with the pictures and the small model that come with the program. Presses of the
mouse and typed texts are counted. Screenshots of each page are left in FOLDER, to be looked at.
"""
import json, pathlib, shutil, sys, tempfile, time, unittest

import check_studio
from browser import Browser

PICTURES = pathlib.Path(__file__).resolve().parents[2] / "assets/demo-pictures"
MOST_CLICKS, MOST_TEXTS, MOST_SECONDS = 12, 2, 300


class FirstFiveMinutes(unittest.TestCase):
    make_browser = Browser
    wait_text, shoot = (getattr(check_studio.TheWay, name) for name in ("wait_text", "shoot"))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.studio = check_studio.Studio(self.folder)
        self.addCleanup(self.studio.close)
        self.addCleanup(lambda: check_studio.TheWay.end_jobs(self))
        self.browser = self.enterContext(self.make_browser())
        self.browser.open(self.studio.address)
        self.num_clicks = self.num_texts = 0

    def click(self, text, kind="button, a"):
        self.num_clicks += 1
        self.browser.click(f"[...document.querySelectorAll({json.dumps(kind)})].find(one => one.textContent.trim().startsWith({json.dumps(text)}) && one.offsetParent !== null)")

    def write(self, selector, text):
        self.num_clicks += 1
        self.num_texts += 1
        self.browser.click(f"document.querySelector({json.dumps(selector)})")
        self.browser.write(text)

    def value(self, selector):
        return self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).value")

    def test_from_an_empty_page_to_pictures_of_ones_own_lora(self):
        begun = time.monotonic()
        self.wait_text("h1", "Train a model on your pictures")
        self.shoot("first-door")
        self.num_clicks += 1  # in the system's dialog: Open
        self.browser.choose_files(lambda: self.click("Choose pictures"), sorted(PICTURES.iterdir()))
        self.wait_text(".step.done", "24 pictures, all with captions")
        self.shoot("first-pictures")
        self.click("Choose …", ".step a")
        self.click("Small FLUX", ".tile")
        self.write("#option-trigger_word", "pixel")
        self.wait_text(".judged", "It fits.")
        self.assertEqual(self.value("#first-prompts").split("\n"), ["pixel, dog face", "pixel, lemon", "pixel, sun with face"])
        self.shoot("first-form")
        self.click("Start training")
        self.wait_text(".run .state", "Training")
        self.shoot("first-runs")
        self.click("my pictures", ".run strong")
        self.wait_text("#title", "my pictures")
        self.browser.wait("document.querySelectorAll('#pictures img').length === 3")
        self.browser.wait("[...document.querySelectorAll('.controls a.primary')].some(one => one.offsetParent !== null)", 200)
        self.click("Draw with it")
        self.browser.wait("document.querySelector('#draw-prompts')?.value.startsWith('pixel, dog face')")
        self.assertEqual(self.value("#draw-sizes"), "192x192")
        self.click("Before and after")
        self.wait_text(".draw-form [role=status]", "6 pictures")
        self.click("Draw", ".draw-form button.primary")
        self.wait_text(".drawn [role=status]", "Done · 6 of 6", 120)
        seconds = time.monotonic() - begun
        self.browser.wait("[...document.querySelectorAll('.sheet img')].length === 6 && [...document.querySelectorAll('.sheet img')].every(one => one.complete && one.naturalWidth === 192)")
        self.assertEqual(len({path.read_bytes() for path in (self.folder / "drawings/drawing").glob("*.png")}), 6)
        self.shoot("first-drawn")
        print(f"\nfrom an empty page to pictures of one's own LoRA: {self.num_clicks} clicks, {self.num_texts} texts, {seconds:.0f} s", file=sys.stderr)
        self.assertLessEqual((self.num_clicks, self.num_texts), (MOST_CLICKS, MOST_TEXTS))
        self.assertLess(seconds, MOST_SECONDS)
        self.assertEqual(self.browser.complaints, [])

    def train_more(self, steps):
        self.click("Train more")
        self.write("#more-steps", "")
        self.browser.evaluate("document.activeElement.select()")
        self.browser.write(str(steps))

    def test_more_steps_also_after_a_caption_was_changed(self):
        self.click("Try it with the demo")
        self.wait_text(".run .state", "Done", 180)
        self.click("demo", ".run strong")
        self.train_more(8)
        self.click("Continue", ".train-more button")
        self.browser.wait("[...document.querySelectorAll('.facts dd')].some(one => one.textContent === '68')", 120)
        self.wait_text(".status", "done", 60)
        (self.folder / "datasets/demo/cactus.txt").write_text("a cactus, by hand\n")
        self.train_more(8)
        self.wait_text(".train-more", "were changed after this run had read them")
        self.click("As a new run from its LoRA", ".train-more a")
        self.wait_text(".judged", "It fits.")
        self.click("Start training")
        self.wait_text(".run strong", "demo-2")
        self.browser.wait("[...document.querySelectorAll('.run')].filter(one => one.innerText.includes('Done')).length === 2", 180)
        self.assertIn("step-68.safetensors", (self.folder / "runs/demo-2/config.toml").read_text())
        self.assertTrue((self.folder / "runs/demo-2/step-8.safetensors").exists())
        self.assertEqual(self.browser.complaints, [])

    def test_the_demo_is_one_press(self):
        self.click("Try it with the demo")
        self.wait_text(".run strong", "demo")
        self.wait_text(".run .state", "Done", 180)
        drawn = self.folder / "runs/demo/samples"
        self.assertEqual(sorted(path.name for path in drawn.iterdir()), ["step-000000", "step-000030", "step-000060"])
        self.click("demo", ".run strong")
        self.browser.wait("document.querySelectorAll('#pictures img').length === 4")
        self.shoot("first-demo")
        self.click("Runs", "nav a")
        self.wait_text(".home h2", "Train a model on your pictures")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.step.done, .step.demo').length"), 0, "the demo's pictures are nobody's own")
        self.shoot("first-tried")
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    check_studio.SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
