"""Commands: what each ending is called, what is kept, and that nothing is left running."""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING, NoReturn

import pytest

from gpuassay.probe import children, commands
from gpuassay.probe.items import Question
from probing import Mark

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.probe.answer import Answer


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Mark:
    """Mark what the commands start, and be short with what does not end."""
    mark = Mark()
    for name, value in mark.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(children, "TERM_GRACE_S", 0.05)
    return mark


def run(*argv: str, **options: object) -> Answer:
    """Run one command as the probe does."""
    return commands.run(Question("test", "command", argv, "", **options))  # type: ignore[arg-type]


def shell(script: str, **options: object) -> Answer:
    """Run a script: here the shell is the program that is tested."""
    return run("sh", "-c", script, **options)


def test_output_and_exit_status_are_kept() -> None:
    """A command that works is ok, with what it printed on both channels."""
    answer = shell("echo out; echo err >&2")
    assert (answer.status, answer.out, answer.err, answer.exit) == ("ok", b"out\n", "err\n", 0)


def test_a_failure_keeps_what_was_printed() -> None:
    """A tool may print good data and exit with 255: that is failed, with its output."""
    answer = shell("echo data; exit 255")
    assert (answer.status, answer.out, answer.exit, answer.why) == ("failed", b"data\n", 255, "exit 255")


def test_an_exit_status_can_be_an_answer() -> None:
    """A status that the question lists as fine makes no failure."""
    assert shell("echo none; exit 1", fine=(0, 1)).status == "ok"


@pytest.mark.parametrize(("status", "word"), [(126, "denied"), (127, "not_found"), (1, "failed")])
def test_exit_statuses_of_wrappers(status: int, word: str) -> None:
    """126 and 127 mean what they mean to a shell: not allowed, not there."""
    assert shell(f"exit {status}").status == word


def test_death_by_a_signal_is_named() -> None:
    """A crash is failed and names the signal; so does one that has only a number."""
    assert shell("kill -SEGV $$").why == "killed by SIGSEGV"
    assert shell("kill -40 $$").why == "killed by signal 40"


def test_a_program_that_is_not_there() -> None:
    """It is not found, and not mistaken for one that failed."""
    answer = run("gpuassay-no-such-tool")
    assert (answer.status, answer.exit) == ("not_found", None)
    assert answer.why == "gpuassay-no-such-tool: No such file or directory"


def test_a_folder_of_the_path_that_may_not_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system then says that the program is denied; as far as this user can tell it is not there."""

    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "")

    monkeypatch.setattr(os, "execvpe", refuse)
    assert run("gpuassay-no-such-tool").status == "not_found"
    assert run("sh").status == "denied"


def test_a_program_that_may_not_be_run(tmp_path: Path) -> None:
    """It is denied."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o600)
    assert run(str(tool)).status == "denied"


def test_a_program_that_cannot_be_loaded(tmp_path: Path) -> None:
    """It failed: there is such a file, and it is allowed, but it is no program."""
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELF not really")
    tool.chmod(0o700)
    assert run(str(tool)).status == "failed"


def test_a_command_that_hangs_and_ignores_sigterm(mark: Mark) -> None:
    """It is killed with all that it started, at the deadline; what it said before is kept."""
    answer = shell("trap '' TERM; echo before; (trap '' TERM; sleep 1000) & sleep 1000", deadline_s=0.3)
    assert (answer.status, answer.out, answer.exit) == ("timed_out", b"before\n", -9)
    assert answer.why == "no end within 0.3 s; killed by SIGKILL"
    assert mark.survivors() == []


def test_what_a_command_leaves_behind_is_ended(mark: Mark) -> None:
    """A command that ends is not waited for because its own child holds its output; that child is ended."""
    answer = shell("sleep 1000 & echo done", deadline_s=60)
    assert (answer.status, answer.out) == ("ok", b"done\n")
    assert mark.survivors() == []


def test_endless_output_does_not_fill_memory(mark: Mark) -> None:
    """Of a command that prints for ever the beginning is kept, and that it was cut is said."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = run("yes", deadline_s=0.3, cap=1000)
    assert (answer.status, answer.out, answer.truncated) == ("timed_out", b"y\n" * 500, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB; yes prints gigabytes
    assert mark.survivors() == []


def test_long_output_that_ends_keeps_its_exit_status() -> None:
    """More than the cap is no failure: the tool came to its end, and only the rest is gone."""
    answer = shell("head -c 300000 /dev/zero; exit 3", cap=100, fine=(3,))
    assert (answer.status, len(answer.out), answer.truncated, answer.exit) == ("ok", 100, True, 3)


def test_a_command_that_closes_its_output_is_waited_for() -> None:
    """The end of its output is not the end of the command."""
    answer = shell("exec >&- 2>&-; read nothing; exit 7")
    assert (answer.status, answer.exit) == ("failed", 7)


def test_no_shell_and_no_input() -> None:
    """Arguments arrive as they are, and a tool that asks gets nothing."""
    assert run("echo", "$(id); `id`").out == b"$(id); `id`\n"
    assert run("cat", deadline_s=60).out == b""


def test_only_listed_names_of_the_environment_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of the session stay there, and answers come in English."""
    monkeypatch.setenv("API_TOKEN", "secret")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/driver")
    printed = run("env").out.decode()
    assert "secret" not in printed
    assert "LANG=C\n" in printed
    assert "LD_LIBRARY_PATH=/opt/driver\n" in printed


def test_system_tools_are_found_without_a_path() -> None:
    """A session without PATH, or with a user's, still finds the tools of administrators."""
    assert commands.environment({})["PATH"].startswith("/usr/local/sbin:")
    assert commands.environment({"PATH": "/home/me/bin"})["PATH"].startswith("/home/me/bin:/usr/local/sbin:")


def test_names_of_processes_are_left_out() -> None:
    """What users run is nobody's business: nvidia-smi's list keeps its form and loses its text."""
    xml = b"<p><process_name>python train.py --key=1</process_name></p><process_name>cut o"
    answer = run("printf", "%s", xml.decode(), hide=r"(?<=<process_name>)[^<]*")
    assert answer.out == b"<p><process_name></process_name></p><process_name>"


def test_a_command_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch, mark: Mark) -> None:
    """One that is stuck in the kernel is not waited for: what it said counts, and that it is left is said."""
    monkeypatch.setattr(children, "KILL_GRACE_S", 0.05)
    with monkeypatch.context() as deaf:
        deaf.setattr(children.Child, "signal", lambda _child, _number: None)
        answer = run("sh", "-c", "echo started; exec sleep 1000", deadline_s=0.3)
    assert (answer.status, answer.out, answer.exit) == ("timed_out", b"started\n", None)
    assert answer.why == "no end within 0.3 s; it could not be killed and was left behind"
    mark.end()
