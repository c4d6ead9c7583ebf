"""What the ranks of a job tell each other beside the network that is tested, and how they part.

A rank that hangs in a library cannot say so: a timer of its own does, writes down what was measured until
then and ends the process; the others learn why from the board, which hangs at the first rank.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HUNG = "did not end within"
"""What a rank says of a step that took too long."""

MEETING = "to meet the first rank"
"""The first step of all, by the network of the hosts."""

_AGAIN_S = 0.005
_FAREWELL_S = 10.0
_LOOK_S, _GRACE_S = 1.0, 5.0


class PartedError(Exception):
    """Another rank has left, and said why; or the first one is gone, and the board with it."""


class Board:
    """Keys and values at the first rank, for a job of ``size`` ranks."""

    def __init__(self, environment: Mapping[str, str], patience_s: float) -> None:
        """Open it, or come to it."""
        import torch.distributed as dist  # noqa: PLC0415 - torch is loaded only where it runs

        self.rank, self.size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        place = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
        patience = timedelta(seconds=patience_s)
        # Two ways to it: a library that waits for a peer holds on to its own.
        self.store = dist.TCPStore(*place, None, self.rank == 0, timeout=patience, wait_for_workers=False)
        self._store = dist.TCPStore(*place, None, is_master=False, timeout=patience, wait_for_workers=False)
        self.times = 0

    def meet(self) -> None:
        """Wait until all ranks are here. Raises PartedError."""
        self.times += 1
        key = f"met/{self.times}"
        self._call(lambda: self._store.add(key, 1))
        while self._call(lambda: self._store.add(key, 0)) < self.size:
            self._look()
            time.sleep(_AGAIN_S)

    def share(self, value: object) -> list[Any]:
        """Give what each rank says, in the order of ranks. Raises PartedError."""
        key = f"said/{self.times}"
        self._call(lambda: self._store.set(f"{key}/{self.rank}", json.dumps(value)))
        self.meet()
        return [json.loads(self._get(f"{key}/{rank}")) for rank in range(self.size)]

    def leave(self, why: str) -> None:
        """Tell the others that this rank goes no further, and why; the first to say so is heard."""
        try:
            self._store.compare_set("left", "", why)
        except Exception:  # noqa: BLE001 - nobody is there to be told
            return

    def left(self) -> str:
        """Tell why another rank has left; empty if none has."""
        try:
            self._look()
        except PartedError as why:
            return str(why)
        return ""

    def close(self) -> None:
        """Part; the first rank waits a while, so that the others can still read what was said."""
        until = time.monotonic() + _FAREWELL_S
        try:
            gone = self._store.add("gone", 1)
            while self.rank == 0 and gone < self.size and time.monotonic() < until:
                time.sleep(_AGAIN_S)
                gone = self._store.add("gone", 0)
        except Exception:  # noqa: BLE001 - as above
            return

    def _look(self) -> None:
        if self._call(lambda: self._store.check(["left"])):
            raise PartedError(self._get("left").decode("utf-8", "replace"))

    def _get(self, key: str) -> bytes:
        return bytes(self._call(lambda: self._store.get(key)))

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            raise PartedError(f"the first rank cannot be reached any more: {str(error)[:200]}") from error


class Watchdog:
    """Bounds each step. Its two ways out are called from another thread, with a reason.

    ``hung`` where the step took too long; ``parted`` where another rank has left meanwhile, without which a
    library may wait for long, and nothing came of the step for a while after that.
    """

    def __init__(self, hung: Callable[[str], None], parted: Callable[[str], None]) -> None:
        """Only hold."""
        self._hung, self._parted = hung, parted
        self.left: Callable[[], str] = str  # why another rank has left, as soon as there is a board

    @contextmanager
    def step(self, what: str, seconds: float) -> Iterator[None]:
        """Give the block so much time."""
        done = threading.Event()
        until = time.monotonic() + seconds
        threading.Thread(target=self._watch, args=(done, what, seconds, until), daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _watch(self, done: threading.Event, what: str, seconds: float, until: float) -> None:
        while not done.wait(min(_LOOK_S, max(0.0, until - time.monotonic()))):
            if time.monotonic() >= until:
                return self._hung(f"{what} {HUNG} {seconds:g} s")
            why = self.left()
            if why and not done.wait(_GRACE_S):  # whose partner hangs, hangs too, and says so itself
                return self._parted(why)
        return None
