"""``--target=local``: this machine, asked by the probe that also goes to other nodes, as a child process."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar

from gpuassay.evidence.item import Item
from gpuassay.evidence.lines import load_items
from gpuassay.evidence.meta import is_node_name
from gpuassay.probe import nccl, travel
from gpuassay.probe.commands import environment, run
from gpuassay.probe.frames import Frames
from gpuassay.probe.items import MIB, QUESTIONS, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuassay.evidence.item import Status
    from gpuassay.target import Writer

DEADLINE_S = 900.0
"""For the whole probe: what the deadlines of all questions add up to, and the time to end what hangs."""

_GRACE_S = 5.0  # a probe that is told to stop ends its children first, which may take 3 s
_CHUNK = 1 << 16
_MEASURED_BYTES = 16 * MIB
_LAST_WORDS = 1 << 12


@dataclass(frozen=True, slots=True)
class Local:
    """A fleet of one. ``python`` runs the probe; ``deadline_s`` bounds all of it, in seconds."""

    name: ClassVar[str] = "local"
    python: str = sys.executable
    deadline_s: float = DEADLINE_S

    def declared(self) -> tuple[str, ...]:
        """Name this machine, without its domain."""
        name = socket.gethostname().partition(".")[0]
        return (name if is_node_name(name) else "localhost",)

    def gather(self, writer: Writer, progress: Callable[[str], None]) -> None:
        """Ask this machine. What the probe could not ask is written down too, with the reason.

        An exception, Ctrl-C too, ends the probe and all that it started. Raises OSError if it cannot be
        started, and what ``writer`` raises.
        """
        answers = _Answers(self.declared()[0], writer, progress)
        with tempfile.TemporaryFile() as errors:
            with _started(travel.argv(self.python), errors) as process:
                in_time = answers.listen(process, time.monotonic() + self.deadline_s)
            last_words = _tail(errors)
        if in_time:
            answers.close("failed", f"the probe ended early: {_ending(process.returncode)}", last_words)
        else:
            answers.close("timed_out", f"the probe was not done within {self.deadline_s:g} s", last_words)

    def run(self, node: str, argv: Sequence[str], deadline_s: float) -> Item:
        """Run a command here and give what it printed, also of one that failed or ran past its deadline."""
        question = Question(node, "command", tuple(argv), "", deadline_s=deadline_s, cap=_MEASURED_BYTES)
        answer = run(question)._asdict()
        return Item(id=node, seq=1, **answer)


@contextmanager
def _started(argv: list[str], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the probe in a session of its own, and end it on leaving, however that comes about.

    Should this process itself be killed, the probe finds its output closed, and ends what it started.
    """
    with tempfile.TemporaryFile() as modules:  # no pipe: that could be full before the probe reads
        modules.write(travel.pack())
        modules.seek(0)
        process = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
            argv,
            stdin=modules,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**environment(os.environ), **nccl.settings(os.environ)},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Tell the probe to stop (one that is done takes no notice), and kill it if it does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            break
    if process.stdout:
        process.stdout.close()


def _ending(code: int | None) -> str:
    if code is None:
        return "it could not be killed"
    return f"exit {code}" if code >= 0 else f"killed by signal {-code}"


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _LAST_WORDS))
    return errors.read().decode(errors="replace")


class _Answers:
    """What the probe of one node has sent, written down as it comes."""

    def __init__(self, node: str, writer: Writer, progress: Callable[[str], None]) -> None:
        self._node = node
        self._writer = writer
        self._progress = progress
        self._frames = Frames()
        self._problems: list[str] = []
        self._status: dict[str, Status] = {}
        self._seq = 0

    def listen(self, process: subprocess.Popen[bytes], until: float) -> bool:
        """Take answers to the last one, or as far as they come; False at the monotonic time ``until``."""
        output = process.stdout.fileno() if process.stdout else -1
        poll = select.poll()
        poll.register(output, select.POLLIN)
        while not self._frames.ended:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            if poll.poll(left_s * 1000):
                data = os.read(output, _CHUNK)
                if not data:
                    return True
                for answer in self._frames.feed(data):
                    self._take(answer)
        return True

    def close(self, status: Status, why: str, last_words: str) -> None:
        """Write down what did not come, if anything: with this reason, unless the probe said it was done."""
        reasons = [*self._frames.problems, *self._problems]
        if self._frames.ended:
            status = "failed"
        else:
            reasons.insert(0, why)
        if not reasons:
            return
        why = "; ".join(reasons)
        self._add(Item("probe", self._seq + 1, status, {"library": "probe"}, err=last_words, why=why))
        for question in QUESTIONS:
            if question.id not in self._status and self._status.get(question.unless) != "ok":
                self._add(Item(question.id, self._seq + 1, status, question.asked, why=why))

    def _take(self, answer: dict[str, Any]) -> None:
        stored, problems = load_items(json.dumps(answer).encode(), self._node)
        self._problems += problems
        for one in stored:
            self._add(one.item)
            self._progress(f"{self._node}: {one.item.id} ({len(self._status)} of {len(QUESTIONS)})")

    def _add(self, item: Item) -> None:
        self._status[item.id] = item.status
        self._seq = max(self._seq, item.seq)
        self._writer.add(self._node, item)
