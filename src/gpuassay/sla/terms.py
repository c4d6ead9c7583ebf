"""The terms of a service level: what is promised, what counts against it, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Down:
    """When a node counts as down."""

    shortest_s: int
    settled_s: int
    degraded_counts: Fraction
    source: str


@dataclass(frozen=True, slots=True)
class Rack:
    """When a rack counts as down: once so many of its nodes do."""

    nodes: int
    down_at: int
    source: str


@dataclass(frozen=True, slots=True)
class Availability:
    """What is promised of each node, and of each rack, in each calendar month."""

    node: Fraction
    rack: Fraction
    source: str

    def of(self, kind: str) -> Fraction:
        """Give the promise for a node or a rack."""
        return self.rack if kind == "rack" else self.node


@dataclass(frozen=True, slots=True)
class Times:
    """How fast a failure is noticed, kept from work, and made good."""

    detect_s: int
    isolate_s: int
    replace_s: int
    source: str


@dataclass(frozen=True, slots=True)
class Maintenance:
    """How much announced maintenance a month may have before it counts as down; how early it is announced."""

    most_s: int
    notice_s: int
    source: str


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The test that comes before the first bill, and after each swap."""

    profile: str
    tier: str
    window_s: int
    retest_swapped: bool
    retest_within_s: int
    source: str


@dataclass(frozen=True, slots=True)
class Band:
    """Below this availability, so many hundredths of the unit's monthly fee are given back."""

    below: Fraction
    percent: int


@dataclass(frozen=True, slots=True)
class Credits:
    """What is given back for a node, and for a rack, the highest availability first."""

    node: tuple[Band, ...]
    rack: tuple[Band, ...]
    source: str

    def of(self, kind: str) -> tuple[Band, ...]:
        """Give the bands for a node or a rack."""
        return self.rack if kind == "rack" else self.node


@dataclass(frozen=True, slots=True)
class Termination:
    """When the tenant may leave without a fee: a month below, or so many missed of so many in a row."""

    below: Fraction
    missed: int
    of_months: int
    source: str


@dataclass(frozen=True, slots=True)
class Spares:
    """How many healthy nodes wait, of those that were sold, and how soon one that was used is made good."""

    share: Fraction
    least: int
    refill_s: int
    source: str


@dataclass(frozen=True, slots=True)
class Terms:
    """All terms of one service level. ``digest`` is the hash of the file that states them."""

    name: str
    title: str
    summary: str
    down: Down
    rack: Rack
    availability: Availability
    times: Times
    maintenance: Maintenance
    acceptance: Acceptance
    credits: Credits
    termination: Termination
    spares: Spares
    digest: str
