"""A headless Firefox that is spoken to over a web socket (WebDriver BiDi), with the standard library alone; what it can do is called as in browser.py."""
import base64, itertools, json, os, pathlib, re, select, shutil, socket, struct, subprocess, tempfile, time

from browser import Page

PREFERENCES = {"browser.shell.checkDefaultBrowser": False, "datareporting.policy.dataSubmissionEnabled": False, "browser.startup.page": 0, "browser.aboutwelcome.enabled": False,
               "app.update.auto": False, "extensions.update.enabled": False, "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
               "services.settings.server": "data:,#", "toolkit.telemetry.enabled": False, "intl.accept_languages": "en-US, en"}


def find_firefox():
    """The program, or None where it is not installed."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class WebSocket:
    """Text messages to a server of this machine and from it."""

    def __init__(self, port, path):
        self.socket, self.buffer = socket.create_connection(("127.0.0.1", port), 60), b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(head.decode())

    def send(self, text):
        body, mask = text.encode(), os.urandom(4)
        size = struct.pack("!B", 0x80 | len(body)) if len(body) < 126 else struct.pack("!BH", 0xFE, len(body)) if len(body) < 1 << 16 else struct.pack("!BQ", 0xFF, len(body))
        whole = mask * (len(body) // 4 + 1)
        self.socket.sendall(b"\x81" + size + mask + bytes(one ^ other for one, other in zip(body, whole)))

    def take(self, count):
        while len(self.buffer) < count:
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.buffer += piece
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def receive(self, seconds):
        """The next text; a TimeoutError when none comes in time."""
        text = b""
        while True:
            if not self.buffer and not select.select([self.socket], [], [], seconds)[0]:
                raise TimeoutError("the browser says nothing")
            first, second = self.take(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack("!H", self.take(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.take(8))[0]
            body = self.take(size)
            if first & 0x0F in (0, 1):
                text += body
                if first & 0x80:
                    return text.decode()


class Firefox(Page):
    """One page; what it writes to its console as an error or warning, and what it throws, gathers in `complaints`."""

    def __init__(self, width=1280, height=900):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        (self.folder / "user.js").write_text("".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()))
        self.process = subprocess.Popen([find_firefox(), "--headless", "--no-remote", "--profile", str(self.folder), "--remote-debugging-port", "0", "about:blank"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "HOME": str(self.folder), "MOZ_CRASHREPORTER_DISABLE": "1"})
        port = next(int(found.group(1)) for found in (re.search(r"WebDriver BiDi listening on ws://127.0.0.1:(\d+)", line) for line in self.process.stderr) if found)
        self.ids, self.complaints, self.chosen = itertools.count(1), [], None
        self.socket = WebSocket(port, "/session")
        self.call("session.new", capabilities={"alwaysMatch": {"unhandledPromptBehavior": {"default": "accept"}}})
        self.call("session.subscribe", events=["log.entryAdded", "input.fileDialogOpened"])
        self.context = self.call("browsingContext.getTree")["contexts"][0]["context"]
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.socket.socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        number = next(self.ids)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            reply = self.receive(60)
            if reply.get("id") == number:
                if reply["type"] == "error":
                    raise RuntimeError(f"{method}: {reply['error']}: {reply['message']}")
                return reply["result"]

    def receive(self, seconds):
        message = json.loads(self.socket.receive(seconds))
        parameters = message.get("params", {})
        if message.get("method") == "log.entryAdded" and parameters["level"] in ("error", "warn"):
            self.complaints.append(parameters["text"])
        elif message.get("method") == "input.fileDialogOpened":
            self.chosen = parameters.get("element")
        return message

    def open(self, url):
        self.call("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def evaluate(self, expression):
        """The value, as JSON has it: what is sent back otherwise is a tree of types."""
        wrapped = f"(async () => JSON.stringify(await ({expression.rstrip().rstrip(';')})) ?? 'null')()"
        result = self.call("script.evaluate", expression=wrapped, target={"context": self.context}, awaitPromise=True, userActivation=True)
        if result["type"] == "exception":
            raise RuntimeError(f"{expression[:400]}: {result['exceptionDetails']['text']}")
        return json.loads(result["result"]["value"])

    def run(self, script):
        self.call("script.evaluate", expression=f"{script}; 0", target={"context": self.context}, awaitPromise=False)

    def resize(self, width, height):
        self.call("browsingContext.setViewport", context=self.context, viewport={"width": width, "height": height}, devicePixelRatio=1)

    def pointer(self, *actions):
        self.call("input.performActions", context=self.context, actions=[{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": list(actions)}])

    def press_at(self, x, y):
        self.pointer({"type": "pointerMove", "x": round(x), "y": round(y)}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})

    def press(self, key):
        code = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "ArrowLeft": "\ue012", "ArrowRight": "\ue014"}.get(key, key)
        self.write(code)

    def write(self, text):
        """Keys into what has the focus."""
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("input.performActions", context=self.context, actions=[{"type": "key", "id": "keys", "actions": keys}])

    def choose_files(self, press, files):
        """Files in the dialog that a press opens."""
        self.chosen = None
        press()
        end = time.monotonic() + 60
        while self.chosen is None and time.monotonic() < end:
            self.receive(60)
        self.call("input.setFiles", context=self.context, element=self.chosen, files=[str(file) for file in files])

    def screenshot(self, path, whole=True):
        picture = self.call("browsingContext.captureScreenshot", context=self.context, origin="document" if whole else "viewport")
        path.write_bytes(base64.b64decode(picture["data"]))
