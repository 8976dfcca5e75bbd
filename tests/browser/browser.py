"""A headless Chromium that is spoken to over two pipes (Chrome DevTools Protocol), with the standard library alone."""
import base64, itertools, json, os, select, shutil, subprocess, tempfile, time


class Page:
    """What tests do on a page of any browser, by its functions `evaluate` and `press_at`."""

    def run(self, script):
        """Statements, whatever they come to."""
        self.evaluate(f"{script}; 0")

    def wait(self, expression, seconds=60):
        """Until the expression is true, also of a page that comes meanwhile; a TimeoutError otherwise."""
        end = time.monotonic() + seconds
        while not self.is_true(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"not true after {seconds} s: {expression}")
            time.sleep(0.1)

    def is_true(self, expression):
        try:
            return self.evaluate(expression)
        except RuntimeError as error:
            if "navigated" not in str(error) and "context" not in str(error):
                raise
            return False

    def audit(self):
        """What axe-core finds on the page, as sentences: rules of WCAG 2.1 A and AA and its best practices. Nothing where it is not installed."""
        if "BURNISH_AXE" not in os.environ:
            return []
        if self.evaluate("typeof axe") == "undefined":
            with open(os.environ["BURNISH_AXE"]) as script:
                self.run(script.read())
        found = self.evaluate("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations.map(one => "
                              "`${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 120)).join(' | ')}`))")
        return found

    def click(self, found):
        """A press of the mouse in the middle of the element that an expression finds, once it is there, in sight, at rest and under the mouse."""
        self.wait(f"(() => {{ const one = {found}; return one && one.offsetParent !== null && !one.disabled; }})()")
        self.evaluate(f"({found}).scrollIntoView({{block: 'center'}})")
        at = f"(() => {{ const one = {found}, box = one.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2, under = document.elementFromPoint(x, y);" \
             "return one.contains(under) || under?.contains(one) ? [x, y] : null; })()"
        self.wait(f"{at} !== null")
        place = before = None
        while place is None or place != before:  # what comes in above it moves it
            before, place = place, self.evaluate(at)
            time.sleep(0.05)
        self.press_at(*place)


class Browser(Page):
    """One page; what it writes to the console as an error or warning, and what it throws, gathers in `complaints`; what it asks for, in `requests`."""

    def __init__(self, width=1280, height=900):
        self.folder = tempfile.mkdtemp()
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec chromium "$@" 3<&{to_read} 4>&{to_write}', "chromium", "--headless=new", "--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else []),
             "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.folder}"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.ids, self.buffer, self.complaints, self.requests, self.session, self.opened, self.dragged = itertools.count(1), b"", [], [], None, None, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.receive(60)
            if reply.get("id") == number:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']['message']}")
                return reply["result"]

    def receive(self, seconds):
        """The next message; a TimeoutError when none comes in time."""
        while b"\0" not in self.buffer:
            if not select.select([self.from_browser], [], [], seconds)[0]:
                raise TimeoutError("the browser says nothing")
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
        elif method == "Input.dragIntercepted":
            self.dragged = parameters["data"]
        elif method == "Page.fileChooserOpened":
            self.opened = parameters["backendNodeId"]
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colors(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, start, end):
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def carry(self, found, onto):
        """Drags the element that one expression finds onto that of another, as the mouse does where a page takes what is dropped."""
        middle = "(() => {{ const box = ({}).getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        (x, y), (to_x, to_y) = (self.evaluate(middle.format(one)) for one in (found, onto))
        self.call("Input.setInterceptDrags", enabled=True)
        self.dragged = None
        self.move(x, y)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
        for step in (4, 12):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + step, y=y, button="left", buttons=1)
        while self.dragged is None:
            self.receive(20)
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=to_x, y=to_y, data=self.dragged)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=to_y, button="left", clickCount=1)
        self.call("Input.setInterceptDrags", enabled=False)

    def press_at(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def write(self, text):
        """Text into what has the focus, as a keyboard gives it."""
        self.call("Input.insertText", text=text)

    def choose_files(self, press, files):
        """Files in the dialog that a press opens."""
        self.call("Page.setInterceptFileChooserDialog", enabled=True)
        self.opened = None
        press()
        while self.opened is None:
            self.receive(60)
        self.call("DOM.setFileInputFiles", backendNodeId=self.opened, files=[str(file) for file in files])
        self.call("Page.setInterceptFileChooserDialog", enabled=False)

    def screenshot(self, path, whole=True):
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": self.page()} if whole else {}))
        path.write_bytes(base64.b64decode(picture["data"]))

    def page(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
