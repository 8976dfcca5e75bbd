#!/usr/bin/env python3
"""The first five minutes in Burnish Studio by mouse alone, in headless Firefox where that is installed: `./dev test --browser`.

usage: check_studio_firefox.py FOLDER

Screenshots are left in FOLDER, to be looked at.
"""
import json, unittest

import check_studio, check_studio_first
from firefox import Firefox, find_firefox


class InFirefox(check_studio_first.FirstFiveMinutes):
    make_browser = Firefox

    def shoot(self, name):
        """Each width once, in the colors that the system asks for."""
        for width, called in check_studio.WIDTHS.items():
            self.browser.resize(width, 900)
            self.browser.wait(f"innerWidth === {width}")
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0, f"{name} is wider than {width} pixels")
            if called:
                self.browser.screenshot(check_studio.SHOTS / f"studio-firefox-{name}-{called}.png", whole=False)
        self.assertEqual(self.browser.audit(), [], name)
        self.browser.resize(1280, 900)

    def test_a_dataset_is_edited(self):
        """Captions that are typed and undone, a mask that is drawn, a picture that is deleted and comes back."""
        faces = self.folder / "datasets/faces"
        faces.mkdir(parents=True)
        for path in check_studio_first.PICTURES.iterdir():
            (faces / path.name).write_bytes(path.read_bytes())
        self.browser.evaluate("location.hash = '#/data?set=faces'")
        self.browser.wait("document.querySelectorAll('.item').length > 3")
        box = "document.querySelector('textarea[data-file]')"
        file = self.browser.evaluate(f"{box}.dataset.file")
        caption = faces / file.replace(".png", ".txt")
        before = caption.read_text()
        self.browser.click(box)
        self.browser.write("seen in Firefox, ")
        self.browser.wait(f"fetch('/api/datasets/faces/items').then(answer => answer.json()).then(all => all.find(one => one.file === {json.dumps(file)}).caption.includes('seen in Firefox'))")
        self.assertNotEqual(caption.read_text(), before)
        self.browser.click(f"document.querySelector('[aria-label^=\"Mask: {file}\"], [aria-label^=\"Mask\"]')")
        self.browser.wait("document.querySelector('.board .mask') !== null")
        self.browser.click("document.querySelector('.board')")
        self.click("Save the mask")
        self.browser.wait("fetch('/api/datasets/faces/items').then(answer => answer.json()).then(all => all.some(one => one.mask !== null))")
        self.browser.wait("document.querySelector('dialog[open]') === null")
        self.shoot("dataset")
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    check_studio.SHOTS.mkdir(parents=True, exist_ok=True)
    if find_firefox():
        unittest.main()
    print("Firefox is not installed; its check is left out")
