#!/usr/bin/env python3
"""The pictures of docs/studio.md and of the README: Burnish Studio in headless Chromium, from a dataset to a drawn grid.

usage: BURNISH=build/burnish PYTHONPATH=.deps/demo python3 examples/studio/show.py [docs/images]

The workspace is made anew in build/show: pixel art as in `./dev demo`, and the small FLUX of assets/ as its model. Each page is left as
studio-NAME.png, and the way through them as studio.webp.
"""
import io, os, pathlib, shutil, subprocess, sys, time

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/browser"))
from browser import Browser  # noqa: E402

BURNISH = os.path.abspath(os.environ.get("BURNISH", ROOT / "build/burnish"))
WORKSPACE = ROOT / "build/show"
SIZE = (1280, 800)
SETTINGS = """model = ["../models/tiny-flux"]
dataset_base_path = "../datasets/pixel-art"
height = 192
width = 192
lora_rank = 8
learning_rate = 4e-3
batch_size = 4
max_steps = 60
save_steps = 20
preview_prompts = "../prompts.txt"
preview_steps = 15
preview_num_inference_steps = 12
"""


def make_workspace():
    shutil.rmtree(WORKSPACE, ignore_errors=True)
    dataset = WORKSPACE / "datasets/pixel-art"
    dataset.mkdir(parents=True)
    subprocess.run([sys.executable, ROOT / "recipes/tiny_flux/make_pictures.py", "--style", "pixel", "--size", "192", "--split", "lora", "--out", dataset], check=True)
    (WORKSPACE / "models").mkdir()
    (WORKSPACE / "models/tiny-flux").symlink_to(ROOT / "assets/tiny-flux")
    (WORKSPACE / "prompts.txt").write_text("a red apple, pixel art\na cat face, pixel art\n")


class Show:
    def __init__(self, browser, folder):
        self.browser, self.folder, self.frames = browser, folder, []

    def click(self, text, kind="button, a, label"):
        found = f"[...document.querySelectorAll('{kind}')].find(one => one.textContent.trim().startsWith('{text}') && !one.disabled && one.offsetParent !== null)"
        self.browser.wait(f"{found} !== undefined")
        self.browser.evaluate(f"{found}.click()")

    def fill(self, selector, text, event="input"):
        self.browser.wait(f"document.querySelector('{selector}') !== null")
        self.browser.evaluate(f"(() => {{ const box = document.querySelector('{selector}'); box.value = {text!r}; box.dispatchEvent(new Event('{event}', {{bubbles: true}})); }})()")

    def choose(self, selector, text):
        """The first real option of a list that holds the text."""
        self.browser.wait(f"[...(document.querySelector('{selector}')?.options ?? [])].some(one => one.value && one.textContent.includes('{text}'))")
        self.browser.evaluate(f"(() => {{ const box = document.querySelector('{selector}'); box.value = [...box.options].find(one => one.value && one.textContent.includes('{text}')).value;"
                              "box.dispatchEvent(new Event('change', {bubbles: true})); })()")

    def see(self, text):
        self.browser.wait(f"document.body.textContent.includes('{text}')", 60)

    def frame(self, name=None, seconds=2.0):
        """A picture of the page as it is, which becomes a part of the animation, and, with a name, a file."""
        self.browser.evaluate("scrollTo(0, 0)")
        self.browser.wait("[...document.images].every(one => one.complete)")
        path = self.folder / (f"studio-{name}.png" if name else ".frame.png")
        self.browser.screenshot(path, whole=False)
        picture = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
        self.frames.append((picture.resize((960, 600), Image.LANCZOS), int(1000 * seconds)))
        if name is None:
            path.unlink()
        else:
            picture.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)

    def animate(self):
        pictures, milliseconds = zip(*self.frames)
        pictures[0].save(self.folder / "studio.webp", save_all=True, append_images=pictures[1:], duration=list(milliseconds), loop=0, quality=60, method=6, kmin=1, kmax=1)  # whole frames: differences leave shadows


def walk(show, address):
    show.browser.open(address)
    show.click("Datasets", "nav a")
    show.click("pixel-art")
    show.see("pictures and clips")
    time.sleep(2)  # thumbnails
    show.frame("dataset")

    show.browser.evaluate("location.hash = '#/new'")
    show.fill("#goal", "A person or thing", "change")
    show.fill("#recipe", "flux_lora_24gb", "change")
    show.browser.wait("document.querySelector('#toml').value.includes('FLUX')")
    text = show.browser.evaluate("document.querySelector('#toml').value").replace("black-forest-labs/FLUX.1-dev", "flux-dev")
    show.fill("#toml", text + 'device_memory = "17.3GiB"\n')
    show.see("It does not fit")
    show.frame("plan", 3)
    show.click("Find settings that fit")
    show.see("It fits.")
    show.frame(seconds=2)

    show.click("Blank")
    show.fill("#run-name", "pixel art")
    show.fill("#toml", SETTINGS)
    show.see("It fits.")
    show.click("Start training")
    show.see("Training")
    show.browser.wait("document.querySelector('.run img') !== null", 240)
    show.frame(seconds=1.5)
    show.browser.evaluate("document.querySelector('.run a').click()")
    for _ in range(4):
        time.sleep(4)
        show.frame(seconds=0.8)
    show.browser.wait("[...document.querySelectorAll('.head .controls:not([hidden])')].some(one => one.textContent.includes('Archive'))", 120)
    show.frame("run", 3)

    show.browser.evaluate("document.querySelector('a.wordmark').click()")
    show.click("Drawing", "nav a")
    show.choose("#draw-run", "pixel art")
    show.choose("#draw-add", "")
    show.fill("#draw-prompts", "a red apple\na cat face\nan umbrella")
    for box, text in (("sizes", "192x192"), ("seeds", "3"), ("steps", "16"), ("strengths", "0, 0.5, 1")):
        show.fill(f"#draw-{box}", text)
    show.fill("#draw-name", "apples and cats")
    show.click("Draw", ".draw-form button")
    show.browser.wait("[...document.querySelectorAll('.sheet img')].length === 9", 400)
    show.frame("drawing", 4)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/images")
    make_workspace()
    studio = subprocess.Popen([BURNISH, "studio", str(WORKSPACE), "--port", "0", "--no_browser"], stdout=subprocess.PIPE, text=True)
    try:
        with Browser(*SIZE) as browser:
            show = Show(browser, folder)
            walk(show, studio.stdout.readline().strip())
            show.animate()
    finally:
        studio.terminate()
        studio.wait()


if __name__ == "__main__":
    main()
