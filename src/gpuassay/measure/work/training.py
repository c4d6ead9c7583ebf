"""Training with torchtitan, as a user would start it: first each node by itself, then all nodes together.

Each rank of ours starts one rank of torchtitan and keeps what that prints of its steps: the numbers are read
where the suite runs. Text and words to learn from are made by a seed, in a folder that is removed again, for
nothing can be fetched from an air-gapped site. How fast a step is does not depend on the words.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.measure.work.device import Device

METHOD = 1
GET = "pip install torchtitan==0.3.0 into the Python that the site file names, beside its torch"
_SEED = 20261130
_WORDS, _SAMPLES, _SAMPLE_WORDS = 64, 4096, 128
_NEXT = 4  # so many words may follow a word: within a few steps a model learns that, and its loss falls
_KEPT = re.compile(r"step:\s|Peak FLOPS|torchtitan version|Training completed|\bERROR\b")
_MOST_LINES, _LONGEST_LINE, _TAIL = 2000, 400, 15
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def run(order: Mapping[str, Any], device: Device, leave: Callable[[Mapping[str, Any]], None]) -> None:
    """Train in each scope of the order; ``leave`` prints what came of it, and ends the process."""
    del device  # torchtitan chooses its own: it was looked at so that this rank is known by its GPU
    try:
        version = metadata.version("torchtitan")
    except metadata.PackageNotFoundError:
        leave({"failed": f"torchtitan is not installed here: {GET}"})
        return
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that the folder goes
    with tempfile.TemporaryDirectory(prefix="gpuassay-") as name:
        folder = Path(name)
        write_lesson(folder)
        rows = [_row(order, case, folder) for case in order["cases"]]
    leave({"torchtitan": version, "rows": rows})


def write_lesson(folder: Path) -> None:
    """Write a tokenizer that knows some words, and text in which each of them has few that may follow."""
    words = [f"w{number}" for number in range(_WORDS)]
    vocabulary = {word: number for number, word in enumerate(("<unk>", "<s>", "</s>", *words))}
    special = [
        {"id": number, "content": name, "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for name, number in list(vocabulary.items())[:3]
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }
    named = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}
    for file, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", named)):
        (folder / file).write_text(json.dumps(content), encoding="utf-8")
    (folder / "lesson").mkdir()  # a folder "text" would be taken for a kind of file
    with (folder / "lesson" / "train.json").open("w", encoding="utf-8") as text:
        text.writelines(json.dumps({"text": sample}) + "\n" for sample in _samples(words))


def _samples(words: Sequence[str]) -> list[str]:
    draw = random.Random(_SEED)  # noqa: S311 - a seed is what is wanted
    following = [[draw.randrange(len(words)) for _ in range(_NEXT)] for _ in words]
    found = []
    for _ in range(_SAMPLES):
        at, sample = draw.randrange(len(words)), []
        for _ in range(_SAMPLE_WORDS):
            sample.append(words[at])
            at = following[at][draw.randrange(_NEXT)]
        found.append(" ".join(sample))
    return found


def _row(order: Mapping[str, Any], case: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Train once, and keep what it printed, also if it failed or had to be ended."""
    place = _place(case["scope"])
    experts = min(int(order["experts"]), int(place["WORLD_SIZE"]))
    words = [word.format(folder=folder, experts=experts) for word in order["words"]]
    argv = [sys.executable, *order["start"], *words]
    row = {"case": dict(case), "ranks": int(place["WORLD_SIZE"]), "command": words}
    begin = time.monotonic()
    printed, ending = _started(argv, {**os.environ, **_QUIET, **place}, folder, float(order["patience_s"]))
    lines = [_ESCAPES.sub("", line)[:_LONGEST_LINE] for line in re.split(r"[\r\n]+", printed) if line.strip()]
    row |= {"seconds": round(time.monotonic() - begin, 1), "tail": lines[-_TAIL:] if ending else []}
    status = {"status": "failed", "why": ending} if ending else {"status": "ok"}
    # All ranks of a scope log the same steps: the first of a node keeps them.
    first = place.get("LOCAL_RANK", os.environ.get("LOCAL_RANK", "0")) == "0"
    kept = [line for line in lines if first and _KEPT.search(line)]
    return {**row, **status, "log": kept[:_MOST_LINES]}


# Nothing is fetched, and nothing is told to anybody outside.
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "disabled",
    "PYTHONUNBUFFERED": "1",
}


def _place(scope: str) -> dict[str, str]:
    """Give the place of a rank among those of its node, or of all; each scope meets at a port of its own."""
    told = os.environ
    port = int(told.get("MASTER_PORT", "29500"))
    if scope == "all":
        return {"MASTER_PORT": str(port + 1), "WORLD_SIZE": told.get("WORLD_SIZE", "1")}
    local, size = told.get("LOCAL_RANK", "0"), told.get("LOCAL_WORLD_SIZE", "1")
    return {
        "RANK": local,
        "LOCAL_RANK": local,
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": size,
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _started(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, patience_s: float
) -> tuple[str, str]:
    """Run a command in a folder; gives what it printed, and why that is not all, if it is not."""
    own = ("HF_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    caches = {name: str(folder / "cache") for name in own}
    told: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    try:
        done = subprocess.run(  # noqa: S603 - our own Python
            argv,
            cwd=folder,
            env={**environment, **caches},
            timeout=patience_s,
            check=False,
            stderr=subprocess.STDOUT,
            **told,
        )
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode("utf-8", "replace"), f"it was ended after {patience_s:g} s"
    ending = f"torchtitan ended with exit status {done.returncode}" if done.returncode else ""
    return done.stdout.decode("utf-8", "replace"), ending
