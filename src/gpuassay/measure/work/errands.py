"""Programs that a workload runs on its node: timed, bounded, and with what they said last where they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_TOLD = 300


class ErrandError(Exception):
    """A program did not do what it was started for; says which, and its last words."""


def timed(
    argv: Sequence[str], patience_s: float, folder: Path, environment: Mapping[str, str] | None = None
) -> tuple[float, str]:
    """Run a program in a folder; gives the seconds that it took, and what it printed. Raises ErrandError."""
    begin = time.perf_counter()
    child = subprocess.Popen(  # noqa: S603 - argv is ours
        argv,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        raise ErrandError(f"{_shown(argv)} did not end within {patience_s:g} s") from None
    finally:
        end(child)
    seconds = time.perf_counter() - begin
    if child.returncode:
        last = (err.strip() or out.strip()).splitlines()[-1:]
        said = last[0][:_TOLD] if last else "it said nothing"
        raise ErrandError(f"{_shown(argv)} ended with status {child.returncode}: {said}")
    return seconds, out


def end(child: subprocess.Popen[str]) -> None:
    """End a program with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _shown(argv: Sequence[str]) -> str:
    words = [word.rpartition("/")[2] if word.startswith("/") else word for word in argv]
    return " ".join(words)[:120]
