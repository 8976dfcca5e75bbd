#!/usr/bin/env python3
"""The cache of models from hubs, written by burnish and read by huggingface_hub and the other way round: part of `./dev golden check`.

A server on loopback gives a model as Hugging Face does. What one program fetched, the other has to find without a request. Exits 1 otherwise.
"""
import hashlib, http.server, json, os, pathlib, subprocess, sys, tempfile, threading, urllib.parse

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parent.parent / "assets/tiny-flux"
BURNISH = os.environ.get("BURNISH", "build/burnish")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {str(path.relative_to(MODEL)): path.read_bytes() for path in sorted(MODEL.rglob("*")) if path.is_file()}
requests = []


def entry(path):
    content = FILES[path]
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130} if path.endswith(".safetensors") else None
    return blob, lfs


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, headers=()):
        self.send_response(200)
        for name, value in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        requests.append(path)
        resolve = f"/author/model/resolve/{COMMIT}/"
        if path.startswith("/api/models/author/model/tree/"):
            files = [{"type": "file", "path": name, "size": len(FILES[name]), "oid": entry(name)[0],
                      **({"lfs": {"oid": entry(name)[1]["sha256"], **entry(name)[1]}} if entry(name)[1] else {})}
                     for name in FILES]
            return self.answer(json.dumps(files).encode(), {"Content-Type": "application/json"})
        if path in ("/api/models/author/model", "/api/models/author/model/revision/main"):
            siblings = [{"rfilename": name, "size": len(FILES[name]), "blobId": entry(name)[0], **({"lfs": entry(name)[1]} if entry(name)[1] else {})}
                        for name in FILES]
            return self.answer(json.dumps({"id": "author/model", "modelId": "author/model", "sha": COMMIT, "siblings": siblings}).encode(),
                               {"Content-Type": "application/json"})
        name = path.removeprefix(resolve)
        if path.startswith(resolve) and name in FILES:
            blob, lfs = entry(name)
            return self.answer(FILES[name], {"ETag": f'"{lfs["sha256"] if lfs else blob}"', "X-Repo-Commit": COMMIT})
        self.send_error(404)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def burnish(home, *options):
    environment = dict(os.environ, HF_HOME=str(home), BURNISH_LOG="warn")
    environment.pop("HF_HUB_CACHE", None)
    subprocess.run([BURNISH, "sample", "--model", "author/model", "--prompt", "cat", "--height", "32", "--width", "32", "--num_inference_steps",
                    "1", "--num_threads", "1", "--output_path", str(home / "pictures"), *options], env=environment, check=True)


def count(what, found, expected):
    print(f"{what}: {found}, expected {expected}")
    return found == expected


def main():
    from huggingface_hub import scan_cache_dir, snapshot_download
    good = True
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = pathlib.Path(folder, "ours"), pathlib.Path(folder, "theirs")
        burnish(ours)
        good &= count("requests of burnish, a list and the files", len(requests), 1 + len(FILES))
        requests.clear()
        snapshot = pathlib.Path(snapshot_download("author/model", cache_dir=ours / "hub", local_files_only=True))
        same = sum((snapshot / name).read_bytes() == content for name, content in FILES.items())
        good &= count("files of burnish that huggingface_hub finds", same, len(FILES))
        snapshot_download("author/model", cache_dir=ours / "hub")
        good &= count("files that huggingface_hub fetches again", sum("/resolve/" in path for path in requests), 0)
        scan = scan_cache_dir(ours / "hub")
        good &= count("warnings of its scan of the cache", len(scan.warnings), 0)

        snapshot_download("author/model", cache_dir=theirs / "hub")
        requests.clear()
        burnish(theirs)
        good &= count("requests of burnish where huggingface_hub fetched", len(requests), 0)
        for tree in (theirs / "hub/models--author--model/trees").glob("*.json"):  # older releases write no list
            tree.unlink()
        burnish(theirs)
        good &= count("the same, where it left no list of files", len(requests), 0)
    return good


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
    os.environ["HF_HUB_DISABLE_XET"] = os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    sys.exit(0 if main() else 1)
