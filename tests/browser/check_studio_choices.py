#!/usr/bin/env python3
"""What Burnish Studio lets people choose between: models, GPUs, tags of runs, saves, drawings of a run: `./dev test --browser`.

usage: check_studio_choices.py FOLDER

Screenshots are left in FOLDER, to be looked at.
"""
import json, os, pathlib, shutil, subprocess, sys, unittest

import check_studio, check_studio_faults, fake_hub, runs

TESTS = pathlib.Path(__file__).resolve().parents[1]


class Choices(unittest.TestCase):
    (setUp, tearDown, wait_text, shoot, click, press, write, value, go, choose, wait, pause, form) = (
        getattr(check_studio_faults.Faults, name) for name in "setUp tearDown wait_text shoot click press write value go choose wait pause form".split())

    # --- models ---------------------------------------------------------------------------------------------------------------

    def test_models_say_by_plan_whether_they_train_here(self):
        self.go("#/new")
        self.wait_text(".tile .judged.good", "A LoRA fits: it needs")
        self.assertRegex(self.browser.evaluate("document.querySelector('.tile-words .explain').textContent"), r"^flux · [\d.]+ MiB · tiny-flux$")
        groups = "[...document.querySelectorAll('#model-away optgroup')].map(one => one.label)"
        self.browser.wait(f"{groups}[0] === 'Fit this machine' || {groups}.includes('Too large as they are')", 120)
        self.assertLessEqual(set(self.browser.evaluate(groups)), {"Fit this machine", "Not planned yet", "Too large as they are"})
        shutil.copytree(check_studio.MODEL, self.folder / "models/own")
        self.go("#/models")
        self.wait_text(".model-rows .number", "flux · folder · ")
        self.wait_text(".model-rows .fit .explain", "All its weights train too: ")
        self.assertGreater(self.browser.evaluate("document.querySelectorAll('.model-rows li').length"), 30)
        known, all_rows = "document.querySelectorAll('.model-rows .judged.fit').length", "document.querySelectorAll('.model-rows li').length"
        self.browser.wait(f"{known} === {all_rows}", 300)
        before = self.browser.evaluate(all_rows)
        self.shoot("choices-models")
        self.click("Only what fits", "label")
        self.browser.wait(f"{all_rows} < {before}")
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('.model-rows .judged.bad')].length"), 0)

    # --- GPUs -----------------------------------------------------------------------------------------------------------------

    def test_runs_on_different_gpus_go_on_side_by_side(self):
        """A library in place of the driver's says that there are two; which one a run has is seen by its variables."""
        library = self.folder / "nvml/libnvidia-ml.so.1"
        library.parent.mkdir()
        subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", TESTS / "studio/made_up_nvml.cpp", "-o", library], check=True)
        self.browser.open("about:blank")
        self.studio.close()
        self.studio = check_studio.Studio(self.folder, LD_LIBRARY_PATH=f"{library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}", BURNISH_MADE_UP_GPUS="1")
        self.addCleanup(check_studio.TheWay.end_jobs, self)
        self.addCleanup(self.studio.close)
        self.browser.open(self.studio.address)
        for name, gpu in (("one", 0), ("two", 1), ("three", 1)):
            self.form()
            self.write("#run-name", name)
            self.write("#option-max_steps", "4000")
            self.choose("#run-gpu", f"GPU {gpu} · Made-up 9000 · 24 GiB")
            self.wait_text(".judged", "It fits.")
            if name == "one":
                self.shoot("choices-gpu")
            self.click("Start training")
            self.wait_text(".run, .waiting li", name)
        self.browser.wait("[...document.querySelectorAll('.run')].filter(one => /GPU [01].*step \\d/.test(one.innerText.replaceAll('\\n', ' '))).length === 2", 120)
        self.wait_text(".waiting li", "three GPU 1 · 4,000 steps")
        self.shoot("choices-gpus")
        seen = {}
        for job in self.studio.jobs():
            if "process" in job:
                variables = dict(one.split("=", 1) for one in pathlib.Path(f"/proc/{job['process']['id']}/environ").read_text().split("\0") if "=" in one)
                seen[job["run"]] = (variables.get("CUDA_VISIBLE_DEVICES"), variables.get("CUDA_DEVICE_ORDER"))
        self.assertEqual(seen, {"one": ("0", "PCI_BUS_ID"), "two": ("1", "PCI_BUS_ID")})
        self.click("Edit", ".waiting button")  # it comes back into the form with its GPU
        self.browser.wait("document.querySelector('#run-gpu')?.value === '1'")
        self.assertEqual(self.value("#run-name"), "three")

    def test_a_machine_without_several_gpus_asks_for_none(self):
        self.form()
        self.assertTrue(self.browser.evaluate("document.querySelector('#run-gpu').closest('.field').hidden"))

    # --- tags -----------------------------------------------------------------------------------------------------------------

    def test_runs_have_tags_and_are_found_by_them(self):
        for name in ("fox", "owl", "cat"):
            runs.write_status(runs.make_run(self.folder / f"runs/{name}", 100, 100), "done", exit_code=0, steps=100)
        (self.folder / "runs/owl/tags.txt").write_text("birds\n")
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.press("#run-tag")
        for tag in ("faces", "good"):
            self.browser.write(tag)
            self.browser.press("Enter")
            self.wait_text(".tag-list .run-tag", tag)
        self.wait(lambda: (self.folder / "runs/fox/tags.txt").exists() and (self.folder / "runs/fox/tags.txt").read_text() == "faces\ngood\n")
        self.press("[aria-label='Remove the tag \"good\"']")
        self.wait(lambda: (self.folder / "runs/fox/tags.txt").read_text() == "faces\n")
        self.shoot("choices-tags")
        self.click("Runs", "nav a")
        self.wait_text(".run .run-tag", "faces")
        shown = "[...document.querySelectorAll('.run strong')].map(one => one.textContent)"
        self.click("birds", ".chip")
        self.browser.wait(f"{shown}.join() === 'owl'")
        self.shoot("choices-tagged")
        self.click("birds", ".chip")
        self.browser.wait(f"{shown}.length === 3")

    # --- what somebody wants to hear ------------------------------------------------------------------------------------------

    def test_the_browser_tells_that_a_run_has_ended(self):
        run = runs.make_run(self.folder / "runs/long", 50, 400)
        process = subprocess.Popen(["sleep", "120"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        runs.write_status(run, "training", process.pid, steps=400)
        self.browser.call("Page.addScriptToEvaluateOnNewDocument", source="""window.told = [];
            window.Notification = class { static permission = "default"; static async requestPermission() { return Notification.permission = "granted"; } constructor(text) { told.push(text); } };""")
        self.browser.evaluate("location.href = '/runs/long/'")
        self.click("Notify me when it ends")
        self.wait_text(".toast", "The browser tells you when it ends.")
        self.browser.evaluate("Object.defineProperty(document, 'hidden', {value: true}); 0")  # somebody looks at another page
        runs.write_status(run, "done", process.pid, exit_code=0, steps=400)
        self.browser.wait("window.told.length === 1")
        self.assertEqual(self.browser.evaluate("window.told"), ["long: Done"])

    # --- the best save --------------------------------------------------------------------------------------------------------

    def test_saves_are_ranked_with_what_they_drew(self):
        run = runs.make_run(self.folder / "runs/fox", 300, 300)
        runs.write_status(run, "done", exit_code=0, steps=300)
        for step in (100, 200, 300):
            header = json.dumps({"dit.to_q.lora_A.weight": {"dtype": "F32", "shape": [1, 4], "data_offsets": [0, 16]}}).encode()
            (run / f"step-{step}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
        pictures = [{"row": i, "file": str(path), "caption": "a face"} for i, path in enumerate(sorted(self.faces.glob("*.png"))[:4])]
        (run / "visits.jsonl").write_text(json.dumps({"step": 0, "samples": pictures}) + "\n")
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.click("Best save", "[role=tab]")
        self.write("#best-model", str(TESTS / "golden/likeness/clip"))
        self.click("Rank the saves")
        self.wait_text(".best .judged.good", "Take step ", 120)
        self.browser.wait("document.querySelectorAll('.ranking tbody tr').length === 3")
        self.browser.wait("[...document.querySelectorAll('.ranking img')].length === 9 && [...document.querySelectorAll('.ranking img')].every(one => one.naturalWidth === 64)")
        best = self.browser.evaluate("document.querySelector('.ranking tbody th span').textContent")
        self.assertIn(best.split()[1], self.browser.evaluate("document.querySelector('.best .judged').textContent"))
        self.assertIn("Like the pictures", self.browser.evaluate("document.querySelector('.ranking thead').innerText"))
        self.shoot("choices-best")
        self.browser.evaluate("window.isOld = true; location.reload()")
        self.browser.wait("!window.isOld")
        self.click("Best save", "[role=tab]")
        self.wait_text(".best .judged.good", "Take step ")  # it is kept
        # By the loss alone, and with a model that is none.
        self.browser.evaluate("document.querySelector('#best-model').value = ''")
        self.click("Rank the saves")
        self.browser.wait("document.querySelector('.ranking thead') !== null && !document.querySelector('.ranking thead').innerText.includes('Like the pictures')")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.ranking img').length"), 9, "what was drawn is there though nothing looked at it")
        self.write("#best-model", "nosuch")
        self.click("Rank the saves")
        self.wait_text(".best .problem", "nosuch")
        # One of them is drawn with.
        self.write("#best-model", str(TESTS / "golden/likeness/clip"))
        self.click("Rank the saves")
        self.browser.wait("document.querySelectorAll('.ranking tbody tr').length === 3")
        self.browser.click("document.querySelectorAll('.ranking tbody tr')[0].querySelector('a.button')")
        self.browser.wait("document.querySelector('.loras .file') !== null")
        self.assertIn(f"fox-step-{best.split()[1]}.safetensors", self.browser.evaluate("document.querySelector('.loras .file').textContent"))

    # --- a hub ----------------------------------------------------------------------------------------------------------------

    def test_a_run_is_published_with_its_card(self):
        """To a hub of this machine; it has then what huggingface_hub sends it of the same folder."""
        hub = fake_hub.FakeHub()
        self.addCleanup(hub.shutdown)
        subprocess.run([check_studio.BURNISH, "train", "--model", str(check_studio.MODEL), "--dataset_base_path", str(self.faces), "--height", "64", "--width", "64", "--lora_rank", "2", "--max_steps", "2",
                        "--output_path", str(self.folder / "runs/fox")], check=True, capture_output=True)
        self.browser.open("about:blank")
        self.studio.close()
        self.studio = check_studio.Studio(self.folder, HF_ENDPOINT=hub.address, HF_TOKEN="wrong", HF_HUB_OFFLINE="")
        self.addCleanup(lambda: self.studio.close())
        self.browser.open(self.studio.address)
        self.wait_text(".run strong", "fox")
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.click("Publish …")
        self.press("#publish-description")
        self.browser.write("Faces in pixels.")
        self.press("#publish-license")
        self.browser.write("mit")
        self.click("Make the card")
        self.wait_text(".publishing [role=status]", "The card is made.")
        self.assertIn("Faces in pixels.", self.browser.evaluate("document.querySelector('.publishing pre').textContent"))
        self.click("Publish", ".publishing .primary")
        self.wait_text(".toast", "Say the name on Hugging Face")
        self.press("#publish-id")
        self.browser.write("me/fox")
        self.click("Publish", ".publishing .primary")
        self.wait_text(".publishing .problem", "Invalid username or password; the token has to be one that may write there")
        self.shoot("choices-publish")
        hub.token = "wrong"
        self.click("Publish", ".publishing .primary")
        self.wait_text(".publishing [role=status]", f"Published: {hub.address}/me/fox")
        sent = {path.relative_to(self.folder / "runs/fox/card").as_posix(): path.read_bytes() for path in (self.folder / "runs/fox/card").rglob("*") if path.is_file()}
        self.assertEqual(hub.models["me/fox"], sent)
        self.assertIn("README.md", sent)
        self.assertTrue(hub.private["me/fox"])
        theirs = "import sys; from huggingface_hub import HfApi; api = HfApi(endpoint=sys.argv[1], token='wrong'); api.create_repo('me/other'); api.upload_folder(repo_id='me/other', folder_path=sys.argv[2])"
        python = subprocess.run([sys.executable, "-c", theirs, hub.address, str(self.folder / "runs/fox/card")], capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": str(TESTS.parent / ".deps/golden"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", "HF_HOME": str(self.folder / "hf")})
        if "No module named" in python.stderr:
            return  # it is only installed where golden files are made
        self.assertEqual(python.returncode, 0, python.stderr[-2000:])
        self.assertEqual(hub.models["me/other"], sent)
        ours, other = ([line for line in commit if line["key"] != "header"] for commit in (hub.commits[-2], hub.commits[-1]))
        ours, other = (sorted(json.dumps(line, sort_keys=True) for line in lines) for lines in (ours, other))
        self.assertEqual(ours, other)

    # --- drawings -------------------------------------------------------------------------------------------------------------

    def test_drawings_are_grouped_by_their_runs(self):
        for name in ("fox", "owl"):
            runs.write_status(runs.make_run(self.folder / f"runs/{name}", 100, 100), "done", exit_code=0, steps=100)
        for i, (name, run) in enumerate((("a", "fox"), ("b", "fox"), ("c", "owl"), ("d", ""), ("e", "fox"), ("f", "owl"))):
            folder = self.folder / "drawings" / name
            folder.mkdir(parents=True)
            (folder / "grid.json").write_text(json.dumps({"settings": {"run": run, "prompts": ["a"]}, "cells": [{"prompt": "a", "picture": 0}], "total": 1}))
            check_studio.png(folder / "0000.png", (40 * i, 90, 120))
            os.utime(folder, (1.7e9 + i, 1.7e9 + i))
        self.go("#/draw")
        groups = "[...document.querySelectorAll('.drawing-groups summary')].map(one => one.innerText.replace(/\\s+/g, ' '))"
        self.browser.wait(f"{groups}.length === 3")
        self.assertEqual(self.browser.evaluate(groups), ["owl 2", "fox 3", "Other models 1"])
        self.shoot("choices-drawings")
        self.press(".search-drawings")
        self.browser.write("fox")
        self.browser.wait(f"{groups}.join() === 'fox 3'")
        self.click("e", ".drawing-groups a")
        self.wait_text(".drawn h2", "e")


if __name__ == "__main__":
    check_studio.SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
