"""Ranks that tell each other why they leave, and a watchdog for what hangs: on a real store."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

from gpuassay.measure.work.board import Board, PartedError, Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 60.0


@pytest.fixture
def boards() -> list[Board]:
    """Give the boards of two ranks."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port = str(door.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    return [Board({**place, "RANK": str(rank)}, LONG) for rank in range(2)]


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Run calls in threads of their own; gives what each gave, or raised."""
    found: list[object] = [None] * len(calls)

    def run(place: int) -> None:
        try:
            found[place] = calls[place]()
        except PartedError as why:
            found[place] = why

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_what_ranks_say_is_given_in_their_order(boards: list[Board]) -> None:
    """Twice, for what was said before must not be taken for what is said now."""
    one, other = boards
    assert at_once(lambda: one.share([1]), lambda: other.share("x")) == [[[1], "x"]] * 2
    assert at_once(lambda: one.share(3), lambda: other.share(4)) == [[3, 4]] * 2


def test_who_waits_learns_why_another_has_left(boards: list[Board]) -> None:
    """And the first reason is the one that is heard."""
    one, other = boards
    other.leave("n2/0: first contact did not end")
    other.leave("n2/0: something else")
    (why,) = at_once(one.meet)

    assert isinstance(why, PartedError)
    assert str(why) == "n2/0: first contact did not end"
    assert one.left() == "n2/0: first contact did not end"


def test_a_board_without_its_first_rank_says_so(boards: list[Board]) -> None:
    """Its store is gone, and nobody waits for ever."""
    one, other = boards
    del one.store, one._store  # noqa: SLF001 - as when the process has ended
    (why,) = at_once(other.meet)
    assert isinstance(why, PartedError)


def test_a_step_that_hangs_is_said_with_its_name() -> None:
    """From another thread, for the one that hangs cannot."""
    said: list[str] = []
    hung = threading.Event()

    def tell(why: str) -> None:
        said.append(why)
        hung.set()

    dog = Watchdog(tell, said.append)
    with dog.step("first contact of n1/0 with n2/0", 0.2):
        assert hung.wait(LONG)
    assert said == ["first contact of n1/0 with n2/0 did not end within 0.2 s"]


def test_a_step_that_ends_in_time_is_left_alone() -> None:
    """Its watch ends with it."""
    said: list[str] = []
    with Watchdog(said.append, said.append).step("quick", LONG):
        pass
    assert said == []


def test_a_step_that_waits_for_one_that_has_left_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while: whose partner hangs, hangs too, and has the first word about itself."""
    monkeypatch.setattr("gpuassay.measure.work.board._LOOK_S", 0.01)
    monkeypatch.setattr("gpuassay.measure.work.board._GRACE_S", 0.01)
    cut = threading.Event()
    said: list[str] = []

    def tell(why: str) -> None:
        said.append(why)
        cut.set()

    dog = Watchdog(said.append, tell)
    dog.left = lambda: "n3/0 has left"
    with dog.step("an all-gather of 4 nodes", LONG):
        assert cut.wait(LONG)
    assert said == ["n3/0 has left"]
