#!/usr/bin/env python3
"""The machine's page of Burnish Studio in headless Chromium: `./dev test --browser`.

usage: check_studio_machine.py FOLDER

Screenshots, light and dark, wide and narrow, are left in FOLDER, to be looked at.
"""
import pathlib, shutil, sys, tempfile, unittest

SHOTS = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/pages")

from browser import Browser
from check_studio import Studio

FACTS = """(() => {
  const charts = [...document.querySelectorAll('.small-chart')];
  return {cards: document.querySelectorAll('.machine-card').length, labels: charts.map(one => one.getAttribute('aria-label')),
          lines: charts.map(one => one.querySelector('.line').getAttribute('d')), overflow: document.documentElement.scrollWidth > innerWidth};
})()"""


class Machine(unittest.TestCase):
    def test_the_machine_is_shown(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        studio = Studio(folder)
        self.addCleanup(studio.close)  # which harms none that has ended
        browser = self.enterContext(Browser())
        browser.open(studio.address)
        browser.evaluate("[...document.querySelectorAll('nav a')].find(one => one.textContent === 'Machine').click()")
        browser.wait("document.querySelectorAll('.machine-card').length >= 3")
        browser.wait("[...document.querySelectorAll('.small-chart .line')].every(one => one.getAttribute('d').includes('L'))")
        facts = browser.evaluate(FACTS)
        self.assertRegex(facts["labels"][-2], r"^Processor: now \d+ %, at most \d+ % in the last five minutes$")
        self.assertRegex(facts["labels"][-1], r"^Memory: now \d+ %, at most \d+ % in the last five minutes$")
        browser.wait(f"{FACTS}.lines[0].length > {len(facts['lines'][0])}")
        browser.wait("document.querySelector('[aria-busy]') === null")
        self.assertGreater(len(browser.evaluate("document.querySelector('#notes').textContent")), 10, "what doctor notes")
        for width in (400, 1280, 1920):
            browser.resize(width, 900)
            self.assertFalse(browser.evaluate(FACTS)["overflow"], f"at {width} pixels")
            for scheme in ("light", "dark") if width != 1920 else ("light",):
                browser.colors(scheme)
                browser.screenshot(SHOTS / f"studio-machine-{scheme}-{width}.png")
                self.assertEqual(browser.audit(), [], scheme)
        self.assertEqual(browser.complaints, [])

        # It is closed from here.
        browser.resize(1280, 900)
        browser.evaluate("window.confirm = () => true; [...document.querySelectorAll('button')].find(one => one.textContent === 'Close, runs go on').click()")
        browser.wait("document.querySelector('#link').textContent.includes('has ended')")
        self.assertEqual(studio.process.wait(10), 0)
        self.assertFalse((folder / ".studio.json").exists())


if __name__ == "__main__":
    SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
