#!/usr/bin/env python3
"""What people ran into in Burnish Studio, by mouse and keyboard: `./dev test --browser`.

usage: check_studio_faults.py FOLDER

Each test is something that a person did and that went wrong once: a preset that only looked chosen, a form that forgot, a caption that was lost. Runs are folders that look like
those of runs; nothing is trained. Screenshots are left in FOLDER, to be looked at.
"""
import contextlib, http.client, http.server, json, pathlib, random, shutil, socket, subprocess, tempfile, threading, time, unittest

import check_studio, runs
from browser import Browser

class Proxy(http.server.ThreadingHTTPServer):
    """Shows a server of this machine below a path, which it takes away, as proxies do. `port`: that server's."""
    daemon_threads = True

    def __init__(self, prefix):
        self.prefix, self.port = prefix, None
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def forward(self):
        try:
            self.pass_on()
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the browser went away, or the server

    def pass_on(self):
        if not self.path.startswith(self.server.prefix):
            return self.send_error(404)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with contextlib.closing(connection):
            connection.request(self.command, self.path[len(self.server.prefix) - 1:], body or None, {name: value for name, value in self.headers.items() if name.lower() != "connection"})
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "keep-alive", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read1(65536):
                self.wfile.write(piece)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = forward

    def log_message(self, *_):
        pass


PICTURES = pathlib.Path(__file__).resolve().parents[2] / "assets/demo-pictures"


class Faults(unittest.TestCase):
    wait_text, shoot = (getattr(check_studio.TheWay, name) for name in ("wait_text", "shoot"))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.faces = self.folder / "datasets/faces"
        shutil.copytree(PICTURES, self.faces)
        self.studio = check_studio.Studio(self.folder)
        self.addCleanup(self.studio.close)
        self.browser = self.enterContext(Browser())
        self.browser.open(self.studio.address)

    def click(self, text, kind="button, a", browser=None):
        (browser or self.browser).click(f"[...document.querySelectorAll({json.dumps(kind)})].find(one => one.textContent.trim().startsWith({json.dumps(text)}) && one.offsetParent !== null)")

    def press(self, selector, browser=None):
        (browser or self.browser).click(f"document.querySelector({json.dumps(selector)})")

    def write(self, selector, text, browser=None):
        """Takes the place of what stands there."""
        self.press(selector, browser)
        (browser or self.browser).evaluate("document.activeElement.select()")
        (browser or self.browser).write(text)

    def value(self, selector, browser=None):
        return (browser or self.browser).evaluate(f"document.querySelector({json.dumps(selector)})?.value")

    def go(self, hash, browser=None):
        (browser or self.browser).evaluate(f"location.hash = {json.dumps(hash)}")

    def choose(self, selector, text):
        self.browser.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        self.browser.evaluate(f"(() => {{ const box = document.querySelector({json.dumps(selector)}); box.value = [...box.options].find(one => one.textContent.startsWith({json.dumps(text)})).value;"
                              "box.dispatchEvent(new Event('change', {bubbles: true})); })()")

    def wait(self, is_true, seconds=20):
        end = time.monotonic() + seconds
        while not is_true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def undo_by_key(self):
        """Ctrl+Z where nobody types."""
        self.browser.evaluate("document.activeElement.blur()")
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", key="z", modifiers=2)

    def pause(self):
        """So that nothing is trained."""
        self.browser.evaluate("fetch('/api/queue', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"is_paused\": true}'}).then(() => 0)")

    def form(self):
        self.go("#/new")
        self.click("Small FLUX", ".tile")
        self.wait_text(".judged", "It fits.")

    def item(self, file):
        return f'textarea[data-file="{file}"]'

    def dataset(self, browser=None):
        self.go("#/data?set=faces", browser)
        (browser or self.browser).wait("document.querySelectorAll('.item').length > 3")

    def allow(self, status):
        """Answers that the browser notes as errors, and that the page speaks of."""
        self.browser.complaints = [one for one in self.browser.complaints if status not in one]

    def tearDown(self):
        self.assertEqual(self.browser.complaints, [])

    # --- the form -------------------------------------------------------------------------------------------------------------

    def test_a_preset_is_chosen_or_says_that_none_is(self):
        self.go("#/new")
        self.wait_text(".verdict", "Still needed: a model")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.verdict .problem').length"), 0, "nobody made a mistake yet")
        self.assertEqual(self.browser.evaluate("document.querySelector('#recipe').selectedOptions[0].textContent"), "No preset")
        self.click("Small FLUX", ".tile")
        self.browser.wait("document.querySelector('#recipe').selectedOptions[0].textContent === 'A LoRA on the small model that comes with burnish'")
        self.assertIn("learning_rate = 1e-3", self.value("#toml"))
        self.assertIn('dataset_base_path = "../datasets/faces"', self.value("#toml"), "it is the only one")

    def test_the_form_remembers(self):
        self.form()
        self.write("#option-max_steps", "77")
        self.go("#/data")
        self.browser.wait("document.querySelector('.set') !== null")
        self.go("#/new")
        self.browser.wait("document.querySelector('#option-max_steps')?.value === '77'")
        self.browser.call("Page.reload")
        self.browser.wait("document.querySelector('#option-max_steps')?.value === '77'")
        self.click("A run", ".segments button")
        self.assertEqual(self.value("#option-max_steps"), "77", "to look at another way to begin changes nothing")
        self.click("Blank", ".segments button")
        self.browser.wait("!document.querySelector('#toml').value.includes('max_steps')")
        self.click("Undo", ".toast button")
        self.browser.wait("document.querySelector('#option-max_steps').value === '77'")

    def test_the_draft_is_in_every_tab(self):
        self.form()
        self.browser.call("Runtime.evaluate", expression="window.other = open(location.origin + '/#/new'); 0", userGesture=True)
        steps = "other.document.querySelector('#option-max_steps')?.value"
        self.browser.wait(f"{steps} === '60'")
        self.write("#option-max_steps", "77")
        self.browser.wait(f"{steps} === '77'")
        self.browser.evaluate("other.close()")

    def test_settings_of_kohya_bring_their_name(self):
        settings = self.folder / "kohya.toml"
        settings.write_text('pretrained_model_name_or_path = "model.safetensors"\nnetwork_module = "networks.lora"\noutput_name = "fox"\nnetwork_dim = 12\nmax_train_steps = 55\n')
        self.go("#/new")
        self.click("Another trainer", ".segments button")
        self.browser.choose_files(lambda: self.press("#from-files"), [settings])
        self.browser.wait("document.querySelector('#run-name').value === 'fox'")
        self.browser.wait("document.querySelector('#option-lora_rank').value === '12'")

    def test_datasets_and_prompts_are_chosen_in_the_form(self):
        shutil.copytree(PICTURES, self.folder / "datasets/others")
        self.form_without_data()
        self.click("others", ".tile")
        self.wait_text(".judged", "It fits.")
        self.assertIn('dataset_base_path = "../datasets/others"', self.value("#toml"))
        self.write("#first-prompts", "a grinning cat")
        self.write("#run-name", "cat")
        self.pause()
        self.click("Start training")
        self.wait_text(".waiting li", "cat")
        settings = next((self.folder / "queue").glob("*-cat.toml")).read_text()
        path = next(line.split('"')[1] for line in settings.splitlines() if line.startswith("preview_prompts"))
        self.assertEqual((self.folder / "queue" / path).read_text(), "a grinning cat --w 192 --h 192 --d 42\n")
        self.assertIn("preview_steps = 15", settings)
        # What waits is opened again, with its prompts.
        self.click("Edit", ".waiting button")
        self.browser.wait("document.querySelector('#first-prompts')?.value.startsWith('a grinning cat')")
        self.assertEqual(self.value("#run-name"), "cat")

    def form_without_data(self):
        self.go("#/new")
        self.click("Small FLUX", ".tile")
        self.wait_text(".verdict", "Still needed: a dataset")

    def test_what_takes_less_is_what_fits(self):
        self.form()
        self.browser.evaluate("(() => { const box = document.querySelector('#toml'); box.value += '\\ndevice_memory = \"41MiB\"\\n'; box.dispatchEvent(new Event('input')); })()")
        self.wait_text(".judged", "It does not fit: it needs")
        self.browser.wait("document.querySelectorAll('.choices .number').length > 0")
        offered = self.browser.evaluate("[...document.querySelectorAll('.choices .number')].map(one => parseFloat(one.textContent))")
        self.assertTrue(offered and all(amount <= 41 for amount in offered), offered)
        self.shoot("faults-choices")
        self.click("Find settings that fit")
        self.wait_text(".judged", "It fits.")
        self.undo_by_key()
        self.wait_text(".judged", "It does not fit: it needs")
        self.set_limit("device_memory", "9MiB")
        self.wait_text(".judged", "9 MiB available")
        self.click("Find settings that fit")
        self.wait_text(".choices", "No setting that takes less memory makes it fit")
        self.set_limit("device_memory", None)
        self.set_limit("host_memory", "50MiB")
        self.wait_text(".judged", "Too little system memory")
        self.wait_text(".judged", "50 MiB available")

    def set_limit(self, name, value):
        line = f'{name} = "{value}"\\n' if value else ""
        self.browser.evaluate(f"(() => {{ const box = document.querySelector('#toml'); box.value = box.value.replace(/^{name}.*\\n/m, '') + '{line}'; box.dispatchEvent(new Event('input')); }})()")

    def test_names_and_help_of_fields_are_those_of_the_program(self):
        self.form()
        label = "[...document.querySelectorAll('label')].find(one => one.htmlFor === 'option-%s').innerText.replace(/\\s+/g, ' ')"
        self.assertEqual(self.browser.evaluate(label % "lora_rank"), "LoRA size lora_rank")
        self.assertIn("16 to 32 is usual", self.browser.evaluate("document.querySelector('#option-lora_rank-note').textContent"))
        self.click("More settings", "summary")
        self.click("Learning rate", "summary")
        self.assertEqual(self.browser.evaluate(label % "max_grad_norm"), "Gradient clipping max_grad_norm")
        page = subprocess.run([check_studio.BURNISH, "train", "--help", "all"], capture_output=True, text=True, check=True).stdout
        self.assertIn("Gradient clipping: clips the gradient norm", page)

    def test_errors_of_plans_stand_at_their_field(self):
        self.form()
        self.write("#first-side", "12")
        self.wait_text(".verdict .problem", "must be multiples of")
        self.browser.wait("[...document.querySelectorAll('[aria-invalid=true]')].length > 0")
        self.browser.evaluate("document.querySelector('#toml').value = 'model = [\"no/such/folder/here\"]\\ndataset_base_path = \"../datasets/faces\"\\n'; document.querySelector('#toml').dispatchEvent(new Event('input'))")
        self.browser.wait("document.querySelector('#option-model').getAttribute('aria-invalid') === 'true'", 20)

    def test_each_mistake_stands_at_its_field(self):
        """Those that only files show too, before a run is started."""
        self.form()
        for option, line, says in (
                ("dataset_base_path", 'dataset_base_path = "../datasets/nosuch"', "datasets/nosuch"),
                ("resolution", "resolution = [12]", "must be multiples of"),
                ("lora_target_modules", 'lora_target_modules = "nosuch"', "nosuch"),
                ("validation_metadata_path", 'validation_metadata_path = "no.csv"\nvalidation_steps = 5', "no.csv"),
                ("lora_checkpoint", 'lora_checkpoint = "no.safetensors"', "no.safetensors"),
                ("optimizer_args", 'optimizer_args = "nosuch=1"', "nosuch"),
                ("tokenizer_path", 'tokenizer_path = "nosuch"', "nosuch"),
                ("preview_prompts", 'preview_prompts = "nofile.txt"', "nofile.txt"),
                ("cache_path", 'cache_path = "/proc/x"', "/proc/x"),
                ("model", 'model = ["no/such/folder"]', "no/such/folder")):
            base = "" if option == "dataset_base_path" else 'dataset_base_path = "../datasets/faces"\n'
            model = "" if option == "model" else f'model = ["{check_studio.MODEL}"]\n'
            self.browser.evaluate(f"(() => {{ const box = document.querySelector('#toml'); box.value = {json.dumps(model + base + line)}; box.dispatchEvent(new Event('input')); }})()")
            self.wait_text(".verdict .problem", says)
            wrong = "[...document.querySelectorAll('[aria-invalid=true]')].map(one => one.id)"
            ids = {"resolution": ["option-resolution", "first-side"], "preview_prompts": ["first-prompts"]}.get(option, [f"option-{option}"])
            self.browser.wait(f"{wrong}.length > 0 && {wrong}.every(id => {json.dumps(ids)}.includes(id))")
            self.browser.evaluate("(() => { const box = document.querySelector('#toml'); box.value = ''; box.dispatchEvent(new Event('input')); })()")
            self.browser.wait(f"{wrong}.length === 0")

    def test_a_dataset_is_typed_by_its_name(self):
        shutil.copytree(PICTURES, self.folder / "datasets/others")
        self.form_without_data()
        self.click("Another folder, or a table", "summary")
        self.press("#option-dataset_base_path")
        self.browser.write("others")
        self.wait_text(".judged", "It fits.")
        self.assertIn('dataset_base_path = "../datasets/others"', self.value("#toml"))
        shutil.copytree(PICTURES, self.folder / "elsewhere")
        self.write("#option-dataset_base_path", "elsewhere")  # from the workspace on, as models are
        self.browser.wait("document.querySelector('#toml').value.includes('\"../elsewhere\"')")
        self.wait_text(".judged", "It fits.")
        self.go("#/data")
        self.browser.wait("document.querySelector('.set') !== null")
        self.go("#/new")
        self.browser.wait("document.querySelector('#option-dataset_base_path')?.value === 'elsewhere'")

    def test_a_preset_of_ones_own(self):
        self.form()
        self.write("#option-max_steps", "77")
        self.click("Settings as a file", "summary")
        self.browser.evaluate("window.prompt = () => 'faces, quick'")
        self.click("Save as preset")
        self.wait_text(".toast", 'The preset "faces, quick" is kept')
        self.click("Blank", ".segments button")
        self.browser.wait("!document.querySelector('#toml').value.includes('max_steps')")
        self.browser.call("Page.reload")
        self.click("Preset", ".segments button")
        self.choose("#recipe", "faces, quick")
        self.browser.wait("document.querySelector('#option-max_steps').value === '77'")

    def test_the_verdict_is_beside_the_form_on_small_screens(self):
        for width in (800, 390):
            self.browser.resize(width, 900)
            self.form()
            top = self.browser.evaluate("document.querySelector('.maker-bar').getBoundingClientRect().top")
            self.assertLess(top, 900)
            self.assertIn("It fits.", self.browser.evaluate("document.querySelector('.maker-bar .short').innerText"))

    # --- runs -----------------------------------------------------------------------------------------------------------------

    def test_runs_that_go_on_leave_the_page_as_it_is(self):
        run = runs.make_run(self.folder / "runs/long", 50, 400)
        (run / ".archived").write_text("")
        process = subprocess.Popen(["sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        runs.write_status(run, "training", process.pid, steps=400)
        self.go("#/")
        self.wait_text(".run strong", "long")  # though it is archived: it goes on
        self.browser.evaluate("document.querySelector('.run').marked = true")
        with (run / "log.jsonl").open("a") as log:
            for step in range(51, 60):
                log.write(runs.record(step, 400, random.Random(step), 0.3))
        self.wait_text(".run .explain", "step 59 of 400")
        self.assertTrue(self.browser.evaluate("document.querySelector('.run').marked"), "the card is the same element")
        self.assertIn("15 % long", self.browser.evaluate("document.title"))
        self.press(".run a")
        self.wait_text("#title", "long")
        self.browser.wait("document.querySelectorAll('nav a').length > 0")
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('nav a')].map(one => one.textContent)"), ["Runs", "Datasets", "Drawing", "Models", "Files", "Machine", "Bin"])
        self.browser.wait("[...document.querySelectorAll('.controls button')].some(one => one.textContent === 'Save now' && one.offsetParent)")
        self.assertFalse(self.browser.evaluate("[...document.querySelectorAll('.controls button')].some(one => one.textContent === 'Preview now' && one.offsetParent)"), "it has no prompts")

    def test_what_waits_is_dragged_while_a_run_goes_on(self):
        self.pause()
        for name in ("one", "two", "three"):
            body = json.dumps({"name": name, "settings": 'model = ["m"]\ndataset_base_path = "../datasets/faces"\n'})
            self.browser.evaluate(f"fetch('/api/queue/jobs', {{method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: {json.dumps(body)}}}).then(() => 0)")
        run = runs.make_run(self.folder / "runs/long", 50, 400)
        process = subprocess.Popen(["sleep", "120"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        runs.write_status(run, "training", process.pid, steps=400)
        self.go("#/")
        rows, moved = "[...document.querySelectorAll('.waiting li > span:first-child')].map(one => one.textContent)", 0
        self.browser.wait(f"{rows}.length === 3")
        for turn in range(10):
            before = self.browser.evaluate(rows)
            with (run / "log.jsonl").open("a") as log:
                log.write(runs.record(51 + turn, 400, random.Random(turn), 0.3))
            time.sleep(0.1 * turn)
            self.browser.carry("document.querySelectorAll('.waiting li')[2]", "document.querySelectorAll('.waiting li')[0]")
            self.browser.wait(f"{rows}.join() === {json.dumps(','.join([before[2], *before[:2]]))}", 10)
            moved += 1
        self.assertEqual(moved, 10)

    def test_what_waits_says_how_long_it_is_and_when_it_is_its_turn(self):
        run = runs.make_run(self.folder / "runs/long", 50, 400)
        process = subprocess.Popen(["sleep", "120"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        runs.write_status(run, "training", process.pid, steps=400, seconds_left=130)
        self.pause()
        for name, seconds in (("one", 300), ("two", 0)):
            body = json.dumps({"name": name, "settings": 'model = ["m"]\ndataset_base_path = "../datasets/faces"\n', "steps": 1500, "seconds": seconds})
            self.browser.evaluate(f"fetch('/api/queue/jobs', {{method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: {json.dumps(body)}}}).then(() => 0)")
        self.go("#/")
        self.wait_text(".waiting li", "one 1,500 steps · about 5 min")
        self.assertNotIn("starts", self.browser.evaluate("document.querySelector('.waiting').innerText"), "the queue is paused")
        self.shoot("faults-waiting")

    def test_pages_of_several_runs_have_the_menu_and_runs_that_are_gone_say_so(self):
        for name in ("one", "two"):
            runs.write_status(runs.make_run(self.folder / f"runs/{name}", 10, 10), "done", exit_code=0)
        self.browser.evaluate("location.href = '/compare/one/two/'")
        self.wait_text("nav a", "Datasets")
        self.click("Datasets", "nav a")
        self.wait_text(".set strong", "faces")
        self.browser.evaluate("location.href = '/runs/nosuch/'")
        self.wait_text("h1", "There is no such run")
        self.click("All runs", "a")
        self.wait_text(".run strong", "one")
        self.allow("404")

    def trained(self, name="fox", sentence="", state="done"):
        """A run of the dataset that ended a second ago, with what it saved."""
        run = runs.make_run(self.folder / f"runs/{name}", 100, 100)
        (run / "config.toml").write_text(f'model = ["{check_studio.MODEL}"]\ndataset_base_path = "{self.faces}"\nlora_rank = 8\nmax_steps = 100\n')
        (run / "step-100.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
        (run / "state").mkdir()
        runs.write_status(run, state, exit_code=3 if sentence else 0, steps=100, started=time.time(), sentence=sentence)
        return run

    def test_a_run_whose_captions_were_changed_is_trained_more_as_a_new_run(self):
        run = self.trained()
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.click("Train more")
        self.wait_text(".train-more button", "Continue")
        self.click("Train more")
        time.sleep(0.1)
        (self.faces / "cactus.txt").write_text("a cactus, by hand\n")
        self.click("Train more")
        self.wait_text(".train-more", "were changed after this run had read them")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.train-more button').length"), 0, "what would fail is not offered")
        self.write("#more-steps", "50")
        self.click("As a new run from its LoRA", ".train-more a")
        self.browser.wait("document.querySelector('#toml')?.value.includes('lora_checkpoint')")
        self.assertIn("max_steps = 50", self.value("#toml"))
        self.assertIn('"../runs/fox/step-100.safetensors"', self.value("#toml"))
        self.assertEqual(json.loads((run / "status.json").read_text())["state"], "done")

    def test_a_run_that_could_not_go_on_leads_to_a_new_one(self):
        self.trained(sentence="state/state.safetensors belongs to a run with other settings: it was saved with other captions; resume with the same options", state="failed")
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.click("As a new run from its LoRA", ".controls a")
        self.browser.wait("document.querySelector('#toml')?.value.includes('\"../runs/fox/step-100.safetensors\"')")

    def test_samples_have_a_part_of_the_page(self):
        run = self.trained()
        (run / "step-50.safetensors").write_bytes((run / "step-100.safetensors").read_bytes())
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.browser.wait("document.querySelectorAll('[role=tab]').length > 0")
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('[role=tab]')].map(one => one.textContent)"), ["Overview", "Samples", "Best save", "Pictures", "Files", "Log", "Settings"])
        self.click("Samples", "[role=tab]")
        self.browser.wait("document.querySelectorAll('#pictures img').length === 3 && document.querySelector('#pictures').offsetParent !== null && document.querySelector('#curves').offsetParent === null")
        self.shoot("run-samples")
        self.click("All saves of this run")
        self.browser.wait("document.querySelector('#draw-run')?.value === 'fox'")

    def test_sentences_speak_of_buttons(self):
        run = runs.make_run(self.folder / "runs/fox", 5, 10)
        runs.write_status(run, "interrupted", exit_code=130, sentence="interrupted at step 5; everything is saved, go on with --resume")
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.wait_text(".standing p", "everything is saved, Resume goes on")
        self.assertNotIn("--", self.browser.evaluate("document.querySelector('.head').innerText"))
        self.browser.open(self.browser.evaluate("location.origin") + "/#/new")
        junk = self.folder / "junk.toml"
        junk.write_text("nothing_that_anybody_knows = 3\n")
        self.click("Another trainer", ".segments button")
        self.browser.choose_files(lambda: self.press("#from-files"), [junk])
        self.wait_text(".beginning .note", "junk.toml")
        self.wait_text(".beginning .note button", "onetrainer")
        self.assertNotIn("--", self.browser.evaluate("document.querySelector('.beginning .note').innerText"))
        self.allow("status of")

    def test_a_run_that_is_done_goes_on_for_more_steps(self):
        run = runs.make_run(self.folder / "runs/fox", 100, 100)
        (run / "step-100.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
        (run / "state").mkdir()
        runs.write_status(run, "done", exit_code=0, steps=100)
        self.pause()
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.click("Train more")
        self.write("#more-steps", "50")
        self.shoot("faults-more")
        self.click("Continue", ".train-more button")
        self.wait(lambda: list((self.folder / "queue").glob("*-fox.toml")))
        self.assertIn("max_steps = 150", next((self.folder / "queue").glob("*-fox.toml")).read_text())
        for tab in ("Files", "Log", "Settings"):
            self.click(tab, "[role=tab]")
            self.shoot(f"run-{tab.lower()}")
        self.click("Files", "[role=tab]")
        self.wait_text(".files a", "fox-step-100.safetensors")

    def test_a_run_has_notes(self):
        run = runs.make_run(self.folder / "runs/fox", 10, 10)
        runs.write_status(run, "done", exit_code=0, steps=10)
        self.browser.evaluate("location.href = '/runs/fox/'")
        self.click("Notes", "summary")
        self.write("#notes", "too much blue")
        self.wait(lambda: (run / "notes.txt").exists() and (run / "notes.txt").read_text() == "too much blue")
        self.browser.write(", rank 8 next")
        self.browser.call("Page.navigate", url=self.browser.evaluate("location.origin") + "/#/")  # at once
        self.wait_text(".run .noted", "too much blue, rank 8 next")

    # --- datasets -------------------------------------------------------------------------------------------------------------

    def test_a_caption_is_saved_while_it_is_typed(self):
        self.dataset()
        self.write(self.item("cactus.png"), "a green cactus")
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "a green cactus\n", 3)
        self.browser.write(", in a pot")
        self.browser.call("Page.navigate", url="about:blank")  # at once, as who closes the tab
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "a green cactus, in a pot\n", 3)

    def wait_shown(self, file):
        """The cells after it lie where they stay only when it is shown."""
        self.browser.wait(f"document.querySelector('[aria-label=\"Move to the bin: {file}\"]') !== null")

    def test_what_is_deleted_comes_back(self):
        self.dataset()
        self.press('[aria-label="Move to the bin: cactus.png"]')
        self.wait_text(".toast", "cactus.png was moved to the bin.")
        self.wait(lambda: not (self.faces / "cactus.png").exists())
        self.click("Undo", ".toast button")
        self.wait(lambda: (self.faces / "cactus.png").exists() and (self.faces / "cactus.txt").exists())
        self.wait_shown("cactus.png")
        self.press('[aria-label="Move to the bin: crown.png"]')
        self.wait_text(".toast", "crown.png was moved to the bin.")
        self.undo_by_key()
        self.wait(lambda: (self.faces / "crown.png").exists())
        self.wait_shown("crown.png")
        self.press('[aria-label="Move to the bin: koala.png"]')
        self.wait_text(".toast", "koala.png was moved to the bin.")
        self.click("Bin", "nav a")
        self.wait_text(".bin-rows .file", "koala.png dataset · faces")
        self.shoot("faults-bin")
        self.click("Bring back", "button")
        self.wait(lambda: (self.faces / "koala.png").exists())
        self.wait_text("#view", "Nothing was deleted.")

    def test_runs_and_drawings_that_are_deleted_come_back(self):
        runs.write_status(runs.make_run(self.folder / "runs/fox", 10, 10), "done", exit_code=0, steps=10)
        self.go("#/")
        self.press(".run a")
        self.click("Move to the bin")
        self.wait_text(".toast", "fox was moved to the bin.")
        self.assertFalse((self.folder / "runs/fox").exists())
        self.click("Undo", ".toast button")
        self.wait(lambda: (self.folder / "runs/fox/log.jsonl").exists())
        self.wait_text(".run strong", "fox")
        drawing = self.folder / "drawings/grid"
        drawing.mkdir()
        (drawing / "grid.json").write_text('{"settings": {"prompts": ["a fox"]}, "cells": [{"prompt": "a fox", "seed": 0, "picture": 0}], "total": 1}')
        self.go("#/draw?show=grid")
        self.click("Move to the bin", ".drawn button")
        self.wait_text(".toast", "grid was moved to the bin.")
        self.assertFalse(drawing.exists())
        self.undo_by_key()
        self.wait(lambda: (drawing / "grid.json").exists())
        self.wait_text(".sets a", "grid")

    def test_what_waits_is_had_back(self):
        self.pause()
        self.form()
        self.write("#run-name", "cat")
        self.click("Start training")
        self.wait_text(".waiting li", "cat")
        self.click("Remove", ".waiting button")
        self.wait_text(".toast", "cat does not wait any more.")
        self.wait(lambda: not list((self.folder / "queue").glob("*-cat.toml")))
        self.click("Undo", ".toast button")
        self.wait(lambda: list((self.folder / "queue").glob("*-cat.toml")))
        self.wait_text(".waiting li", "cat")
        self.assertIn("learning_rate = 1e-3", next((self.folder / "queue").glob("*-cat.toml")).read_text())

    def test_two_tabs_write_one_caption(self):
        other = self.enterContext(Browser())
        other.open(self.studio.address)
        self.dataset()
        self.dataset(other)
        cactus = self.item("cactus.png")
        self.press(cactus, other)
        self.write(cactus, "cactus, from tab A")
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "cactus, from tab A\n")
        other.wait(f"document.querySelector({json.dumps(cactus)}).value === 'cactus, from tab A'")
        # Both type now: what the one wrote is no reason to lose what the other did.
        other.evaluate("document.activeElement.value += ', B'; document.activeElement.dispatchEvent(new Event('input', {bubbles: true}))")
        self.browser.write(", A")
        self.wait(lambda: set((self.faces / "cactus.txt").read_text().strip().split(", ")) == {"cactus", "from tab A", "A", "B"})

    def test_a_table_of_captions_is_read(self):
        table = self.folder / "metadata.csv"
        table.write_text('image,prompt\ncactus.png,"a cactus, green"\npictures/crown.png,a crown\nnone.png,nothing\n')
        self.dataset()
        self.browser.choose_files(lambda: self.click("Add files"), [table])
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "a cactus, green\n" and (self.faces / "crown.txt").read_text() == "a crown\n")
        self.wait_text(".toast", "2 captions were taken from metadata.csv.")
        self.browser.choose_files(lambda: self.click("Add files"), [table, PICTURES / "koala.png", self.bad()])
        self.wait_text(".toast", "2 captions")
        self.allow("400")  # of notes.doc

    def bad(self):
        path = self.folder / "notes.doc"
        path.write_text("no picture")
        return path

    def test_what_is_refused_is_said_beside_what_came(self):
        self.dataset()
        self.browser.choose_files(lambda: self.click("Add files"), [PICTURES / "koala.png", self.bad()])
        self.wait_text(".toast", "1 file was added.")
        self.wait_text(".toast", "notes.doc")
        self.allow("400")

    def test_an_upload_is_stopped(self):
        self.dataset()
        many = self.folder / "many"
        many.mkdir()
        for i in range(60):
            shutil.copy(PICTURES / "koala.png", many / f"{i}.png")
        self.browser.call("Network.emulateNetworkConditions", offline=False, latency=400, downloadThroughput=-1, uploadThroughput=-1)
        self.browser.choose_files(lambda: self.click("Add files"), sorted(many.iterdir()))
        self.browser.wait("Number(document.querySelector('.upload [role=progressbar]').getAttribute('aria-valuenow')) > 5")
        self.click("Stop", ".upload button")
        self.wait_text(".toast", "files were added.")
        self.browser.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        self.assertLess(len(list(self.faces.glob("*.png"))), 24 + 50)
        self.browser.complaints = [one for one in self.browser.complaints if "ERR_ABORTED" not in one]

    def test_tags_are_changed_everywhere(self):
        self.dataset()
        self.choose("#caption-edit", "Add a tag")
        self.write("#caption-find", "pixel art")
        self.click("Apply")
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "cactus, pixel art\n")
        self.choose("#caption-edit", "Rename a tag")
        self.click("pixel art", ".chip")
        self.assertEqual(self.value("#caption-find"), "pixel art")
        self.write("#caption-by", "pixels")
        self.click("Apply")
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "cactus, pixels\n")

    def test_tags_of_one_picture_are_chips(self):
        self.dataset()
        (self.faces / "cactus.txt").write_text("cactus, green, in a pot\n")
        self.browser.wait(f"document.querySelector({json.dumps(self.item('cactus.png'))})?.value === 'cactus, green, in a pot'")
        self.choose("#caption-kind", "tags")
        self.press('[aria-label=\'Remove the tag "green" from cactus.png\']')
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "cactus, in a pot\n")
        self.press('[aria-label="Add a tag: cactus.png"]')
        self.browser.write("pixel art, cactus")
        self.browser.call("Input.dispatchKeyEvent", type="char", text="\r")
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "cactus, in a pot, pixel art\n")
        self.shoot("faults-tags")
        self.undo_by_key()
        self.wait(lambda: (self.faces / "cactus.txt").read_text() == "cactus, in a pot\n")

    def test_a_picture_is_cut_and_turned_by_hand(self):
        before = (self.faces / "cactus.png").read_bytes()
        side = int.from_bytes(before[16:20], "big")
        self.dataset()
        self.press('[aria-label="Crop or rotate: cactus.png"]')
        self.browser.wait("document.querySelector('.crop-canvas')?.width > 0 && document.querySelector('.crop-editor .explain').textContent.includes('pixels stay')")
        self.click("Rotate right", ".crop-editor button")
        left, top, width, height = self.browser.evaluate("(() => { const box = document.querySelector('.crop-canvas').getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()")
        self.browser.drag((left + 1, top + 1), (left + width / 2, top + height / 4))
        self.wait_text(".crop-editor .explain", "pixels stay")
        self.shoot("faults-crop")
        self.click("Save the picture")
        self.wait_text(".toast", "cactus.png was changed.")
        after = (self.faces / "cactus.png").read_bytes()
        size = [int.from_bytes(after[at:at + 4], "big") for at in (16, 20)]
        self.assertAlmostEqual(size[0], side / 2, delta=3)
        self.assertAlmostEqual(size[1], side / 4, delta=3)
        self.assertTrue((self.faces / "cactus.txt").exists(), "its caption stays")
        self.browser.wait(f"[...document.querySelectorAll('.item')].some(one => one.innerText.includes('{size[0]} × {size[1]}'))")
        self.click("Undo", ".toast button")
        self.wait(lambda: (self.faces / "cactus.png").read_bytes() == before)

    def test_a_linked_folder_with_a_table_is_shown_and_written_back(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        for name in ("cactus", "crown"):
            shutil.copy(PICTURES / f"{name}.png", elsewhere)
        (elsewhere / "metadata.csv").write_text('image,source,prompt\ncactus.png,me,"a cactus, green"\ncrown.png,you,a crown\n')
        (self.folder / "datasets/linked").symlink_to(elsewhere)
        self.go("#/data?set=linked")
        self.wait_text("[role=status]", "2 pictures and clips")
        self.assertNotIn("without", self.browser.evaluate("document.querySelector('[role=status]').textContent"))
        self.browser.wait(f"document.querySelector({json.dumps(self.item('cactus.png'))})?.value === 'a cactus, green'")
        self.write(self.item("crown.png"), "a golden crown")
        self.wait(lambda: (elsewhere / "metadata.csv").read_text() == 'image,source,prompt\ncactus.png,me,"a cactus, green"\ncrown.png,you,a golden crown\n')

    def test_animations_are_clips(self):
        for name, encoder in (("cat.gif", ""), ("dog.webp", "-c:v libwebp_anim -loop 0")):
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=2", *encoder.split(), str(self.faces / name)], check=True)
        self.dataset()
        self.choose("#data-filter", "clips")
        self.browser.wait("[...document.querySelectorAll('.item .file')].map(one => one.textContent).join() === 'cat.gif,dog.webp'")
        self.wait_text(".facts-line", "64 × 48 · 10 frames, 2 s")
        self.press('[aria-label="Play: dog.webp"]')
        self.browser.wait("document.querySelector('.shot .moving')?.naturalWidth === 64")

    def test_what_was_painted_is_not_dropped_by_a_key(self):
        self.dataset()
        self.press('[aria-label="Mask: cactus.png"]')
        self.browser.wait("document.querySelector('.mask-editor .board img')?.complete && document.querySelector('.mask-editor canvas').width > 100")
        left, top, width, height = self.browser.evaluate("(() => { const box = document.querySelector('.board canvas').getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()")
        self.browser.drag((left + width / 2, top + height / 2), (left + width / 2 + 40, top + height / 2))
        self.browser.wait("[...document.querySelectorAll('.mask-editor button')].some(one => one.textContent === 'Undo' && !one.disabled)")
        self.browser.evaluate("window.asked = 0; window.confirm = () => { ++window.asked; return false; }")
        for _ in range(3):
            for kind in ("rawKeyDown", "keyUp"):
                self.browser.call("Input.dispatchKeyEvent", type=kind, key="Escape", code="Escape", windowsVirtualKeyCode=27)
            time.sleep(0.1)
        self.assertEqual(self.browser.evaluate("[document.querySelector('.mask-editor')?.open, window.asked]"), [True, 3])
        self.browser.evaluate("window.confirm = () => true")
        for kind in ("rawKeyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key="Escape", code="Escape", windowsVirtualKeyCode=27)
        self.browser.wait("document.querySelector('.mask-editor') === null")

    def test_captions_are_not_asked_of_no_model(self):
        self.dataset()
        self.click("Write captions")
        self.wait_text("dialog .explain", "No model that sees pictures is on this machine.")
        self.press("#caption-trigger_word")
        self.browser.write("sks")
        self.click("Start", "dialog button")
        self.wait_text(".toast", "Choose a model that writes captions first.")
        self.assertEqual(self.value("#caption-trigger_word"), "sks", "what was typed stays")
        self.assertEqual(list((self.folder / "queue/annotations").glob("*.toml")), [])

    def test_a_dataset_that_is_not_there_says_so(self):
        self.go("#/data?set=nosuch")
        self.wait_text("h1", "There is no dataset")
        self.allow("404")

    # --- drawing --------------------------------------------------------------------------------------------------------------

    def test_pictures_that_stand_out_are_left_out_from_the_page_of_their_run(self):
        """A run over the faces whose losses of one are twice those of the others."""
        run, files = self.folder / "runs/seen", sorted(path.name for path in self.faces.glob("*.png"))
        run.mkdir(parents=True)
        (run / "config.toml").write_text(f'model = ["{check_studio.MODEL}"]\ndataset_base_path = "../../datasets/faces"\nmax_steps = 40\n')
        (run / "log.jsonl").write_text("".join(runs.record(step, 40, random.Random(step), 1.0) for step in range(1, 41)))
        lines = [{"step": 0, "samples": [{"row": row, "file": file, "caption": f"caption of {file}"} for row, file in enumerate(files)]}]
        lines += [{"step": step, "visits": [[row, round(0.3 + 0.01 * step, 4), (2.0 if row == 2 else 1.0) + 0.02 * ((step + row) % 5)] for row in range(len(files))]} for step in range(1, 41)]
        (run / "visits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.browser.evaluate("location.href = location.origin + '/runs/seen/'")
        self.browser.wait("document.querySelector('#tab-pictures') !== null")
        self.press("#tab-pictures")
        self.wait_text(".learned figure", files[2])
        self.wait_text(".learned figure", "Learned badly: loss +")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.learned figure').length"), 1)
        self.browser.wait("document.querySelector('.learned img').naturalWidth > 0")
        self.shoot("learned")
        self.press(".learned figure button")
        self.wait_text(".learned figure button", "Include again")
        self.assertTrue((self.faces / ".excluded" / files[2]).exists())
        self.press(".learned figure button")
        self.wait_text(".learned figure button", "Leave out")
        self.assertTrue((self.faces / files[2]).exists())

    def test_the_lora_follows_its_run(self):
        for name, started in (("one", 5), ("two", 9)):
            run = runs.make_run(self.folder / f"runs/{name}", 1, 100)
            runs.write_status(run, "done", exit_code=0, started=time.time() - started)
            lora = json.dumps({"transformer.x.lora_A.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}, "transformer.x.lora_B.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]}}).encode()
            (run / "step-100.safetensors").write_bytes(len(lora).to_bytes(8, "little") + lora + bytes(8))
        self.go("#/draw")
        loras = "[...document.querySelectorAll('.loras .file')].map(one => one.firstChild.textContent).join()"
        self.browser.wait(f"{loras} === 'one-step-100.safetensors'")
        self.write("#draw-prompts", "a fox")
        self.go("#/")
        self.browser.wait("document.querySelector('.run') !== null")
        self.go("#/draw")
        self.browser.wait("document.querySelector('#draw-prompts')?.value === 'a fox'")
        self.choose("#draw-run", "two")
        self.browser.wait(f"{loras} === 'two-step-100.safetensors'")
        self.shoot("faults-draw")

    def test_files_are_named_and_grouped_by_their_runs_and_found(self):
        lora = json.dumps({"transformer.x.lora_A.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}, "transformer.x.lora_B.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]}}).encode()
        for name in ("one", "two"):
            run = runs.make_run(self.folder / f"runs/{name}", 1, 100)
            runs.write_status(run, "done", exit_code=0)
            for step in (20, 40, 60, 100):
                (run / f"step-{step}.safetensors").write_bytes(len(lora).to_bytes(8, "little") + lora + bytes(8))
        self.go("#/files")
        self.browser.wait("document.querySelectorAll('.file-list details').length === 2")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.file-list details[open]').length"), 1, "those of the newest")
        self.press(".file-list input")
        self.browser.write("one-step-20")
        self.browser.wait("[...document.querySelectorAll('.file-list a.file')].filter(one => one.offsetParent).map(one => one.textContent).join() === 'one-step-20.safetensors'")
        self.assertEqual(self.browser.evaluate("document.querySelector('.file-list a.button').download"), "one-step-20.safetensors")

    def test_drawings_are_found_by_their_names(self):
        for name in [f"grid-{i}" for i in range(9)] + ["fox"]:
            drawing = self.folder / "drawings" / name
            drawing.mkdir()
            (drawing / "grid.json").write_text('{"settings": {"prompts": ["a fox"]}, "cells": [{"prompt": "a fox", "seed": 0, "picture": 0}], "total": 1}')
        self.go("#/draw")
        self.browser.wait("document.querySelectorAll('.drawn-side .sets li').length === 10")
        self.press(".search-drawings")
        self.browser.write("fo")
        self.browser.wait("[...document.querySelectorAll('.drawn-side .sets a')].map(one => one.textContent).join() === 'fox'")

    def test_models_of_other_programs_are_found_and_own_ones_deleted(self):
        home, commit = self.folder / "home", "0123456789" * 4
        for place in (home / "ComfyUI/models/diffusers/theirs", self.folder / "models/mine", home / f"hub/models--me--tiny/snapshots/{commit}"):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(check_studio.MODEL, place)
        (home / "hub/models--me--tiny/refs").mkdir()
        (home / "hub/models--me--tiny/refs/main").write_text(commit)
        self.browser.open("about:blank")  # which asks for nothing while the studio is away
        self.studio.close()
        self.studio.variables = {"HOME": str(home), "HF_HUB_CACHE": str(home / "hub")}
        self.studio.open()
        self.browser.open(self.studio.address)
        self.go("#/models")
        row = "[...document.querySelectorAll('.model-rows li')].find(one => one.innerText.includes('%s'))"
        self.browser.wait((row % "models/diffusers/theirs") + " !== undefined")
        self.assertIn("in the folder of ComfyUI", self.browser.evaluate((row % "theirs") + ".innerText"))
        self.assertNotIn("Delete", self.browser.evaluate((row % "theirs") + ".innerText"))
        self.browser.click((row % "models/mine") + ".querySelector('[aria-label^=Delete]')")
        self.wait_text(".toast", "was moved to the bin.")
        self.wait(lambda: not (self.folder / "models/mine").exists())
        self.click("Undo", ".toast button")
        self.wait(lambda: (self.folder / "models/mine/model_index.json").exists())
        self.browser.wait((row % "me/tiny") + " !== undefined")
        self.browser.evaluate("window.confirm = () => true")
        self.browser.click((row % "me/tiny") + ".querySelector('[aria-label^=Delete]')")
        self.wait(lambda: not (home / "hub/models--me--tiny").exists())
        self.wait_text(".toast", "was deleted.")

    def test_models_have_a_page(self):
        self.go("#/models")
        self.wait_text(".model-rows strong", "FLUX.1-dev")
        self.wait_text(".model-rows strong", "Small FLUX")
        self.wait_text(".fit", "A LoRA fits: it needs")
        self.shoot("models")
        self.click("Train on it")
        self.wait_text(".judged", "It fits.")
        self.assertIn("tiny-flux", self.value("#toml"))

    def test_a_model_is_planned_before_it_is_downloaded(self):
        self.go("#/new?model=black-forest-labs/FLUX.1-dev")
        self.wait_text(".model-note", "FLUX.1-dev is not on this machine. It is downloaded when training starts, or now.")
        self.wait_text(".verdict .judged", " needs ", 120)
        self.assertIn('model = ["black-forest-labs/FLUX.1-dev"]', self.value("#toml"))

    def test_nothing_is_drawn_without_a_prompt_or_a_model(self):
        self.go("#/draw")
        self.click("Draw", ".draw-form button.primary")
        self.wait_text(".toast", "Choose a model to draw with")
        self.write("#draw-model", "somewhere")
        self.click("Draw", ".draw-form button.primary")
        self.wait_text(".toast", "Write a prompt")
        self.assertFalse(list((self.folder / "drawings").iterdir()))

    # --- words ----------------------------------------------------------------------------------------------------------------

    def test_every_language_has_every_word(self):
        """Tables of words have the same names, the same kinds of words and as many parts in them; what the program says of options is not in the English one."""
        page = pathlib.Path(__file__).resolve().parents[2] / "src/studio/page"
        tables = "\n".join((page / f"{name}.js").read_text() for name in ("words", "words_de", "words_ja", "words_zh"))
        compare = """(() => { const whole = one => one, number = whole, duration = whole; %s
            const kind = one => typeof one === "function" ? `function of ${one.length}` : typeof one, own = ["stateTitles", "options", "groups", "help", "goals"], found = [];
            const look = (all, some, name) => { for (const key of new Set([...Object.keys(all), ...Object.keys(some)])) {
              if (kind(all[key]) !== kind(some[key]) && !(name.length === 2 && own.includes(key))) found.push(`${name}.${key}`);
              else if (kind(all[key]) === "object") look(all[key], some[key], `${name}.${key}`);
            } };
            look(english, german, "de"); look(english, japanese, "ja"); look(english, chinese, "zh");
            for (const key of own) { look(german[key], japanese[key], `ja.${key}`); look(german[key], chinese[key], `zh.${key}`); }
            return found; })()""" % tables
        self.assertEqual(self.browser.evaluate(compare), [])
        options = {row["name"]: row["group"] for row in json.loads(subprocess.run([check_studio.BURNISH, "help", "train", "--json"], capture_output=True, text=True, check=True).stdout)["options"]}
        named = self.browser.evaluate("(() => { const whole = 0, number = 0, duration = 0; %s; return [Object.keys({...german.options, ...german.help}), Object.keys(german.groups)]; })()" % tables)
        self.assertEqual(set(named[0]) - set(options), set())
        self.assertEqual(set(named[1]) - set(options.values()), set())

    def test_the_studio_speaks_the_language_of_the_browser_or_the_one_that_is_chosen(self):
        guest = self.enterContext(Browser())
        guest.call("Emulation.setUserAgentOverride", userAgent=guest.evaluate("navigator.userAgent"), acceptLanguage="de-AT,en")
        guest.open(self.studio.address)
        guest.wait("document.querySelector('.home h1')?.textContent === 'Ein Modell mit deinen Bildern trainieren'")
        self.assertEqual(guest.evaluate("document.documentElement.lang"), "de")
        for code, title, form in (("ja", "マシン", "新しい学習"), ("zh", "电脑", "新建训练"), ("en", "Machine", "New run")):
            self.go("#/machine", guest)
            guest.wait("document.querySelector('#language') !== null")
            guest.evaluate(f"(() => {{ const box = document.querySelector('#language'); box.value = '{code}'; setTimeout(() => box.dispatchEvent(new Event('change'))); }})()")
            guest.wait(f"document.querySelector('h1')?.textContent === '{title}'")
            self.go("#/new", guest)
            guest.wait(f"document.querySelector('h1')?.textContent === '{form}'")
            guest.wait("document.querySelectorAll('.tile').length > 1")
            guest.screenshot(check_studio.SHOTS / f"studio-words-{code}.png", whole=False)
            self.assertEqual(guest.audit(), [])
        self.assertEqual(guest.complaints, [])

    def test_the_address_without_the_token_asks_for_it(self):
        stranger = self.enterContext(Browser())
        host, token = self.studio.address.split("/?token=")
        stranger.open(host)
        stranger.wait("document.querySelector('#token') !== null")
        stranger.screenshot(check_studio.SHOTS / "studio-faults-token.png", whole=False)
        stranger.write(token)
        stranger.click("document.querySelector('button')")
        stranger.wait("document.querySelector('nav a') !== null")


class Away(unittest.TestCase):
    """The studio from elsewhere: by a password, by HTTPS, and behind a proxy that shows it below a path."""
    wait_text, click = Faults.wait_text, Faults.click

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        shutil.copytree(PICTURES, self.folder / "work/datasets/faces")
        runs.write_status(runs.make_run(self.folder / "work/runs/fox", 100, 100), "done", exit_code=0, steps=100)
        self.browser = self.enterContext(Browser())

    def open(self, *options):
        self.studio = check_studio.Studio(self.folder / "work", *options)
        self.addCleanup(self.studio.close)
        return self.studio.address.split("/?token=")

    def test_a_password_opens_it(self):
        password = self.folder / "password"
        password.write_text("correct horse\n")
        password.chmod(0o600)
        host, _ = self.open("--password_file", str(password))
        self.browser.open(host)
        self.wait_text("label", "Password")
        self.browser.write("wrong")
        self.browser.click("document.querySelector('button')")
        self.wait_text(".why", "This is not the password of this studio.")
        self.assertEqual(self.browser.audit(), [])
        self.browser.screenshot(check_studio.SHOTS / "studio-away-password.png", whole=False)
        time.sleep(1.1)
        self.browser.click("document.querySelector('#token')")
        self.browser.write("correct horse")
        self.browser.click("document.querySelector('button')")
        self.wait_text(".run strong", "fox")

    def test_https(self):
        chain, key = self.folder / "chain.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(chain)], check=True, capture_output=True)
        self.open("--certificate", str(chain), "--certificate_key", str(key))
        self.assertTrue(self.studio.address.startswith("https://127.0.0.1:"))
        self.browser.call("Security.setIgnoreCertificateErrors", ignore=True)
        self.browser.open(self.studio.address)
        self.go_about()

    def test_over_a_network(self):
        """By the address that this machine has there, as others ask for it."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            try:
                asked.connect(("192.0.2.1", 9))  # sends nothing: the system only says by which of its addresses it would
            except OSError:
                self.skipTest("this machine is on no network")
            address = asked.getsockname()[0]
        _, token = self.open("--listen")
        port = json.loads((self.folder / "work/.studio.json").read_text())["port"]
        self.browser.open(f"http://{address}:{port}/")
        self.browser.wait("document.querySelector('#token') !== null")
        self.browser.complaints.clear()  # of the page that asks, which is none that was allowed
        self.browser.write(token)
        self.browser.click("document.querySelector('button')")
        self.go_about()

    def test_behind_a_proxy(self):
        proxy = Proxy("/tools/burnish/")
        self.addCleanup(proxy.shutdown)
        public = f"http://localhost:{proxy.server_port}/tools/burnish"
        self.open("--public_address", public)
        proxy.port = json.loads((self.folder / "work/.studio.json").read_text())["port"]
        self.assertTrue(self.studio.address.startswith(public + "/?token="))
        self.browser.open(self.studio.address)
        self.go_about()
        self.assertEqual([url for url in self.browser.requests if not url.startswith((public + "/", "data:", "blob:"))], [])

    def go_about(self):
        """Pages, pictures, what a page changes, and what comes by itself."""
        self.wait_text(".run strong", "fox")
        self.browser.wait("document.querySelector('.run img')?.naturalWidth > 0")
        self.browser.click("document.querySelector('.run a')")
        self.wait_text("#title", "fox")
        self.browser.wait("document.querySelectorAll('#pictures img').length === 3 && [...document.querySelectorAll('#pictures img')].every(one => one.naturalWidth > 0)")
        self.click("Notes", "summary")
        self.browser.click("document.querySelector('#notes')")
        self.browser.write("seen from afar")
        self.browser.wait("fetch(new URL('../../api/runs/fox', location.href)).then(answer => answer.json()).then(run => run.notes === 'seen from afar')")
        self.click("Datasets", "nav a")
        self.browser.click("document.querySelector('.set a')")
        self.browser.wait("[...document.querySelectorAll('.shot img')].length > 3 && [...document.querySelectorAll('.shot img')].slice(0, 3).every(one => one.naturalWidth > 0)")
        self.browser.evaluate("location.hash = '#/new'")
        self.click("Small FLUX", ".tile")
        self.wait_text(".judged", "It fits.")
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    check_studio.SHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
