"""A writer of checkpoints that is killed at random moments, again and again, on one file system.

After each kill what it was writing is torn: whoever loads it has to notice. And what was saved before that,
of which the writer was told that it is on storage, has to load and be the same bit for bit, from files that
are in memory no more. This process only starts others: the writer, and who loads what it has left.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import select
import shutil
import signal
import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import pagecache, states, words
from gpuassay.measure.work.device import Device
from gpuassay.measure.work.scratch import Scratch, room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import NoReturn

    Say = Callable[[Mapping[str, Any]], None]

METHOD = 1
INDEX = ".metadata"
_TINY_BYTES = 4 << 20
_SAVES = 3  # of which at most so many are let come through before a kill
_THREADS = 4  # as many files of each checkpoint
_ROOM = 8  # checkpoints that have to fit
_PLACE = 32  # bits for the places within a tensor; above them stands the step
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def keep_bare_journal(order: Mapping[str, Any], say: Say, leave: Say) -> None:
    """Kill writers for so long. ``say`` writes a line; ``leave`` writes the last one and ends it all."""
    signal.signal(signal.SIGTERM, _leave)
    path, ending = None, {}
    try:
        import torch.distributed.checkpoint  # noqa: F401, PLC0415 - once: whom this process starts has it

        with Scratch(order["mount"]) as scratch:
            path = scratch.path
            ending = Trials(order, path, say).go()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        ending = {"broken": words.brief(error)}
    left = sum(1 for _ in path.rglob("*")) + 1 if path and path.exists() else 0
    leave({"line": "end", "at": time.time(), "left": left, **ending})


def _leave(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


class Trials:
    """The kills on one file system."""

    def __init__(self, order: Mapping[str, Any], folder: Path, say: Say) -> None:
        args = order["args"]
        self.folder, self.say = folder, say
        self.seconds, self.patience = float(order["seconds"]), float(args["patience_s"])
        self.tensors = int(args["tensors"])
        size = _TINY_BYTES if order["tiny"] else int(args["bytes"])
        self.count = max(1, size // states.ELEMENT // self.tensors)
        self.mount = str(order["mount"])
        self.seed = f"{args['seed']}/{os.environ.get('GROUP_RANK', '0')}/{self.mount}"
        self.dice = random.Random(self.seed)  # noqa: S311 - moments, no secrets

    def go(self) -> dict[str, Any]:
        """Kill until the time is over."""
        about, size = room(self.folder), self.count * states.ELEMENT * self.tensors
        if about["bytes_free"] < _ROOM * size:
            return {"broken": f"{_ROOM * size} bytes are needed, {about['bytes_free']} are free"}
        fs = {"bytes": about["bytes"], "free": about["bytes_free"], "type": about["type"]}
        begin = {"line": "begin", "at": time.time(), "status": "ok", "mount": self.mount, "fs": fs}
        self.say({**begin, "bytes": size, "tensors": self.tensors, "seed": self.seed})
        spent, step = 0.0, 0
        for number in count(1):
            begun = time.monotonic()
            told = self.kill(step)
            step = told["saved"] + 1
            told |= self.look(told["saved"])
            span = time.monotonic() - begun
            spent += span
            self.say({"line": "beat", "beat": number, "span": round(span, 3), **told, **_words(number, told)})
            if spent >= self.seconds:
                return {}
        raise AssertionError

    def kill(self, last: int) -> dict[str, Any]:
        """Let a writer save some checkpoints, and kill it while it saves the next. Raises RuntimeError."""
        child = _Child(lambda out: self._write(last + 1, out))
        try:
            saves, took, begun = 1 + self.dice.randrange(_SAVES), 0.0, time.monotonic()
            for _ in range(saves):
                begun = self._await(child, "begun")
                took = self._await(child, "saved") - begun
            begun = self._await(child, "begun")
            after = self.dice.uniform(0.0, took)
            time.sleep(after)
        finally:
            child.kill()
        saved = last + saves
        times = {"at": round(time.time(), 3), "save_s": round(took, 4), "after_s": round(after, 4)}
        return {**times, "saved": saved}

    def _await(self, child: _Child, word: str) -> float:
        said = child.line(self.patience)
        if said != word:
            raise RuntimeError(f"the writer said {said or 'nothing'} where it should have {word}")
        return time.monotonic()

    def _write(self, first: int, out: Callable[[str], None]) -> None:
        """Save one checkpoint after the other, in the process that will be killed."""
        import torch  # noqa: PLC0415 - torch is loaded only where it runs
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415

        torch.set_num_threads(1)  # threads that a parent has begun are not there after a fork
        for step in count(first):
            state = {
                f"layer.{tensor}": states.content(tensor, step << _PLACE, self.count, _CPU)
                for tensor in range(self.tensors)
            }
            out("begun")
            writer = dcp.FileSystemWriter(self._path(step), thread_count=_THREADS, sync_files=True)
            dcp.save(state, storage_writer=writer, no_dist=True)
            out("saved")

    def look(self, saved: int) -> dict[str, Any]:
        """Load what is torn and what was saved before it, then remove all but the latter."""
        torn = self._path(saved + 1)
        listed = sorted(entry.name for entry in os.scandir(torn)) if torn.exists() else []
        good = self._path(saved)
        held = pagecache.evict(good.iterdir()) if good.exists() else 0.0
        told = {
            "torn": {"files": len(listed), "index": INDEX in listed, **self._load(saved + 1)},
            "good": {"held": round(held, 4), **self._load(saved)},
        }
        for one in self.folder.iterdir():
            if one != good:
                shutil.rmtree(one)
        return told

    def _load(self, step: int) -> dict[str, Any]:
        """Load a checkpoint in a process of its own: how many elements are wrong, or why it does not load."""
        child = _Child(lambda out: out(json.dumps(self._loaded(step))))
        try:
            said = child.line(self.patience)
        finally:
            child.kill()
        told: dict[str, Any] = json.loads(said) if said.startswith("{") else {}
        return told or {"why": f"who loaded it said {said or 'nothing'}"}

    def _loaded(self, step: int) -> dict[str, Any]:
        import torch  # noqa: PLC0415 - torch is loaded only where it runs
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415

        torch.set_num_threads(1)
        state = {
            f"layer.{tensor}": torch.zeros(self.count, dtype=torch.int64) for tensor in range(self.tensors)
        }
        try:
            dcp.load(state, checkpoint_id=self._path(step), no_dist=True)
        except Exception as error:  # noqa: BLE001 - it is what has to happen where it is torn
            return {"why": words.brief(error)}
        named = enumerate(state.values())
        return {"wrong": sum(states.changed(tensor, step << _PLACE, found, _CPU) for tensor, found in named)}

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step}"


_CPU = Device("cpu", "cpu", "")


def _words(number: int, told: Mapping[str, Any]) -> dict[str, str]:
    torn, good = told["torn"], told["good"]
    was = "was torn and did not load" if "why" in torn else f"loaded with {torn['wrong']} wrong"
    kept = good.get("why") or f"{good['wrong']} wrong"
    return {"words": f"kill {number}: step {told['saved'] + 1} {was}; step {told['saved']}: {kept}"}


class _Child:
    """A process of ours that prints lines to us, until it is killed."""

    def __init__(self, body: Callable[[Callable[[str], None]], None]) -> None:
        self._near, far = os.pipe()
        self._rest = b""
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _live(body, far, parent)
        os.close(far)

    def line(self, patience_s: float) -> str:
        """Give the next line; empty if it says none, or ends."""
        until = time.monotonic() + patience_s
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._near], [], [], left)[0]:
                return ""
            data = os.read(self._near, 1 << 16)
            if not data:
                return ""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace")

    def kill(self) -> None:
        """Kill it, whatever it does."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._near)


def _live(body: Callable[[Callable[[str], None]], None], far: int, parent: int) -> NoReturn:
    """Be the child: die with the parent, and tell what goes wrong as a line too."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:

            def say(line: str) -> None:
                os.write(far, f"{line}\n".encode())

            body(say)
    except BaseException as error:  # noqa: BLE001 - the parent's code must not run twice
        os.write(far, f"{type(error).__name__}: {error}"[:500].replace("\n", " ").encode() + b"\n")
    finally:
        os._exit(0)
