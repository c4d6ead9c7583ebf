"""vLLM, started by us on a node: it comes up, agents talk to it, and it is ended and seen to be gone.

Its weights are made up as it starts (``--load-format dummy``): how fast it answers does not depend on what
they are. The tokenizer has a token for each word that agents use. The load comes from the node itself, over
loopback, so no network and no proxy has a part in the figures.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import serving, weights, words
from gpuassay.measure.work.answer import Answer, request, told
from gpuassay.measure.work.dialogues import WORDS, dialogues
from gpuassay.measure.work.errands import ErrandError
from gpuassay.measure.work.kept import Kept
from gpuassay.measure.work.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuassay.measure.work.dialogues import Dialogue

METHOD = 1
NAME = "gpuassay"
# vLLM's attention on processors has no heads of 16.
TINY = {"hidden": 128, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 256, "vocab": 320}
_TINY_TALK = {"dialogues": 4, "turns": 2, "at_once": 2, "shared": 60, "added": 20, "short": 8, "long": 16}
_SPARE = 256  # tokens beside what dialogues come to: marks of who speaks
_AGAIN_S, _OK = 0.5, 200
_TEMPLATE = "{% for one in messages %}{{ one['content'] }} {% endfor %}"


def bare(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give one row: what came of it on this node."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is ended, and the folder goes
    if importlib.util.find_spec("vllm") is None:
        return [{"status": "not_found", "why": serving.GET}]
    try:
        with Scratch(tempfile.gettempdir()) as scratch:
            return [{"status": "ok", **_served(scratch.path, order)}]
    except Exception as error:  # noqa: BLE001 - whatever happens is told
        return [{"status": "failed", "why": words.brief(error)}]


def _served(folder: Path, order: Mapping[str, Any]) -> dict[str, Any]:
    args = {**order["args"], **(_TINY_TALK if order["tiny"] else {})}
    model = TINY if order["tiny"] else weights.shape(args)
    script, gpus = dialogues(args), spread(order["gpus"][int(os.environ.get("RANK", "0"))], model)
    argv = _argv(_describe(folder / "model", model, script), gpus, tiny=order["tiny"])
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_CACHE_ROOT": str(folder / "cache"), "DO_NOT_TRACK": "1"}
    environment |= {"VLLM_CPU_KVCACHE_SPACE": "1"} if order["tiny"] else {}
    port, until = serving.free_port(), time.monotonic() + float(args["patience_s"])
    begin = time.monotonic()
    with Kept((*argv, "--port", str(port)), folder, environment, folder / "log") as server:
        _ready(server, port, until)
        row = {"ready_seconds": round(time.monotonic() - begin, 2), "gpus": gpus, "command": list(argv)}
        door = (port, float(args["seconds"]))
        if args["warm"]:
            talk(door, [replace(one, turns=one.turns[:1]) for one in script], int(args["at_once"]))
        answers = talk(door, script, int(args["at_once"]))
    row["dialogues"] = [
        {"turns": len(one.turns), "answers": [answer.document() for answer in given]}
        for one, given in zip(script, answers, strict=True)
    ]
    name = "tiny" if order["tiny"] else args["model"]
    return {**row, "model": name, "version": serving.version(), "left": [*server.left, *_open(port)]}


def spread(gpus: int, model: Mapping[str, int]) -> int:
    """Tell over how many GPUs a model is spread: a power of two, and no more than it has heads to share."""
    count = 1
    while 2 * count <= min(gpus, model["kv_heads"]):
        count *= 2
    return count


def _argv(model: tuple[Path, int], gpus: int, *, tiny: bool) -> tuple[str, ...]:
    server = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1")
    what = ("--model", str(model[0]), "--served-model-name", NAME, "--load-format", "dummy")
    how = ("--max-model-len", str(model[1]), "--tensor-parallel-size", str(gpus), "--seed", "0")
    return (*server, *what, *how, *(("--dtype", "float32", "--enforce-eager") if tiny else ()))


def _describe(place: Path, model: Mapping[str, int], script: Sequence[Dialogue]) -> tuple[Path, int]:
    """Write a model's description without its weights; give where, and how long a dialogue may become."""
    length = max(map(_length, script)) + _SPARE
    vocabulary = [*WORDS, *(f"w{number}" for number in range(model["vocab"]))][: model["vocab"]]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],  # weights that nobody trained may well say one of them, which would be no text
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(vocabulary)},
            "unk_token": vocabulary[0],
        },
    }
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": vocabulary[-1]}
    about = {**weights.config(model), "max_position_embeddings": length, "eos_token_id": model["vocab"] - 1}
    place.mkdir()
    files = {
        "config": about,
        "tokenizer": tokenizer,
        "tokenizer_config": {**named, "chat_template": _TEMPLATE},
    }
    for name, document in files.items():
        (place / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return place, length


def _length(dialogue: Dialogue) -> int:
    """Count the tokens of a dialogue at its end, as the tokenizer splits words."""
    text = " ".join([dialogue.system, *(turn.text for turn in dialogue.turns)])
    return len(re.findall(r"\w+|[^\w\s]+", text)) + sum(turn.most_tokens for turn in dialogue.turns)


def _ready(server: Kept, port: int, until: float) -> None:
    """Wait until it is healthy, which is not yet a proof that it answers. Raises ErrandError."""
    while not server.ended and time.monotonic() < until:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_AGAIN_S * 10)
            connection.request("GET", "/health")
            if connection.getresponse().status == _OK:
                return
        time.sleep(_AGAIN_S)
    how = "ended" if server.ended else "was not ready in time"
    raise ErrandError(f"the server {how}: {server.last_words}")


def talk(door: tuple[int, float], script: Sequence[Dialogue], at_once: int) -> list[list[Answer]]:
    """Hold dialogues, some at a time, and give the answers of each; ``door`` is the port and its patience."""
    begin = time.monotonic()
    pool = ThreadPoolExecutor(at_once)
    try:
        return list(pool.map(lambda one: _held(door, one, begin), script))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # who leaves early waits for no answer


def _held(door: tuple[int, float], dialogue: Dialogue, begin: float) -> list[Answer]:
    """Hold one; where an answer failed it ends: what follows would be about nothing."""
    said = [{"role": "system", "content": dialogue.system}]
    answers: list[Answer] = []
    for number, turn in enumerate(dialogue.turns, 1):
        said.append({"role": "user", "content": turn.text})
        answer = Answer(number, round(time.monotonic() - begin, 4))
        answers.append(answer)
        try:
            _ask(door, request(NAME, said, turn), answer)
        except Exception as error:  # noqa: BLE001 - whatever is raised over one request, others go on
            answer.error = words.brief(error)
        if answer.error or not answer.done:
            return answers
        said.append({"role": "assistant", "content": answer.text})
    return answers


def _ask(door: tuple[int, float], body: Mapping[str, Any], answer: Answer) -> None:
    port, patience_s = door
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
    begin = time.monotonic()
    try:
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        answer.code = response.status
        if answer.code != _OK or "event-stream" not in response.headers.get("content-type", ""):
            answer.error = f"HTTP {answer.code}: {told(response.read(1 << 16).decode('utf-8', 'replace'))}"
            return
        for line in response:
            now = time.monotonic() - begin
            data = line.decode("utf-8", "replace").strip().removeprefix("data:").strip()
            if data and not answer.take(data, round(now, 4)):
                return
            if now > patience_s:
                answer.error = f"no end within {patience_s:.0f} s"
                return
    finally:
        connection.close()


def _open(port: int) -> list[str]:
    """Say that somebody still listens, if so."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_AGAIN_S)
        connection.connect()
    except OSError:
        return []
    connection.close()
    return [f"port {port} is open"]
