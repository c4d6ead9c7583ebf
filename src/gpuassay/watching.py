"""A run while it runs: one line, an event for each node that ended, and a page that renews itself."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from gpuassay.evidence.files import append_line, write_atomic
from gpuassay.evidence.lines import dump_json
from gpuassay.report import live
from gpuassay.target.progress import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from gpuassay.evidence.run import RunFolder

_REDRAWN_S = 2.0  # the page is written no more often


@dataclass(slots=True)
class _Node:
    """How far a node is, in words, and when it was last heard of."""

    state: str = "waiting"
    words: str = ""
    heard: float = 0.0


def note(run: RunFolder, event: Mapping[str, Any]) -> None:
    """Note with its time what happens in a run, and have it on the disk. Raises RecordingError."""
    append_line(run.progress, dump_json({"time": _now(), **event}), durable=True)


class Watch:
    """Hears how far each node is, and keeps it in the folder of the run. Raises RecordingError.

    Use it as a context: leaving it says that this part of the run is over.
    """

    def __init__(
        self,
        run: RunFolder,
        what: str,
        nodes: Sequence[str],
        show: Callable[[str], None],
        until: float = math.inf,
    ) -> None:
        """Take what is being done, on which nodes, what shows a line, and when it has to be over."""
        self._until = until
        self._run = run
        self._what = what
        self._nodes = {node: _Node() for node in nodes}
        self._tally = Tally(len(nodes), show)
        self._begin = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> Self:
        """Draw the page for the first time."""
        self._draw()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Draw it for the last time."""
        self._draw("cut short" if kind else "over")

    def answered(self, node: str, words: str) -> None:
        """Hear what a node answered last, in words."""
        self._nodes[node] = _Node("asked", words, time.monotonic())
        self._tally.answered(node, words)
        self._draw_at_times()

    def ended(self, node: str, problem: str) -> None:
        """Hear that nothing more will come from a node, and why, if it is before its time."""
        now = time.monotonic()
        state = self._nodes[node] = _Node("not whole" if problem else "done", problem, now)
        event = {
            "time": _now(),
            "what": self._what,
            "node": node,
            "state": state.state,
            "seconds": round(now - self._begin, 1),
        }
        append_line(self._run.progress, dump_json({**event, "why": problem} if problem else event))
        self._tally.ended(node, problem)
        self._draw_at_times()

    def left_s(self) -> float:
        """Say how much time is left for all of it, in seconds."""
        return self._until - time.monotonic()

    def began(self, name: str) -> None:
        """Note what is started, before it is: a run that is taken up again ends what is left of it."""
        note(self._run, {"began": name})

    def _draw_at_times(self) -> None:
        if time.monotonic() - self._drawn >= _REDRAWN_S:
            self._draw()

    def _draw(self, end: str = "") -> None:
        self._drawn = time.monotonic()
        write_atomic(self._run.live, live.render(self._document(end)).encode())

    def _document(self, end: str) -> dict[str, Any]:
        return {
            "what": self._what,
            "line": self._tally.line,
            "end": end,
            "written": _now(),
            "seconds": round(self._drawn - self._begin),
            "nodes": [
                {
                    "name": name,
                    "state": node.state,
                    "words": node.words,
                    "quiet": round(self._drawn - (node.heard or self._begin)),
                }
                for name, node in self._nodes.items()
            ],
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
