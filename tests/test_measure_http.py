"""Questions over HTTP end in time, keep no secret, and say what went wrong."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from gpuassay.measure import http
from gpuassay.measure.http import Question, ask
from serving import HANG, Asked, free_port, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.evidence.item import Item
    from serving import Answer

TOKEN = "a-secret-token"  # noqa: S105 - of this test only


def one(question: Question, each_s: float = 20.0) -> Item:
    """Ask one question."""
    return ask([question], each_s, time.monotonic() + 60)[0]


def test_an_answer_is_recorded_as_it_came_and_without_the_token() -> None:
    """The token is sent to the service, and is in nothing that is kept."""
    with served(lambda _: (200, "caf\u00e9", {})) as site:
        item = one(Question("page", f"{site.address}/x?y=1", TOKEN))

    assert site.asked[0].token == f"Bearer {TOKEN}"
    assert (item.status, item.exit, item.out) == ("ok", 200, "caf\u00e9".encode())
    assert item.asked == {"get": f"{site.address}/x?y=1"}
    assert TOKEN not in repr(item)


@pytest.mark.parametrize(
    ("code", "status"), [(401, "denied"), (403, "denied"), (404, "not_found"), (500, "failed")]
)
def test_a_refusal_has_its_status_and_words(code: int, status: str) -> None:
    """Denied is unseen and not a fault: it has to be told from a server that fails."""
    with served(lambda _: (code, "these are  the words", {})) as site:
        item = one(Question("page", site.address))

    assert (item.status, item.exit, item.why) == (status, code, f"HTTP {code}: these are the words")


def test_no_redirect_is_followed_and_no_token_goes_along() -> None:
    """Another host is named, and is not asked."""
    with (
        served(lambda _: (200, "secret", {})) as other,
        served(lambda _: (302, "", {"Location": f"{other.address}/login"})) as site,
    ):
        item = one(Question("page", site.address, TOKEN))

    assert other.asked == []
    assert (item.status, item.exit, item.out) == ("failed", 302, b"")
    assert f"127.0.0.1:{other.port}" in item.why


def test_a_service_that_hangs_costs_its_own_time_only() -> None:
    """It is cut at its limit, and those beside it have answered."""

    def answer(asked: Asked) -> Answer:
        return HANG if asked.path == "/hangs" else (200, "here", {})

    with served(answer) as site:
        questions = [Question(path, f"{site.address}/{path}") for path in ("hangs", "answers")]
        hung, answered = ask(questions, 0.3, time.monotonic() + 60)

    assert (hung.status, hung.why) == ("timed_out", "no answer within 0.3 s")
    assert answered.out == b"here"


@pytest.fixture
def dripping() -> Iterator[str]:
    """Run a server that sends a byte of a header now and then, for ever."""
    stopped = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not stopped.wait(0.02):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    stopped.set()
    thread.join()
    listener.close()


def test_a_service_that_drips_is_cut_too(dripping: str) -> None:
    """The limit is for the whole of an answer: each byte in time does not prolong it."""
    assert one(Question("page", dripping), each_s=0.3).status == "timed_out"


def test_nothing_is_asked_once_the_time_is_over() -> None:
    """The deadline of the whole survey holds for what still waits for its turn."""
    with served(lambda _: (200, "late", {})) as site:
        item = ask([Question("page", site.address)], 20.0, time.monotonic() - 1)[0]

    assert item.status == "timed_out"
    assert site.asked == []


def test_what_is_too_long_is_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer fills the memory, also if it lies about its length."""
    monkeypatch.setattr(http, "MOST_BYTES", 10)
    with served(lambda _: (200, b"x" * 100_000, {})) as site:
        item = one(Question("page", site.address))

    assert (item.truncated, item.out) == (True, b"x" * 10)


def test_a_refused_connection_is_told_in_its_own_words() -> None:
    """Not as the failure of all attempts to connect, which says nothing."""
    item = one(Question("page", f"http://127.0.0.1:{free_port()}"))

    assert item.status == "failed"
    assert "Connect call failed" in item.why


def test_an_address_that_is_none_fails_and_does_not_raise() -> None:
    """Whatever stands in a site file, the run goes on."""
    for address in ("http://[::1", "gopher://x", "http://127.0.0.1:99999"):
        assert one(Question("page", address)).status == "failed", address


def test_what_may_not_be_kept_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """``keep`` sees a good answer only, before it is cut."""
    monkeypatch.setattr(http, "MOST_BYTES", 1000)
    with served(lambda _: (200, "name and password", {})) as site:
        item = one(Question("page", site.address, keep=lambda out: out.partition(b" ")[0]))

    assert item.out == b"name"
