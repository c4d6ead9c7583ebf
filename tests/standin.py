"""A program in the place of vLLM, for tests of what starts one: it answers in a stream, or goes wrong."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

# Stands for vLLM's server: a child of its own, health, and answers in a stream; HOW says what it does wrong.
SERVER = """\
import http.server, json, os, subprocess, sys, time
how, note = HOW, NOTE
word = lambda name: sys.argv[sys.argv.index(name) + 1]
assert word("--load-format") == "dummy" and word("--host") == "127.0.0.1"
about = json.load(open(word("--model") + "/config.json"))
assert about["max_position_embeddings"] == int(word("--max-model-len"))
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(note, "a") as noted:
    noted.write(os.path.dirname(word("--model")) + "\\n")
if how == "dies":
    sys.exit("CUDA out of memory, or something like it")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if how == "slow" else 200)
        self.end_headers()
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if how == "busy":
            self.send_response(500)
            self.end_headers()
            self.wfile.write(b"no heads of 16")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for _ in range(order["max_tokens"]):
            self.say({"choices": [{"delta": {"content": "table "}, "finish_reason": None}]})
        if how == "half":
            return
        self.say({"choices": [{"delta": {}, "finish_reason": "length"}]})
        self.say({"choices": [], "usage": {"completion_tokens": order["max_tokens"], "prompt_tokens": 9}})
        self.wfile.write(b"data: [DONE]\\n\\n")
    def say(self, event):
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\\n\\n")
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(word("--port"))), Answer).serve_forever()
"""


class Place:
    """A folder with such a package, and what runs of it on this machine, in whichever node of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._note = folder, folder / "note"
        self.environment = {"PYTHONPATH": str(folder)}

    def put(self, how: str) -> dict[str, str]:
        """Put it there, and give the environment that finds it."""
        package = self.folder / "vllm" / "entrypoints" / "openai"
        package.mkdir(parents=True)
        for one in (package, package.parent, package.parent.parent):
            (one / "__init__.py").touch()
        text = SERVER.replace("HOW", repr(how)).replace("NOTE", repr(str(self._note)))
        (package / "api_server.py").write_text(text, encoding="utf-8")
        return self.environment

    @property
    def ran(self) -> bool:
        """Whether a server was started at all."""
        return self._note.exists()

    @property
    def alive(self) -> list[int]:
        """The servers and their children that live: each has the name of this folder in its environment."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (place / "cmdline").read_bytes()
                if b"api_server" in words or b"sleep(600)" in words:
                    ours = str(self.folder).encode() in (place / "environ").read_bytes()
                    found += [int(place.name)] if ours else []
        return found

    @property
    def folders(self) -> list[str]:
        """The folders in which servers were started, as far as they are left."""
        noted = self._note.read_text(encoding="utf-8").split() if self.ran else []
        return [one for one in noted if Path(one).exists()]

    def end(self) -> None:
        """End what is left of it."""
        for pid in self.alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for one in self.folders:
            shutil.rmtree(one, ignore_errors=True)
