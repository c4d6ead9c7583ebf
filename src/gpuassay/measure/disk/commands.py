"""A tool as a child of ours: found in PATH, run with a time limit, and what it printed kept."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEPT = 1 << 16


def find(*names: str) -> str:
    """Find the first of these programs in PATH; empty if none is there."""
    return next((found for name in names if (found := shutil.which(name))), "")


def run(command: Sequence[str], seconds: float) -> dict[str, Any]:
    """Run a command, and give it with its exit status and output; one that hangs is killed."""
    environment = {**os.environ, "LC_ALL": "C"}  # a decimal comma is no JSON
    told: dict[str, Any] = {"command": list(command)}
    try:
        done = subprocess.run(  # noqa: S603 - a list, no shell
            command,
            check=False,
            capture_output=True,
            timeout=seconds,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as late:
        return {**told, "timed_out": seconds, "out": _text(late.stdout), "err": _text(late.stderr)}
    except OSError as error:
        return {**told, "exit": 126, "out": "", "err": str(error)}
    return {**told, "exit": done.returncode, "out": _text(done.stdout), "err": _text(done.stderr)}


def version(command: Sequence[str]) -> str:
    """Ask a tool for its version: the first line that it prints."""
    told = run(command, 20)
    lines = [line.strip() for line in f"{told['out']}\n{told['err']}".splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def _text(said: bytes | str | None) -> str:
    """Keep the beginning and the end of what was printed: where it is long, both say most."""
    data = said.encode() if isinstance(said, str) else said or b""
    if len(data) > 2 * _KEPT:
        data = data[:_KEPT] + b"\n[...]\n" + data[-_KEPT:]
    return data.decode("utf-8", "replace")
