"""Advisories: which versions a vendor called vulnerable, as ``advisories.toml`` has them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, TypeAlias

from gpuassay.judge.config import COUNT, DATE, TEXT, Kind, items, word
from gpuassay.judge.versions import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.config import Table

SEVERITIES = ("critical", "high", "medium", "low")

Day: TypeAlias = date
Ranges: TypeAlias = "tuple[tuple[str | None, str], ...]"


@dataclass(frozen=True, slots=True)
class Advisory:
    """What a vendor said is vulnerable.

    Each pair of ``affected`` is a range: from the first version on (None: from the start), before the second.
    ``packages`` has such ranges for single packages, by origin and name: ``ubuntu:24.04/linux-nvidia``. A
    limit finds its advisories by ``component``. ``window`` is how many days after ``fixed``, the day on which
    the first fix could be had, a version may still be without it.
    """

    id: str
    product: str
    scheme: str
    affected: Ranges
    source: str
    date: Day
    component: str = ""
    packages: Mapping[str, Ranges] = field(default_factory=dict, hash=False)
    severity: str = ""
    fixed: Day | None = None
    window: int = 0

    @property
    def known(self) -> Day:
        """The first day on which somebody could know of it."""
        return min(self.date, self.fixed or self.date)

    @property
    def due(self) -> Day:
        """The last day on which a version may be without the fix."""
        return (self.fixed or self.date) + timedelta(days=self.window)

    def first_fixed(self, version: str, package: str = "") -> str | None:
        """Name the version that mends this one; None for a version that is not affected.

        Raises ValueError for a version that the scheme cannot order.
        """
        order = SCHEMES[self.scheme]
        key = order(version)
        for first, before in self.packages.get(package, ()) if package else self.affected:
            if key < order(before) and (first is None or not key < order(first)):
                return before
        return None


def version(scheme: str) -> Kind[str]:
    """Read a version that a scheme can order."""

    def read(value: object) -> str:
        text = TEXT.read(value)
        SCHEMES[scheme](text)
        return text

    return Kind(f"a version in the {scheme} scheme", read, "")


def read_windows(table: Table) -> Mapping[str, int]:
    """Read ``[patch_window]``: days by severity; what has no severity has the shortest."""
    windows = {severity: table.take(severity, COUNT, 0) for severity in SEVERITIES}
    table.close()
    return windows | {"": min(windows.values())}


def read_advisories(section: Table, windows: Mapping[str, int]) -> Mapping[str, Advisory]:
    """Read all tables ``[advisory.ID]``, each with the window of its severity."""
    read = (read_advisory(name, table) for name, table in section.tables())
    return {one.id: replace(one, window=windows[one.severity]) for one in read}


def read_advisory(name: str, table: Table) -> Advisory:
    """Read ``[advisory.ID]``."""
    scheme = table.need("scheme", word(SCHEMES)) or "dotted"
    ranges = [_range(each, scheme) for each in table.array("affected")]
    if not ranges:
        table.wrong(
            "affected", 'expected ranges such as [{ from = "580", before = "580.159.03" }], found none'
        )
    packages: dict[str, Ranges] = {}
    for names, one in ranges:
        packages.update({package: (*packages.get(package, ()), one) for package in names})
    advisory = Advisory(
        name,
        table.need("product", TEXT),
        scheme,
        tuple(one for names, one in ranges if not names),
        table.need("source", TEXT),
        table.need("date", DATE),
        table.take("component", TEXT, ""),
        packages,
        table.take("severity", word(SEVERITIES), ""),
        table.take("fixed", DATE, None),
    )
    if packages and not advisory.component:
        table.wrong("component", "is missing; expected what limits call it by, such as runc")
    table.close()
    return advisory


def _range(table: Table, scheme: str) -> tuple[tuple[str, ...], tuple[str | None, str]]:
    names = table.take("packages", items(TEXT, least=1), ())
    first, before = table.take("from", version(scheme), None), table.need("before", version(scheme))
    if first and before and not SCHEMES[scheme](first) < SCHEMES[scheme](before):
        table.wrong("before", f"expected a version above {first}, found {before}")
    table.close()
    return names, (first, before)
