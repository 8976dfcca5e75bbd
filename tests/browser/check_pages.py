#!/usr/bin/env python3
"""The pages of `burnish report` and `burnish watch` in headless Chromium: `./dev test --browser`.

usage: check_pages.py FOLDER

Makes runs, opens their pages, uses them as people do, and fails when the console has an error, when anything is asked of elsewhere, or when
a page does not show what the run holds. Screenshots of both color schemes are left in FOLDER, to be looked at.
"""
import os, pathlib, random, shutil, signal, subprocess, sys, tempfile, time, unittest

import runs
from browser import Browser

BURNISH = os.environ.get("BURNISH", "build/burnish")
SHOTS = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/pages")
TEXT = "(document.querySelector('{}')?.textContent ?? '')"


def report(*arguments):
    subprocess.run([BURNISH, "report", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.browser = self.enterContext(Browser())

    def shoot(self, name, url):
        for scheme in ("light", "dark"):
            self.browser.colors(scheme)
            self.browser.open(url)
            self.browser.wait("document.querySelectorAll('.chart path').length > 5")
            self.browser.screenshot(SHOTS / f"{name}-{scheme}.png")

    def text(self, selector):
        return self.browser.evaluate(TEXT.format(selector))

    def check_quiet(self, *hosts):
        """Nothing in the console, and nothing asked for but the page, pictures inside it, and what the hosts give."""
        self.assertEqual(self.browser.complaints, [])
        elsewhere = [url for url in self.browser.requests if not url.startswith(("data:", "file:", *hosts))]
        self.assertEqual(elsewhere, [])

    def test_report_of_one_run(self):
        run = runs.make_run(self.folder / "fox-lora", 640, 800)
        report(run)
        self.shoot("report", f"file://{run}/report.html")
        browser = self.browser
        self.assertEqual(self.text("h1"), "fox-lora")
        self.assertIn("LoRA of rank 16 on dit", self.text("#about"))
        self.assertIn("640of 800", self.text(".facts"))
        self.assertEqual(browser.evaluate("document.querySelectorAll('#charts .chart').length"), 9, "with one of the loss as it is weighted")
        self.assertEqual(browser.evaluate("document.querySelectorAll('#timestep-charts .line').length"), runs.NUM_BINS + 2)
        # A prompt is text, whatever it holds.
        self.assertEqual([browser.evaluate(f"document.querySelectorAll('.card .prompt')[{i}].textContent") for i in range(3)], runs.PROMPTS)
        self.check_quiet()

        # The keyboard reads a chart, zooms and comes back.
        browser.evaluate("document.querySelector('.chart svg').focus()")
        browser.press("Home")
        self.assertIn("step 1", self.text(".readout"))
        browser.press("ArrowRight")
        self.assertIn("step 2", self.text(".readout"))
        browser.press("+")
        self.assertFalse(browser.evaluate("document.getElementById('reset-zoom').hidden"))
        browser.press("Escape")
        self.assertTrue(browser.evaluate("document.getElementById('reset-zoom').hidden"))
        browser.drag((300, 500), (600, 500))
        self.assertFalse(browser.evaluate("document.getElementById('reset-zoom').hidden"))
        browser.evaluate("document.getElementById('reset-zoom').click()")

        browser.evaluate("document.getElementById('log-scale').click()")
        self.assertNotIn("0", browser.evaluate("[...document.querySelectorAll('.chart.wide .tick')].map(tick => tick.textContent)")[:3])
        browser.move(500, 400)
        browser.screenshot(SHOTS / "report-read-out.png", whole=False)

        # The slider goes back to the picture before training; a picture opens large, with all its steps.
        last = browser.evaluate("document.querySelector('.picture img').src")
        browser.evaluate("(slider => { slider.value = 0; slider.dispatchEvent(new Event('input')); })(document.getElementById('preview-step'))")
        self.assertEqual(self.text("#preview-label"), "before training")
        self.assertNotEqual(browser.evaluate("document.querySelector('.picture img').src"), last)
        browser.evaluate("document.querySelector('.picture').click()")
        browser.press("ArrowRight")
        self.assertEqual(self.text("#preview-label"), "step 100")
        self.assertEqual(browser.evaluate("document.querySelectorAll('.thumb').length"), 7)
        browser.screenshot(SHOTS / "report-viewer.png", whole=False)

        browser.resize(420, 900)
        browser.open(f"file://{run}/report.html")
        self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), 420)
        browser.screenshot(SHOTS / "report-narrow.png")
        self.check_quiet()

    def test_report_of_several_runs(self):
        made = [runs.make_run(self.folder / f"fox-r{rank}", steps, total, level, rank, rank)
                for rank, steps, total, level in ((16, 640, 800, 0.3), (32, 500, 500, 0.26), (64, 300, 800, 0.36))]
        report(*made, "--output", self.folder / "compare.html")
        self.shoot("compare", f"file://{self.folder}/compare.html")
        self.assertEqual(self.text("h1"), "3 runs")
        differing = self.browser.evaluate("[...document.querySelectorAll('#settings-list tbody th')].map(cell => cell.textContent)")
        self.assertEqual(differing, ["lora_rank", "lora_alpha", "learning_rate", "max_steps", "output_path"])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.chart.wide .line').length"), 3)
        self.browser.evaluate("document.querySelector('#legend button').click()")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.chart.wide .line').length"), 2)
        self.check_quiet()

    def check_clips(self):
        """Every kind of clip moves, and stands below as frames of each step."""
        browser = self.browser
        card = "document.querySelectorAll('.card')[{}].querySelector('.picture :is(img, video)')"
        for number, tag in enumerate(("IMG", "VIDEO", "VIDEO", "IMG"), start=3):
            self.assertEqual(browser.evaluate(f"{card.format(number)}.tagName"), tag)
        for number in (4, 5):
            video = card.format(number)
            browser.evaluate(f"{video}.scrollIntoView()")  # out of sight none plays
            browser.wait(f"{video}.videoWidth === 128 && {video}.currentTime > 0")
            self.assertTrue(browser.evaluate(f"{video}.muted && {video}.loop"))
            browser.evaluate(f"{video}.pause(); {video}.currentTime = 1.5")
            browser.wait(f"!{video}.seeking && Math.abs({video}.currentTime - 1.5) < 0.01 && {video}.seekable.end(0) > 1.9")
        browser.evaluate(f"window.before = {card.format(6)}.src")
        browser.wait(f"{card.format(6)}.src !== window.before && {card.format(6)}.naturalWidth === 128")
        self.assertEqual(browser.evaluate("[...document.querySelectorAll('.card')].map(one => one.querySelectorAll('.frames').length)"), [0, 0, 0, 2, 2, 2, 2])
        for number in range(8):
            strip = f"document.querySelectorAll('.frames img')[{number}]"
            browser.evaluate(f"{strip}.scrollIntoView()")  # those far out of sight are not asked for yet
            browser.wait(f"{strip}.naturalWidth === 6 * 128")
        self.assertEqual(browser.evaluate("document.querySelectorAll('.frames[aria-current]').length"), 4)

    def check_spectrogram(self):
        """A tone that rises is a bright line that does, and a press goes to its moment."""
        browser = self.browser
        browser.wait("document.querySelector('#viewer .spectrogram:not([hidden])') !== null")
        rows = browser.evaluate("""(() => { const canvas = document.querySelector('#viewer .spectrogram canvas'), {width, height} = canvas, all = canvas.getContext('2d').getImageData(0, 0, width, height).data;
            const reds = x => Array.from({length: height}, (_, y) => all[4 * (y * width + x)]);
            return [60, 180, 300, 420].map(x => reds(x).indexOf(Math.max(...reds(x)))); })()""")
        self.assertEqual(rows, sorted(set(rows), reverse=True))
        browser.evaluate("document.querySelector('#viewer video[controls]').pause()")
        browser.click("document.querySelector('#viewer .spectrogram')")
        browser.wait("Math.abs(document.querySelector('#viewer video[controls]').currentTime - 1) < 0.1")

    def test_clips(self):
        run = runs.make_run(self.folder / "clips", 200, 200)
        for step in (100, 200):
            runs.add_clips(run, step)
        report(run)
        browser = self.browser
        browser.open(f"file://{run}/report.html")
        self.check_clips()
        for scheme in ("light", "dark"):
            browser.colors(scheme)
            browser.screenshot(SHOTS / f"clips-{scheme}.png")
        self.assertEqual(self.text(".card:nth-child(5) .prompt"), "a square that moves, 04.mp4")
        # A strip leads to its step, and a clip opens large with all its steps.
        browser.evaluate("document.querySelector('.frames').click()")
        self.assertEqual(self.text("#preview-label"), "step 100")
        browser.evaluate("document.querySelectorAll('.picture')[4].click()")
        browser.wait("document.querySelector('#viewer video[controls]')?.currentTime > 0")
        self.assertEqual(browser.evaluate("document.querySelectorAll('.thumb video').length"), 2)
        self.check_spectrogram()
        browser.screenshot(SHOTS / "clips-viewer.png", whole=False)
        browser.press("ArrowDown")  # to a clip without sound
        browser.wait("document.querySelector('#viewer video[controls]')?.src.startsWith('data:video/webm')")
        browser.wait("document.querySelector('#viewer video[controls]')?.currentTime > 0.3")
        self.assertTrue(browser.evaluate("document.querySelector('#viewer .spectrogram').hidden"))
        browser.resize(420, 900)
        browser.open(f"file://{run}/report.html")
        self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), 420)
        browser.screenshot(SHOTS / "clips-narrow.png")
        self.check_quiet()

        _, url = self.watch(run)
        browser.resize(1280, 900)
        browser.wait("document.querySelectorAll('.card').length === 7")
        self.check_clips()
        self.check_quiet(url, f"file://{run}")

    def watch(self, *folders):
        """The server and its address, open in the browser."""
        server = subprocess.Popen([BURNISH, "watch", *folders, "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        url = server.stdout.readline().split()[0]
        self.browser.open(url)
        return server, url

    def test_watch(self):
        run = runs.make_run(self.folder / "fox-lora", 200, 800)
        server, url = self.watch(run)
        browser, rng = self.browser, random.Random(5)
        browser.wait(f"{TEXT.format('.facts')}.includes('200of 800')")
        browser.evaluate("window.stayed = true")

        with open(run / "log.jsonl", "a") as log:
            for step in range(201, 301):
                log.write(runs.record(step, 800, rng, 0.3, time.time() - 0.45 * step))
        browser.wait(f"{TEXT.format('.facts')}.includes('300of 800')")
        runs.add_previews(run, 300)
        browser.wait("document.getElementById('preview-label').textContent === 'step 300'")
        browser.wait("document.querySelector('.picture img').naturalWidth === 64")
        self.assertEqual(self.text("#status"), "live")
        for scheme in ("light", "dark"):
            browser.colors(scheme)
            browser.screenshot(SHOTS / f"watch-{scheme}.png")

        # A resumed run takes steps again: the page begins anew, in place.
        lines = (run / "log.jsonl").read_text().splitlines(keepends=True)
        (run / "log.new").write_text("".join(lines[:250]))
        (run / "log.new").rename(run / "log.jsonl")
        browser.wait(f"{TEXT.format('.facts')}.includes('250of 800')")
        self.assertTrue(browser.evaluate("window.stayed"))
        self.check_quiet(url)

        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(60), -signal.SIGINT)
        browser.wait(f"{TEXT.format('#status')} === 'burnish watch has ended'", 10)

    def shoot_as_it_is(self, name):
        for scheme in ("light", "dark"):
            self.browser.colors(scheme)
            self.browser.screenshot(SHOTS / f"{name}-{scheme}.png")

    def test_watch_from_before_the_start(self):
        run, browser = self.folder / "fox-lora", self.browser
        run.mkdir()
        _, url = self.watch(run)
        browser.wait(f"{TEXT.format('#note')} === 'No run has begun here yet.'")
        runs.write_status(run, "reading", stage="check pictures", done=0, total=400)
        browser.wait(f"{TEXT.format('#standing')}.includes('Reading model and data')")
        runs.write_status(run, "encoding", stage="image_latents", done=120, total=400, seconds_left=95)
        browser.wait(f"{TEXT.format('#standing')}.includes('Encoding')")
        self.assertIn("image_latents, 120 of 400 · 1 min 35 s left", self.text("#standing"))
        self.assertEqual(browser.evaluate("document.querySelector('#standing .meter i').style.width"), "30%")
        self.assertEqual(self.text("#status"), "encoding")
        self.assertEqual(self.text("#summary"), "")
        self.shoot_as_it_is("watch-encoding")

        runs.write_status(run, "training", stage="train", done=0, total=800)
        browser.wait(f"{TEXT.format('#standing')}.includes('train, 0 of 800')")
        shutil.copytree(runs.make_run(self.folder / "made", 1, 800), run, dirs_exist_ok=True)
        rng = random.Random(5)
        with open(run / "log.jsonl", "w") as log:
            for step in range(1, 101):
                log.write(runs.record(step, 800, rng, 0.3, time.time() - 45))
        browser.wait(f"{TEXT.format('.facts')}.includes('100of 800')")
        self.assertEqual(self.text("#standing"), "")
        self.assertEqual(self.text("#status"), "live")

        sentence = "cannot write fox-lora/step-100.safetensors: No space left on device (after 12.0 MiB); what stood there before is unchanged"
        runs.write_status(run, "failed", stage="saving", sentence=sentence, exit_code=3)
        browser.wait(f"{TEXT.format('#status')} === 'failed'")
        self.assertIn(sentence, self.text("#standing"))
        self.assertIn("exit code 3", self.text("#standing"))
        self.assertIn("--resume", self.text("#standing"))
        self.shoot_as_it_is("watch-failed")
        self.check_quiet(url)

    def test_runs_that_ended_before_their_first_step(self):
        ended = subprocess.Popen(["sleep", "1000"])
        names = ["killed", "failed", "encodes", "trained"]
        killed, failed, encodes, trained = (self.folder / name for name in names)
        runs.write_status(killed, "loading", process=ended.pid)
        runs.write_status(failed, "failed", stage="reading", sentence="no usable rows: </script><b>'pictures/3.png'</b> is not there", exit_code=3)
        runs.write_status(encodes, "encoding", stage="image_latents", done=120, total=400, seconds_left=95)
        runs.write_status(runs.make_run(trained, 100, 100), "done", exit_code=0)
        ended.kill()
        ended.wait()
        for run, text in ((killed, f"Process {ended.pid} is not running any more"), (failed, "no usable rows: </script><b>'pictures/3.png'</b> is not there"),
                          (encodes, "When this page was made."), (trained, "")):
            report(run)
            self.browser.open(f"file://{run}/report.html")
            self.assertIn(text, self.text("#standing"))
        self.assertEqual(self.text("#standing"), "")
        self.assertIn("100of 100", self.text(".facts"))
        self.browser.open(f"file://{killed}/report.html")
        self.assertIn("loading weights", self.text("#standing"))
        self.shoot_as_it_is("report-killed")

        _, url = self.watch(killed, failed, encodes, trained)
        self.browser.wait(f"{TEXT.format('h1')} === '4 runs'")
        self.browser.wait("document.querySelectorAll('.standing').length === 3")
        self.assertEqual(self.text("#status"), "live")
        self.shoot_as_it_is("watch-standing")
        runs.write_status(encodes, "interrupted", stage="image_latents", done=130, total=400, sentence="interrupted while preparing the data", exit_code=130)
        self.browser.wait(f"{TEXT.format('#status')} === 'all have ended'")
        self.check_quiet(url)

    def test_watch_several(self):
        names = ["fox-r16", "fox-r64"]
        folders = [runs.make_run(self.folder / name, 200, 800) for name in names]
        _, url = self.watch(*folders)
        browser, rng = self.browser, random.Random(5)
        browser.wait(f"{TEXT.format('h1')} === '2 runs'")
        self.assertEqual([browser.evaluate(f"document.querySelectorAll('#legend button')[{i}].textContent") for i in range(2)], names)
        with open(folders[1] / "log.jsonl", "a") as log:
            for step in range(201, 301):
                log.write(runs.record(step, 800, rng, 0.3, time.time() - 0.45 * step))
        browser.wait(f"{TEXT.format('#summary')}.includes('300')")
        self.assertEqual(browser.evaluate("document.querySelectorAll('.chart.wide .line').length"), 2)
        for scheme in ("light", "dark"):
            browser.colors(scheme)
            browser.screenshot(SHOTS / f"watch-several-{scheme}.png")
        self.check_quiet(url)


if __name__ == "__main__":
    SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
