#!/usr/bin/env python3
"""The drawing and the files pages of Burnish Studio in headless Chromium, on the small FLUX: `./dev test --browser`.

usage: check_studio_drawing.py FOLDER

Draws a grid with two LoRAs, opens the settings of one of its pictures again, by a press and from the file, looks at a LoRA and converts it.
"""
import json, pathlib, shutil, struct, tempfile, unittest, zlib

import check_studio
from browser import Browser

MODEL = check_studio.MODEL


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def foreign_png(path, parameters):
    """A picture as AUTOMATIC1111's program writes what it was drawn by."""
    rows = zlib.compress((b"\0" + bytes(3 * 8)) * 8)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) + chunk(b"tEXt", b"parameters\0" + parameters.encode("latin1")) +
                     chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def lora(path, *layers, rank=4, side=64):
    """A LoRA in diffusers' names whose factors are small numbers."""
    sizes = {f"transformer.{layer}.lora_{factor}.weight": [rank, side] if factor == "A" else [side, rank] for layer in layers or ["transformer_blocks.0.attn.to_q"] for factor in "AB"}
    header, at = {"__metadata__": {"trained_by": "a test"}}, 0
    for name, shape in sizes.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * rank * side]}
        at += 4 * rank * side
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(struct.pack("<f", 0.1 + 0.01 * (i % 7)) for i in range(at // 4)))


def side_of(model):
    """How wide the layer is that the LoRAs adapt."""
    with next(model.glob("transformer/*.safetensors")).open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return header["transformer_blocks.0.attn.to_q.weight"]["shape"][0]


class DrawingAndFiles(unittest.TestCase):
    click, type, wait_text, shoot = (getattr(check_studio.TheWay, name) for name in ("click", "type", "wait_text", "shoot"))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "loras").mkdir()
        for name in ("blue", "red"):
            lora(self.folder / f"loras/{name}.safetensors", side=side_of(MODEL))
        self.studio = check_studio.Studio(self.folder)
        self.addCleanup(self.studio.close)
        self.browser = self.enterContext(Browser())
        self.browser.open(self.studio.address)

    def value(self, selector):
        return self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).value")

    def choose(self, selector, text):
        """The option of a list that begins so."""
        self.browser.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        self.browser.evaluate(f"(() => {{ const box = document.querySelector({json.dumps(selector)}); box.value = [...box.options].find(one => one.textContent.startsWith({json.dumps(text)})).value;"
                              "box.dispatchEvent(new Event('change', {bubbles: true})); })()")

    def give(self, selector, *paths):
        """Files to an input, as a drop gives them."""
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        self.browser.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        node = self.browser.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def test_a_grid_is_drawn_and_its_settings_are_opened_again(self):
        self.click("Drawing", "nav a")
        self.type("#draw-model", str(MODEL))
        self.choose("#draw-add", "blue")
        self.choose("#draw-add", "red")
        self.type("#draw-prompts", "a square\na circle")
        self.type("#draw-sizes", "64 by 64")
        self.wait_text(".draw-form [role=status]", "is no size")
        self.type("#draw-sizes", "64x64")
        self.type("#draw-seeds", "7")
        self.type("#draw-steps", "2")
        self.click("Before and after")
        self.wait_text(".draw-form [role=status]", "4 pictures")
        self.shoot("drawing-form")
        self.type("#draw-name", "grid")
        self.click("Draw", ".draw-form button")
        self.wait_text(".drawn [role=status]", "Done · 4 of 4")
        self.browser.wait("[...document.querySelectorAll('.sheet img')].length === 4 && [...document.querySelectorAll('.sheet img')].every(one => one.complete && one.naturalWidth === 64)")
        heads = self.browser.evaluate("[...document.querySelectorAll('.sheet th')].map(one => one.textContent)")
        self.assertEqual(heads, ["strength 0", "strength 1", "a square", "a circle"])
        self.assertEqual(self.browser.evaluate("document.querySelector('.drawn').innerText").split("\n")[:4], ["grid", "Choose between pairs", "Load its settings", "Move to the bin"])
        self.assertNotIn("null", self.browser.evaluate("document.querySelector('main').innerText"))
        pictures = [(self.folder / f"drawings/grid/000{i}.png").read_bytes() for i in range(4)]
        self.assertEqual(len(set(pictures)), 4)
        self.shoot("drawing")

        # The settings of one of them, by a press.
        self.assertEqual(self.value("#draw-strengths"), "0, 1", "the form has what was drawn")
        self.browser.evaluate("document.querySelectorAll('.sheet tbody tr')[1].querySelectorAll('button')[1].click()")
        self.wait_text(".viewer dd", "a circle")
        self.shoot("picture")
        self.click("Draw with these settings")
        self.wait_text(".toast", "The settings are in the form.")
        self.assertEqual([self.value(f"#draw-{box}") for box in ("prompts", "strengths", "seeds", "sizes", "steps")], ["a circle", "1", "7", "64x64", "2"])
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('.loras .file')].map(one => one.firstChild.textContent)"), ["blue.safetensors", "red.safetensors"])

        # What burnish wrote into a file says the same, and draws the same picture again.
        self.type("#draw-prompts", "something else")
        file = next(self.folder / f"drawings/grid/000{i}.png" for i in range(4) if b"a circle" in pictures[i] and b"blue.safetensors" in pictures[i])
        self.give("#draw-files", file)
        self.browser.wait("document.querySelector('#draw-prompts').value === 'a circle'")
        self.assertEqual([self.value(f"#draw-{box}") for box in ("seeds", "sizes", "steps", "guidance", "model")], ["7", "64x64", "2", "1", str(MODEL)])
        self.type("#draw-name", "again")
        self.click("Draw", ".draw-form button")
        self.wait_text(".drawn h2", "again")
        self.wait_text(".drawn [role=status]", "Done · 1 of 1")
        self.assertEqual((self.folder / "drawings/again/0000.png").read_bytes(), file.read_bytes())

        # What others write can be taken too.
        foreign = self.folder / "foreign.png"
        foreign_png(foreign, "a boat, at dusk <lora:red:0.6>\nNegative prompt: blurry, grey\nSteps: 20, Sampler: Euler a, CFG scale: 7.5, Seed: 42, Size: 512x768, Model: x")
        self.give("#draw-files", foreign)
        self.browser.wait("document.querySelector('#draw-prompts').value === 'a boat, at dusk'")
        self.assertEqual([self.value(f"#draw-{box}") for box in ("negative", "seeds", "sizes", "steps", "guidance")], ["blurry, grey", "42", "512x768", "20", "7.5"])
        self.assertEqual([self.value(".loras input"), self.browser.evaluate("document.querySelectorAll('.loras li').length")], ["0.6", 1])
        self.assertEqual(self.browser.complaints, [])

    def test_what_each_block_does_is_drawn(self):
        lora(self.folder / "loras/several.safetensors", *(f"transformer_blocks.{i}.attn.to_{part}" for i in range(2) for part in "qkv"), side=side_of(MODEL))
        self.click("Drawing", "nav a")
        self.type("#draw-model", str(MODEL))
        self.choose("#draw-add", "several")
        self.type("#draw-prompts", "a square")
        self.type("#draw-sizes", "64x64")
        self.type("#draw-steps", "2")
        self.type("#draw-without", "1.5")
        self.click("Draw", ".draw-form button")
        self.wait_text(".toast", "must be a whole number")
        self.type("#draw-without", "2")
        self.wait_text(".draw-form [role=status]", "3 pictures")
        self.type("#draw-name", "blocks")
        self.click("Draw", ".draw-form button")
        self.wait_text(".drawn [role=status]", "Done · 3 of 3")
        heads = self.browser.evaluate("[...document.querySelectorAll('.sheet th')].map(one => one.textContent)")
        self.assertEqual(heads, ["whole", "without group 1", "without group 2"])
        pictures = [(self.folder / f"drawings/blocks/000{i}.png").read_bytes() for i in range(3)]
        self.assertEqual(len(set(pictures)), 3)
        self.shoot("drawing-blocks")

        # One with its layers weakened, and the picture brings that into the form again.
        self.type("#draw-without", "")
        self.type(".loras input[placeholder]", ".*attn.*=0")
        self.type("#draw-name", "layers")
        self.click("Draw", ".draw-form button")
        self.wait_text(".drawn h2", "layers")
        self.wait_text(".drawn [role=status]", "Done · 1 of 1")
        drawn = self.folder / "drawings/layers/0000.png"
        self.assertNotEqual(drawn.read_bytes(), pictures[0])
        self.type(".loras input[placeholder]", "")
        self.give("#draw-files", drawn)
        self.browser.wait("document.querySelector('.loras input[placeholder]').value === '.*attn.*=0'")

    def test_choices_between_pictures_become_a_dataset_of_pairs(self):
        self.click("Drawing", "nav a")
        self.type("#draw-model", str(MODEL))
        self.type("#draw-prompts", "a square\na circle")
        for box, text in (("sizes", "64x64"), ("seeds", "1, 2"), ("steps", "1"), ("name", "grid")):
            self.type(f"#draw-{box}", text)
        self.click("Draw", ".draw-form button")
        self.wait_text(".drawn [role=status]", "Done · 4 of 4")
        self.click("Choose between pairs", ".drawn button")
        self.wait_text(".chooser [role=status]", "2 pairs")
        self.browser.wait("[...document.querySelectorAll('.choice img')].every(one => one.complete && one.naturalWidth === 64)")
        self.shoot("choosing")
        self.browser.press("ArrowRight")
        self.wait_text(".chooser [role=status]", "The last pair")
        self.click("Neither", ".chooser button")
        self.wait_text(".chooser [role=status]", "1 choice was added")
        liked = self.folder / "datasets/grid-liked"
        self.assertEqual(sorted(str(path.relative_to(liked)) for path in liked.rglob("*") if path.is_file()), [".rejected/grid-0001.png", "grid-0001.json", "grid-0001.png", "grid-0001.txt"])
        self.assertEqual([(liked / name).read_bytes() for name in ("grid-0001.png", ".rejected/grid-0001.png")], [(self.folder / f"drawings/grid/000{i}.png").read_bytes() for i in (1, 0)])
        self.click("Train on them", ".chooser a")
        self.browser.wait("document.querySelector('#toml')?.value.includes('task = \"dpo\"')")
        self.assertIn('dataset_base_path = "../datasets/grid-liked"', self.value("#toml"))
        self.assertEqual(self.browser.complaints, [])

    def test_a_file_is_looked_at_and_converted(self):
        self.click("Files", "nav a")
        self.wait_text(".sets a", "blue.safetensors")
        own = self.folder / "own.safetensors"
        lora(own, side=side_of(MODEL))
        self.give("#add-files", own)
        self.wait_text(".detail dd", "adapter: lora of rank 4 on 1 layer")
        self.wait_text(".detail dd", "diffusers")
        self.browser.evaluate("document.querySelector('.report details').open = true")
        self.wait_text(".report dd", "a test")
        self.shoot("file")
        self.choose("#convert-lora_format", "kohya")
        self.type("#convert-model", str(MODEL))
        self.type("#convert-name", "kohya.safetensors")
        self.click("Convert", ".convert button")
        self.wait_text(".sets .state", "Done")
        self.wait_text(".sets .file", "kohya.safetensors")
        self.shoot("files")
        self.click("kohya.safetensors", ".sets a.file")
        self.wait_text(".detail dd", "sd-scripts, ComfyUI, diffusers")
        header = (self.folder / "files/kohya.safetensors").read_bytes()[:2000]
        self.assertIn(b"lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight", header)
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    check_studio.SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
