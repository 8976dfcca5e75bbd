#!/usr/bin/env python3
"""Burnish Studio in headless Chromium, on the small FLUX: `./dev test --browser`.

usage: check_studio.py FOLDER

Goes the way of somebody who has twelve pictures and wants a LoRA, by mouse and keys alone, and then kills the studio and runs while they work.
Screenshots of each page, light and dark, wide and narrow, are left in FOLDER, to be looked at.
"""
import json, os, pathlib, random, re, shutil, signal, struct, subprocess, sys, tempfile, time, unittest, zlib

from browser import Browser

BURNISH = os.path.abspath(os.environ.get("BURNISH", "build/burnish"))
MODEL = pathlib.Path(__file__).resolve().parents[2] / "assets/tiny-flux"
SHOTS = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/pages")
WIDTHS = {1280: "wide", 1024: "", 800: "middle", 390: "narrow"}  # 1024 is what 1280 pixels show at 125 %
NUM_KILLS = int(os.environ.get("BURNISH_KILLS", "20"))


def png(path, color, side=96):
    """A picture of one color with a square in it."""
    rows = b"".join(b"\0" + b"".join(bytes(255 - c for c in color) if 30 < x < 60 and 30 < y < 60 else bytes(color) for x in range(side)) for y in range(side))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Studio:
    """The program on a workspace, which may be killed and opened again."""

    def __init__(self, folder, *options, **variables):
        self.folder, self.options, self.variables = folder, options, variables
        self.open()

    def open(self):
        self.process = subprocess.Popen([BURNISH, "studio", str(self.folder), "--port", "0", "--no_browser", *self.options], stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **self.variables})
        self.address = self.process.stdout.readline().strip()

    def close(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait()
        self.process.stdout.close()

    def jobs(self):
        return [json.loads(path.read_text()) for path in sorted((self.folder / "queue").glob("0*.json"))]


class TheWay(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.end_jobs)
        self.pictures = self.folder / "pictures"
        self.pictures.mkdir()
        for i in range(12):
            png(self.pictures / f"{i}.png", ((i * 37) % 256, (i * 91) % 256, (i * 151) % 256))

    def end_jobs(self):
        """What still runs of the workspace."""
        for job in Studio.jobs(self) if (self.folder / "queue").exists() else []:
            if "process" in job:
                try:
                    os.kill(job["process"]["id"], signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def click(self, text, kind="button, a"):
        """A press on what says so."""
        found = f"[...document.querySelectorAll('{kind}')].find(one => one.textContent.trim().startsWith({json.dumps(text)}) && !one.disabled && one.offsetParent !== null)"
        self.browser.wait(f"{found} !== undefined")
        self.browser.evaluate(f"{found}.click()")

    def type(self, selector, text, event="input"):
        self.browser.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        self.browser.evaluate(f"(() => {{ const box = document.querySelector({json.dumps(selector)}); box.focus(); box.value = {json.dumps(text)};"
                              f"box.dispatchEvent(new Event({json.dumps(event)}, {{bubbles: true}})); }})()")

    def wait_text(self, selector, text, seconds=60):
        self.browser.wait(f"[...document.querySelectorAll({json.dumps(selector)})].some(one => one.textContent.includes({json.dumps(text)}))", seconds)

    def shoot(self, name):
        for scheme in ("light", "dark"):
            self.browser.colors(scheme)
            for width in WIDTHS:
                self.browser.resize(width, 900)
                time.sleep(0.2)
                overflow = self.browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                wide = self.browser.evaluate("[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, svg'))"
                                             ".map(one => `${one.tagName} ${one.className} ${one.id}`).slice(0, 5).join(', ')")
                self.assertLessEqual(overflow, 0, f"{name} is wider than {width} pixels: {wide}")
                if WIDTHS[width]:
                    self.browser.screenshot(SHOTS / f"studio-{name}-{scheme}-{WIDTHS[width]}.png", whole=False)
            self.assertEqual(self.browser.audit(), [], f"{name}, {scheme}")
        self.browser.colors("light")
        self.browser.resize(1280, 900)

    def start_run(self, name, more=""):
        self.browser.evaluate("location.hash = '#/new'")
        self.type("#run-name", name)
        self.type("#toml", f'model = ["{MODEL}"]\ndataset_base_path = "../datasets/squares"\nheight = 64\nwidth = 64\nlora_rank = 8\nmax_steps = 2000\n{more}')
        self.wait_text(".judged", "It fits.")
        self.click("Start training")

    def test_from_pictures_to_a_lora(self):
        begun = time.monotonic()
        studio = Studio(self.folder)
        self.addCleanup(studio.close)
        self.browser = self.enterContext(Browser())
        self.browser.open(studio.address)
        self.assertNotIn("token", self.browser.evaluate("location.href"))
        self.wait_text("h1", "Train a model on your pictures")
        self.shoot("empty")

        # Twelve pictures, and their captions.
        self.click("Datasets", "nav a")
        self.click("New dataset")
        self.type("#dataset-name", "squares")
        self.click("Create")
        self.browser.wait("document.querySelector('.dataset') !== null")
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        files = self.browser.call("DOM.querySelector", nodeId=document, selector="input[type=file]")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=files, files=[str(self.pictures / f"{i}.png") for i in range(12)])
        self.wait_text("[role=status]", "12 pictures and clips, 12 without a caption")
        self.type("#caption-edit", "before", "change")
        self.type("#caption-find", "a square, ")
        self.click("Apply")
        self.wait_text(".chip", "a square 12")
        self.type("textarea[data-file='0.png']", "a square, blue")
        self.wait_text(".chip", "blue 1")
        self.assertEqual((self.folder / "datasets/squares/0.txt").read_text(), "a square, blue\n")
        self.click("Undo")
        self.browser.wait("document.querySelector(\"textarea[data-file='0.png']\").value === 'a square,'")
        self.browser.wait("[...document.querySelectorAll('.thumb-box img')].every(one => one.complete && one.naturalWidth > 0)")
        self.shoot("dataset")

        # A run that does not fit a small limit, and what fits.
        prompts = self.folder / "prompts.txt"
        prompts.write_text("a square --s 2\n")
        self.click("Train on this")
        self.type("#run-name", "squares")
        self.type("#toml", f'model = ["{MODEL}"]\ndataset_base_path = "../datasets/squares"\nheight = 64\nwidth = 64\nlora_rank = 8\nmax_steps = 2000\n'
                           f'device_memory = "17MB"\npreview_prompts = "{prompts}"\npreview_steps = 5\n')
        self.wait_text(".judged", "It does not fit")
        self.shoot("no-fit")
        self.click("Find settings that fit")
        self.wait_text(".judged", "It fits.")
        self.wait_text(".toast", "Set:")
        self.type("#option-batch_size", "0")
        self.wait_text(".verdict .problem", "batch_size must be at least 1, not 0")
        self.assertEqual(self.browser.evaluate("document.querySelector('#option-batch_size').getAttribute('aria-invalid')"), "true")
        self.shoot("wrong")
        self.type("#option-batch_size", "")
        self.wait_text(".judged", "It fits.")
        self.shoot("form")
        self.click("Start training")

        # It trains; previews, a save and the end are asked for.
        self.wait_text(".run .state", "Training")
        self.browser.wait("document.querySelector('.run img') !== null")
        self.shoot("runs")
        self.browser.evaluate("document.querySelector('.run a').click()")
        self.click("Preview now")
        self.click("Save now")
        self.click("Files", "[role=tab]")
        self.wait_text(".files", "squares-step-")
        lora = time.monotonic() - begun
        self.click("Overview", "[role=tab]")
        self.shoot("run")
        self.click("Stop and save")
        self.wait_text(".standing", "Interrupted")
        self.click("Resume")
        self.browser.wait("document.querySelector('.standing') === null")
        self.click("Stop after this epoch")
        self.wait_text(".standing", "ended with its epoch")

        # Another one behind it, and the file is taken away.
        href = self.browser.evaluate("document.querySelector('.files a').href")
        self.assertGreater(self.browser.evaluate(f"fetch({json.dumps(href)}).then(answer => answer.arrayBuffer()).then(bytes => bytes.byteLength)"), 100_000)
        self.click("New run from this")
        self.browser.wait("document.querySelector('#toml') !== null && document.querySelector('#toml').value.includes('lora_rank = 8')")
        self.wait_text(".length", 'measured in "squares"')
        self.compare_and_archive()
        self.mend_a_failure()
        self.begin_from_elsewhere()
        self.browser.complaints = [one for one in self.browser.complaints if "400" not in one]  # of which the page asked
        self.assertEqual(self.browser.complaints, [])
        host = re.match(r"http://[^/]+", studio.address)[0]
        self.assertEqual([url for url in self.browser.requests if not url.startswith((host, "data:"))], [])
        print(f"\nfrom the first page to a LoRA: {lora:.0f} s", file=sys.stderr)

    def compare_and_archive(self):
        shutil.copytree(self.folder / "runs/squares", self.folder / "runs/squares again")
        self.browser.evaluate("location.hash = '#/'")
        for name in ("squares", "squares again"):
            self.browser.wait(f"document.querySelector('[aria-label=\"Choose {name} to compare\"]') !== null")
            self.browser.evaluate(f"document.querySelector('[aria-label=\"Choose {name} to compare\"]').click()")
        self.click("Compare 2 runs")
        self.wait_text(".compare", "squares again")
        self.shoot("compare")
        self.browser.evaluate("document.querySelector('a.wordmark').click()")
        self.wait_text(".run strong", "squares again")
        self.browser.evaluate("[...document.querySelectorAll('.run a')].find(one => one.textContent.startsWith('squares again')).click()")
        self.click("Archive")
        self.click("Unarchive", "button")
        self.click("Archive")
        self.browser.wait("[...document.querySelectorAll('button')].some(one => one.textContent === 'Unarchive')")
        self.browser.evaluate("document.querySelector('a.wordmark').click()")
        self.wait_text(".switch", "Show archived")
        self.browser.wait("document.querySelectorAll('.run').length === 1")
        self.click("Show archived", "label")
        self.browser.wait("document.querySelectorAll('.run').length === 2")
        shutil.copytree(self.folder / "runs/squares", self.folder / "runs" / ("W" * 96))  # as long as names may be, with nowhere to break
        self.browser.wait("document.querySelectorAll('.run').length === 3")
        self.shoot("long-names")
        shutil.rmtree(self.folder / "runs" / ("W" * 96))

    def mend_a_failure(self):
        """A run whose sentence names an option leads to that option."""
        run = self.folder / "runs/squares again"
        status = json.loads((run / "status.json").read_text())
        (run / "status.json").write_text(json.dumps({**status, "state": "failed", "exit_code": 4, "sentence": "learning_rate is too high for this: lower it, or set --max_grad_norm"}))
        self.browser.evaluate("[...document.querySelectorAll('.run a')].find(one => one.textContent.startsWith('squares again')).click()")
        self.click("Change max_grad_norm")
        self.browser.wait("document.activeElement?.id === 'option-max_grad_norm'")
        self.browser.evaluate("history.back()")
        self.click("Find settings that fit")
        self.wait_text(".judged", "It fits.")

    def begin_from_elsewhere(self):
        """A recipe for what one wants to make, and settings of another program."""
        self.browser.evaluate("location.hash = '#/new'")
        self.click("Preset", ".segments button")
        self.type("#goal", "A style", "change")
        self.browser.wait("[...document.querySelectorAll('#recipe option')].some(one => one.textContent === 'A LoRA on SDXL in 8 GB at 1024x1024')")
        self.type("#recipe", "sdxl_lora_8gb", "change")
        self.browser.wait("document.querySelector('#toml').value.includes('lora_rank = 32')")
        self.wait_text(".model-note", "is not on this machine")
        self.shoot("recipe")
        self.click("Another trainer")
        settings = self.folder / "kohya.toml"
        settings.write_text('network_module = "networks.lora_flux"\nnetwork_dim = 12\nno_such_name = 3\n')
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        files = self.browser.call("DOM.querySelector", nodeId=document, selector="#from-files")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=files, files=[str(settings)])
        self.wait_text(".beginning .note", "Whose settings are these?")  # two programs have these names
        self.click("kohya", ".beginning .note button")
        self.wait_text(".beginning .note", "no_such_name")
        self.browser.wait("document.querySelector('#toml').value.includes('lora_rank = 12')")
        self.shoot("import")

    def test_nothing_is_lost_when_it_is_killed(self):
        studio = Studio(self.folder)
        self.addCleanup(lambda: studio.close())
        self.browser = self.enterContext(Browser())
        shutil.copytree(self.pictures, self.folder / "datasets/squares")
        for path in (self.folder / "datasets/squares").glob("*.png"):
            path.with_suffix(".txt").write_text("a square")
        self.browser.open(studio.address)
        self.start_run("first")
        self.wait_text(".run .state", "Training")
        self.start_run("second")
        self.wait_text(".waiting", "second 2,000 steps")
        self.wait_text(".waiting", "starts in about")
        rng = random.Random(7)
        for _ in range(NUM_KILLS):
            time.sleep(rng.random())
            studio.close(signal.SIGKILL)
            studio.open()
        jobs = studio.jobs()
        self.assertEqual([job["state"] for job in jobs], ["running", "waiting"])
        steps = len((self.folder / "runs/first/log.jsonl").read_text().splitlines())
        self.assertGreater(steps, NUM_KILLS // 4, "the first run went on, and was started once")

        # A run that is killed is said to be gone, and the next one begins.
        for number in range(NUM_KILLS):
            running = self.wait_job(studio, "running")
            os.kill(running["process"]["id"], signal.SIGKILL)
            self.wait(lambda: next(job for job in studio.jobs() if job["run"] == running["run"])["state"] == "ended")
            self.browser.open(studio.address)
            self.start_run(f"further {number}")
        self.wait_job(studio, "running")
        self.wait(lambda: len(studio.jobs()) == NUM_KILLS + 2)

    def wait(self, is_true, seconds=60):
        end = time.monotonic() + seconds
        while not is_true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def wait_job(self, studio, state):
        found = []
        def look():
            found[:] = [job for job in studio.jobs() if job["state"] == state]
            return found
        self.wait(look)
        return found[0]


if __name__ == "__main__":
    SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
