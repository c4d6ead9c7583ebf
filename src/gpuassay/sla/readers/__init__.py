"""Node histories as they come, read into their normal form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from gpuassay.sla.moments import Moment
    from gpuassay.sla.outages import Actor
    from gpuassay.sla.spans import Span


class ReadError(ValueError):
    """A history cannot be used; the message names the file, the place in it, and what was expected."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What no source says of itself.

    ``zone`` is that of times which name none. ``tenants`` are users of Slurm who are the tenant's, and
    ``cordons`` says whose cordons are, for Kubernetes does not. ``grace_s`` is how long a provider may need
    to bring a node back that we had broken. ``suite`` is the folder of the tables by which a node that served
    in place of another is held to it; without them that comparison is not known.
    """

    zone: ZoneInfo
    tenants: frozenset[str] = frozenset()
    cordons: Actor | None = None
    grace_s: int = 0
    suite: Path | None = None


@dataclass
class Doubts:
    """The hours that clocks show twice: a time in one of them bounds an outage from within only."""

    spans: dict[str, list[Span]] = field(default_factory=dict)

    def note(self, node: str, moment: Moment) -> None:
        """Note that it is not known how a node was in the time that a moment leaves open."""
        if moment.late > moment.early:
            self.spans.setdefault(node, []).append((moment.early, moment.late))
