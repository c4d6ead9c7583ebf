"""What a user has to say before anything is broken, and what is refused whoever says it."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


_SHARED = ("root", "slurm")  # under these names providers' tooling acts as well


class RefusedError(Exception):
    """A fault may not be injected; says why, and what would be needed."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What was agreed to: nodes by name, a ticket that the provider knows of, and a window of time.

    ``begin`` and ``end`` have time zones; None is not agreed.
    """

    nodes: tuple[str, ...] = ()
    ticket: str = ""
    begin: datetime | None = None
    end: datetime | None = None

    def lacks(self, now: datetime, seconds: float) -> Iterator[str]:
        """Say what is missing for something that takes up to so many seconds from now."""
        if not self.nodes:
            yield "no node is named: --break-nodes"
        if not self.ticket.strip():
            yield "no ticket is named that the provider knows of: --ticket"
        if self.begin is None or self.end is None:
            yield "no window of time is agreed: --window=BEGIN/END"
        elif not self.begin <= now < self.end:
            yield f"now is outside the window {read(self.begin)} to {read(self.end)}"
        elif (left := (self.end - now).total_seconds()) < seconds:
            yield f"it may take {seconds:.0f} s, and the window closes in {left:.0f} s"


def refuse_unless(
    consent: Consent, node: str, now: datetime, seconds: float, declared: tuple[str, ...]
) -> None:
    """Go on only if all was agreed, for a node of the cluster's that was named. Raises RefusedError."""
    lacks = list(consent.lacks(now, seconds))
    if consent.nodes and node not in consent.nodes:
        lacks.append(f"{node} is not among the nodes that were named")
    if node not in declared:
        lacks.append(f"{node} is no compute node of this cluster")
    if lacks:
        raise RefusedError(f"{node}: {'; '.join(lacks)}")


def refuse_own(node: str, plan: Mapping[str, Any], own_boot: str) -> None:
    """Never break the machine that this runs on: it would not see what follows. Raises RefusedError."""
    if plan.get("boot") == own_boot:
        raise RefusedError(f"{node}: it is the machine that this runs on")


def user() -> str:
    """Name who runs this, by whom a change is none of the provider's; root is everybody's."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""
    return "" if name in _SHARED else name


def read(moment: datetime) -> str:
    """Write a moment for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
