"""The probe's whole run: questions in their order, few processes, and a node that has none to spare."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

from gpuassay.probe import main
from gpuassay.probe.items import QUESTIONS, Question

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def ask_file(path: Path) -> Question:
    """Ask for a file."""
    return Question("test", "file", (str(path),), "")


def test_few_processes_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reads all files and trees, one the GPU library, one asks file systems, and each command is one."""
    fork, pids = os.fork, []

    def counting() -> int:
        pids.append(fork())
        return pids[-1]

    monkeypatch.setattr(os, "fork", counting)
    items = list(main.gather(QUESTIONS))
    commands = sum("command" in item["asked"] for item in items)
    assert len(pids) == 3 + commands
    assert all("seconds" in item for item in items)


def test_a_node_without_room_for_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no process can be started every question fails with that reason, and the probe ends well."""

    def refuse() -> NoReturn:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    command = Question("tool", "command", ("true",), "")
    items = list(main.gather([ask_file(tmp_path / "file"), command]))
    assert [item["status"] for item in items] == ["failed", "failed"]
    assert {item["why"] for item in items} == {"Resource temporarily unavailable"}


def test_a_question_may_depend_on_another(tmp_path: Path) -> None:
    """It is asked only where the other was not ok, and numbered without a gap."""
    path = tmp_path / "file"
    path.touch()
    fallback = Question("fallback", "command", ("true",), "", unless="test")
    assert [item["id"] for item in main.gather([ask_file(path), fallback])] == ["test"]
    both = list(main.gather([ask_file(tmp_path / "none"), fallback]))
    assert [(item["id"], item["seq"], item["status"]) for item in both] == [
        ("test", 1, "not_found"),
        ("fallback", 2, "ok"),
    ]
