"""One rank of a load that all bear together: what it is at, how long that may take, how it parts."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import words
from gpuassay.measure.work.board import MEETING, Board, PartedError, Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.measure.work.device import Device

START_S = 60.0
"""How much longer than any other step the first ones may take: all ranks have to start."""


class Party:
    """This rank among the others; a step of it may take ``patience`` seconds.

    ``names`` are the nodes, by which others are told of a rank; without them, it has its number alone.
    """

    def __init__(
        self, device: Device, args: Mapping[str, Any], patience: float, names: Sequence[str] = ()
    ) -> None:
        """Take this rank's place from what a launcher tells it."""
        self.device, self.args, self.patience, self.names = device, args, patience, names
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local, self.local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
        self.step = MEETING
        self._board: Board | None = None
        self._dog = Watchdog(lambda _why: None, lambda _why: None)

    @property
    def board(self) -> Board:
        """What the ranks tell each other on. Raises PartedError."""
        if self._board is None:
            raise PartedError("the ranks never met")
        return self._board

    def attend(self, go: Callable[[], None], leave: Callable[[Mapping[str, Any]], None]) -> None:
        """Do all of it. ``leave`` is told how it ended, and ends this process, whatever hangs."""

        def hung(why: str) -> None:
            self.tell(why)
            leave({"broken": why})

        self._dog = Watchdog(hung, lambda why: leave({"ended": why}))
        ending = {}
        try:
            go()
        except PartedError as other:
            ending = {"ended": str(other)}
        except Exception as error:  # noqa: BLE001 - torch raises whatever its libraries do
            why = f"{self.step}: {words.brief(error)}"
            self.tell(why)
            ending = {"broken": why}
        finally:
            self.tidy()
        if self._board:
            self._board.close()
        leave(ending)

    def join(self) -> None:
        """Find the board, within a step that has so much time."""
        self._board = Board(os.environ, START_S + self.patience)
        self._dog.left = self._board.left

    @contextmanager
    def doing(self, what: str, more: float = 0.0) -> Iterator[None]:
        """Be at a step, which may take so many seconds more than others."""
        with self.within(what, self.patience + more):
            yield

    @contextmanager
    def within(self, what: str, seconds: float) -> Iterator[None]:
        """Be at a step that may take so long."""
        self.step = what
        with self._dog.step(what, seconds):
            yield

    def name(self, rank: int) -> str:
        """Name a rank by its node and its number there."""
        if not self.names:
            return f"rank {rank}"
        return f"{self.names[rank // self.local_size]}/{rank % self.local_size}"

    def tell(self, why: str) -> None:
        """Tell the others that this rank goes no further."""
        if self._board:
            self._board.leave(f"{self.name(self.rank)}: {why}")

    def tidy(self) -> None:
        """Remove what this rank has made, however it ended."""
