"""Watching what a provider makes of a fault: eyes that look again and again, and one clock for all of them.

An eye keeps what it sees as it came. What changed, and by whom, is read from that later
(``facts.fault_trial``), so a trial can be judged again from its recording.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from types import TracebackType

    from gpuassay.evidence.item import Item


class Eye(Protocol):
    """Looks at one thing."""

    @property
    def name(self) -> str:
        """What it looks at: the id of what it sees, below ``watch/``."""

    @property
    def every_s(self) -> float:
        """How long it waits between two looks, in seconds."""

    def look(self) -> Item:
        """Look once. What cannot be seen is an item that says why."""

    def key(self, item: Item) -> Hashable:
        """Give what of it matters: an item with the same key as the last one is not kept."""


class Clock:
    """Seconds since a trial began, by a clock that nobody sets."""

    def __init__(self) -> None:
        """Begin now."""
        self._begin = time.monotonic()

    def now_s(self) -> float:
        """Read it."""
        return round(time.monotonic() - self._begin, 3)


class Watcher:
    """Has every eye look in a thread of its own, and gives each change to ``keep``, with when it was seen.

    ``at_s`` is when the look that saw it ended, ``since_s`` when the one before it began: it changed in
    between.
    """

    def __init__(self, eyes: Sequence[Eye], clock: Clock, keep: Callable[[Item], None]) -> None:
        """Only hold; entering the context opens the eyes."""
        self._clock = clock
        self._keep = keep
        self._over = threading.Event()
        self._seen = threading.Condition()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._watch, args=(eye,), name=f"watch {eye.name}") for eye in eyes
        ]

    def __enter__(self) -> Self:
        """Open all eyes."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them, and wait for the looks that are under way."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def wait(self, enough: Callable[[], bool], until_s: float) -> bool:
        """Wait until what was kept is enough, or until then by the clock. Raises what keeping raised."""
        with self._seen:
            while not enough():
                if self._errors:
                    raise self._errors[0]
                left = until_s - self._clock.now_s()
                if left <= 0:
                    return False
                self._seen.wait(min(left, 1.0))
            return True

    def _watch(self, eye: Eye) -> None:
        last: Hashable = None
        since_s, first = self._clock.now_s(), True
        while not self._over.is_set():
            began_s = self._clock.now_s()
            try:
                item = eye.look()
                key = eye.key(item)
                if first or key != last:
                    times = {"at_s": self._clock.now_s(), "since_s": since_s}
                    with self._seen:
                        self._keep(replace(item, id=f"watch/{eye.name}", asked={**item.asked, **times}))
                        self._seen.notify_all()
            except Exception as error:  # noqa: BLE001 - it ends the trial where that waits, not this thread
                with self._seen:
                    self._errors.append(error)
                    self._seen.notify_all()
                return
            first, last, since_s = False, key, began_s
            self._over.wait(eye.every_s)
