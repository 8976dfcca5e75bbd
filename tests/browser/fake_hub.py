"""A hub of models on this machine, which keeps what is published there: the part of Hugging Face's interface by which huggingface_hub sends a folder."""
import base64, hashlib, http.server, json, threading


class FakeHub(http.server.ThreadingHTTPServer):
    """`models`: by their ids the files of each, by their paths; `token`: that of who may write."""
    daemon_threads = True

    def __init__(self, token="secret"):
        self.token, self.models, self.private, self.store, self.commits = token, {}, {}, {}, []
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def say(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_PUT(self):
        content = self.body()
        self.server.store[hashlib.sha256(content).hexdigest()] = content
        self.say(200, {})

    def do_GET(self):
        self.say(404, {"error": "not found"})

    def do_POST(self):
        hub, body, path = self.server, self.body(), self.path.split("?")[0]
        if self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.say(401, {"error": "Invalid username or password."})
        if path == "/api/validate-yaml":
            return self.say(200, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            wish = json.loads(body)
            name = f"{wish['organization']}/{wish['name']}"
            if name in hub.models:
                return self.say(409, {"error": "You already created this model repo", "url": f"{hub.address}/{name}"})
            hub.models[name], hub.private[name] = {}, wish.get("private")
            return self.say(200, {"url": f"{hub.address}/{name}"})
        if path.endswith("/preupload/main"):
            return self.say(200, {"files": [{"path": one["path"], "uploadMode": "lfs" if one["path"].endswith((".safetensors", ".png")) else "regular", "shouldIgnore": False} for one in json.loads(body)["files"]]})
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = [{**one, **({} if one["oid"] in hub.store else {"actions": {"upload": {"href": f"{hub.address}/store/{one['oid']}"}}})} for one in json.loads(body)["objects"]]
            return self.say(200, {"transfer": "basic", "objects": objects})
        if path.endswith("/commit/main"):
            name = "/".join(path.split("/")[3:5])
            self.commit(name, [json.loads(line) for line in body.decode().splitlines()])
            return self.say(200, {"success": True, "commitOid": "0" * 40, "commitUrl": f"{hub.address}/{name}/commit/{'0' * 40}", "hookOutput": ""})
        self.say(404, {"error": path})

    def commit(self, name, lines):
        files = self.server.models[name]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                content = self.server.store[value["oid"]]
                assert len(content) == value["size"] and value["algo"] == "sha256"
                files[value["path"]] = content
        self.server.commits.append(lines)

    def log_message(self, *_):
        pass
