"""The right of reply: what the other party answers to a finding, in a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.judge.config import DATE, TEXT, ConfigError, Place, Table, meant
from gpuassay.judge.documents import parse, read

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from gpuassay.judge.config import Mistake

Replies = dict[str, list[dict[str, str]]]


def read_replies(path: Path, checks: Collection[str]) -> Replies:
    """Read ``[[reply]] check, by, date, text``. Raises ConfigError with every mistake in it."""
    mistakes: list[Mistake] = []
    table = Table(parse(read(path), path.name), Place(path.name), mistakes)
    replies: Replies = {}
    for entry in table.array("reply"):
        check = entry.need("check", TEXT)
        if check and check not in checks:
            entry.wrong("check", f"the run has no check {check}{meant(check, checks)}")
        reply = {"by": entry.need("by", TEXT), "date": entry.need("date", DATE).isoformat()}
        replies.setdefault(check, []).append({**reply, "text": entry.need("text", TEXT)})
        entry.close()
    table.close()
    if mistakes:
        raise ConfigError(mistakes)
    return replies
