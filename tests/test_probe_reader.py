"""Files and documents: each kind of absence by its own name, and a reader that nothing can hold up."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from gpuassay.probe import children, reader
from gpuassay.probe.answer import kind_of
from gpuassay.probe.items import Question

if TYPE_CHECKING:
    from pathlib import Path


def file(path: Path, cap: int = 1000) -> Question:
    """Ask for a file."""
    return Question("test", "file", (str(path),), "", cap=cap)


HOST = Question("host", "library", ("platform",), "", deadline_s=60)
HUNG = HOST._replace(deadline_s=0.1)


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    """Text stays text, to the last line end."""
    path = tmp_path / "file"
    path.write_text("one\ntwo\n")
    assert reader.read(file(path)).parts() == {"status": "ok", "out": "one\ntwo\n"}


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    """They travel in base 64."""
    path = tmp_path / "file"
    path.write_bytes(b"\xff\x00")
    assert reader.read(file(path)).parts() == {"status": "ok", "out_b64": "/wA="}


def test_a_file_above_its_cap_says_so(tmp_path: Path) -> None:
    """One byte too much is left out and told; the cap itself is allowed."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 11)
    assert reader.read(file(path, cap=10)).parts() == {"status": "ok", "out": "x" * 10, "truncated": True}
    assert not reader.read(file(path, cap=11)).truncated


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is not found, and the reason names it; a name that is no text does no harm."""
    answer = reader.read(file(tmp_path / "none"))
    assert (answer.status, answer.why) == ("not_found", f"{tmp_path}/none: No such file or directory")
    strange = reader.read(file(tmp_path / os.fsdecode(b"\xff")))
    assert strange.parts()["why"].encode()


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    """It failed: something is there, and it is not what was asked for."""
    assert reader.read(file(tmp_path)).parts() == {"status": "failed", "why": f"{tmp_path}: Is a directory"}


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, "not_found"),
        (errno.ENOTDIR, "not_found"),
        (errno.ENODEV, "not_found"),
        (errno.EACCES, "denied"),
        (errno.EPERM, "denied"),
        (errno.EIO, "failed"),
        (errno.EINVAL, "failed"),
    ],
)
def test_what_the_system_refuses(number: int, kind: str) -> None:
    """Not there, not allowed and broken are three kinds."""
    assert kind_of(OSError(number, "")) == kind


def answering(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Let a function answer for the library of the question HOST."""
    monkeypatch.setitem(reader.LIBRARIES, "host", function)


def test_a_refused_library_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system call that is not permitted, as in many a container, is denied."""

    def refuse() -> NoReturn:
        raise PermissionError(errno.EPERM, "", "adjtimex")

    answering(monkeypatch, refuse)
    assert reader.read(HOST).parts() == {"status": "denied", "why": "adjtimex: Operation not permitted"}


def test_a_readers_own_mistake_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs one item, which says what happened, and no other."""
    answering(monkeypatch, lambda: 1 / 0)
    assert reader.read(HOST).parts() == {"status": "failed", "why": "ZeroDivisionError: division by zero"}


def test_a_document_above_its_cap_is_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a document could not be read, so none is sent."""
    answering(monkeypatch, lambda: "x" * 100)
    assert reader.read(HOST._replace(cap=50)).parts() == {"status": "failed", "why": "larger than 50 bytes"}


def test_one_process_answers_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Questions in a row share a process, and its answers are those of a direct reading."""
    path = tmp_path / "file"
    path.write_text("text")
    answering(monkeypatch, os.getpid)
    with reader.Reader() as asking:
        first = asking.ask(HOST)
        assert asking.ask(file(path)) == {"status": "ok", "out": "text"}
        assert asking.ask(HOST) == first
        assert int(first["out"]) != os.getpid()


def test_a_read_that_hangs_loses_only_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is timed out, and the next question is answered by another process."""
    answering(monkeypatch, signal.pause)
    path = tmp_path / "file"
    path.write_text("text")
    with reader.Reader() as asking:
        assert asking.ask(HUNG) == {"status": "timed_out", "why": "no answer within 0.1 s"}
        assert asking.ask(file(path))["out"] == "text"


def test_a_read_that_is_stuck_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no signal helps, the process is given up, said so, and the next question answered."""
    monkeypatch.setattr(children, "TERM_GRACE_S", 0.05)
    monkeypatch.setattr(children, "KILL_GRACE_S", 0.05)
    answering(monkeypatch, signal.pause)
    with reader.Reader() as asking:
        with monkeypatch.context() as deaf:
            deaf.setattr(children.Child, "signal", lambda _child, _number: None)
            answer = asking.ask(HUNG)
        assert answer["why"] == "no answer within 0.1 s; it could not be killed and was left behind"
        assert asking.ask(file(tmp_path))["status"] == "failed"


def test_a_read_that_kills_its_process_loses_only_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A crash below Python is a failure of one item."""
    answering(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with reader.Reader() as asking:
        assert asking.ask(HOST) == {"status": "failed", "why": "the reading process ended: killed by SIGKILL"}
        assert asking.ask(file(tmp_path))["status"] == "failed"
