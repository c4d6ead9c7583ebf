"""The metadata service: one request, nothing of the answer kept, and no answer mistaken for another."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.metadata import Metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.judge.fact import Fact

ARGS = {"timeout_s": 2}


class Service(BaseHTTPRequestHandler):
    """Answers as told, with a secret, and keeps what it was asked."""

    status: ClassVar[int] = 200
    asked: ClassVar[list[tuple[str, dict[str, str]]]] = []

    def do_GET(self) -> None:
        """Answer."""
        self.asked.append((self.path, dict(self.headers)))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"the secret")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of its base
        """Say nothing."""


@pytest.fixture
def place() -> Iterator[str]:
    """Run the service, and give its address."""
    Service.asked.clear()
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def ask(place: str) -> bytes:
    """Run the command of the measurement against another address."""
    _, *argv = Metadata().argv(ARGS)
    words = [word.replace("169.254.169.254", place) for word in argv]
    return subprocess.run([sys.executable, *words], capture_output=True, check=True).stdout


def read(out: bytes) -> Fact[bool]:
    """Read an answer."""
    return Metadata().read("n1", ARGS, Item("metadata", 1, out=out), "measure/metadata/n1#1").answers


@pytest.mark.parametrize(("status", "answers"), [(200, True), (302, True), (401, False), (404, False)])
def test_it_is_asked_once_without_a_token(
    status: int, place: str, monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    """One GET of one path, no header of any cloud; redirections are not followed, and no content is kept."""
    monkeypatch.setattr(Service, "status", status)
    out = ask(place)
    assert json.loads(out) == {"status": status}
    [(path, headers)] = Service.asked
    assert path == "/latest/meta-data/"
    assert set(headers) <= {"Host", "Accept-Encoding"}
    found = read(out)
    assert isinstance(found, Read)
    assert found.value is answers


def test_nobody_there() -> None:
    """A refused connection is no service, and says so."""
    found = read(ask("127.0.0.1:1"))
    assert isinstance(found, Read)
    assert not found.value
    assert "refused" in found.note


@pytest.mark.parametrize(
    "out", [b'{"status": 503}', b'{"garbled": "BadStatusLine"}', b"", b"[]", b'{"status": true}']
)
def test_what_is_no_clear_answer_is_unread(out: bytes) -> None:
    """A service that fails, or what is no service at all, says nothing of how strangers are treated."""
    assert isinstance(read(out), Unread)


@given(
    st.binary()
    | st.dictionaries(st.sampled_from(["status", "silence", "garbled"]), st.integers()).map(json.dumps)
)
def test_reading_never_raises(out: bytes | str) -> None:
    """Whatever came, it is a fact or unread."""
    assert isinstance(read(out if isinstance(out, bytes) else out.encode()), (Read, Unread))
