"""What the site file keeps a record of: nodes out of service or replaced, and fails that were agreed to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.judge.config import DATE, TEXT, Kind, word
from gpuassay.judge.names import NODES, expand, first_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from gpuassay.judge.config import Table

EVERYWHERE = "*"


SITE_FILE = "site file"


@dataclass(frozen=True, slots=True)
class Out:
    """Nodes out of service, through the day ``until`` (None: until further notice), as ``source`` says."""

    where: str
    nodes: frozenset[str]
    until: date | None
    reason: str
    expired: bool = False
    source: str = SITE_FILE

    def document(self) -> dict[str, Any]:
        """Give it as reports have it."""
        return {
            "where": self.where,
            "until": self.until.isoformat() if self.until else None,
            "reason": self.reason,
            "expired": self.expired,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Waiver:
    """Fails of one check that are forgiven at some places, through the day ``until``."""

    check: str
    where: str
    places: frozenset[str]
    until: date
    reason: str
    expired: bool = False

    def covers(self, check: str, where: str) -> bool:
        """Tell whether it speaks of this check at this place: a node covers all that is in it."""
        if check != self.check:
            return False
        parts = where.split("/")
        above = ("/".join(parts[: end + 1]) for end in range(len(parts)))
        return self.where == EVERYWHERE or not self.places.isdisjoint(above)

    def document(self) -> dict[str, Any]:
        """Give it as reports have it."""
        return {
            "check": self.check,
            "where": self.where,
            "until": self.until.isoformat(),
            "reason": self.reason,
            "expired": self.expired,
        }


@dataclass(frozen=True, slots=True)
class Replaced:
    """A node that was exchanged, or set up anew: the same name twice where it has kept it."""

    old: str
    new: str
    reason: str

    def document(self) -> dict[str, str]:
        """Give it as reports have it."""
        return {"old": self.old, "new": self.new, "reason": self.reason}


def read_replaced(table: Table) -> Replaced:
    """Read ``[[replaced]]``; the old node need not be declared any more."""
    record = Replaced(table.need("old", TEXT), table.need("new", TEXT), table.need("reason", TEXT))
    table.close()
    return record


def read_out(table: Table, declared: Collection[str]) -> Out:
    """Read ``[[out]]``; only declared nodes can be out of service."""
    nodes = table.need("nodes", NODES)
    out = Out(
        where=str(table.data.get("nodes")),
        nodes=frozenset(nodes),
        until=table.take("until", DATE, None),
        reason=table.need("reason", TEXT),
    )
    strangers = [node for node in nodes if node not in declared]
    if strangers:
        table.wrong("nodes", f"expected nodes of a [[pool]]; in none: {first_of(strangers)}")
    table.close()
    return out


def _places(value: object) -> tuple[str, ...]:
    return () if value == EVERYWHERE else expand(TEXT.read(value))


_PLACES: Kind[tuple[str, ...]] = Kind(
    'places such as gpu[001-004] or gpu003/gpu5, or "*" for everywhere', _places, ()
)


def read_waiver(table: Table, checks: Collection[str]) -> Waiver:
    """Read ``[[waiver]]``; it must name a check that exists, places, a last day and a reason."""
    waiver = Waiver(
        check=table.need("check", word(checks, "the id of a check")),
        places=frozenset(table.need("where", _PLACES)),
        where=str(table.data.get("where")),
        until=table.need("until", DATE),
        reason=table.need("reason", TEXT),
    )
    table.close()
    return waiver
