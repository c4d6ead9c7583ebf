"""How far gathering is, as one line: how many nodes are done, and on which the wait is."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Tally:
    """Counts the nodes that are done; ``show`` is given a new line whenever something has changed."""

    def __init__(self, declared: int, show: Callable[[str], None]) -> None:
        self._declared = declared
        self._show = show
        self._done = 0
        self._troubled = 0
        self._last: dict[str, str] = {}  # of nodes not done, the one that was heard of longest ago first

    def answered(self, node: str, words: str) -> None:
        """Hear what a node answered last, in words."""
        self._last.pop(node, None)
        self._last[node] = words
        self._show(self.line)

    def ended(self, node: str, problem: str) -> None:
        """Hear that nothing more will come from a node, and why, if it is before its time."""
        self._last.pop(node, None)
        self._done += 1
        self._troubled += bool(problem)
        self._show(self.line)

    def left_s(self) -> float:
        """Say how much time is left for all of it, in seconds: this one has no end."""
        return math.inf

    def began(self, name: str) -> None:
        """Hear under which name something is started; nobody would come back to end it."""

    @property
    def line(self) -> str:
        """The count, and the node from which nothing has come for longest."""
        count = f"{self._done} of {self._declared} nodes done"
        if self._troubled:
            count += f", {self._troubled} not whole"
        slowest = next(iter(self._last), "")
        return f"{count}; {slowest}: {self._last[slowest]}" if slowest else count


class Paced:
    """Shows the first line at once, and of those that follow one a minute: what a log can bear."""

    def __init__(self, show: Callable[[str], None], every_s: float = 60.0) -> None:
        self._show = show
        self._every_s = every_s
        self._next = 0.0

    def __call__(self, line: str) -> None:
        """Hear a new line."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every_s
            self._show(line)
