"""Advisories: which versions a vendor called vulnerable, as ``advisories.toml`` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.config import DATE, TEXT, Kind, word
from gpuassay.judge.versions import SCHEMES

if TYPE_CHECKING:
    from datetime import date

    from gpuassay.judge.config import Table


@dataclass(frozen=True, slots=True)
class Advisory:
    """What a vendor said is vulnerable.

    Each pair of ``affected`` is a range: from the first version on (None: from the start), before the second.
    """

    id: str
    product: str
    scheme: str
    affected: tuple[tuple[str | None, str], ...]
    source: str
    date: date

    def first_fixed(self, version: str) -> str | None:
        """Name the version that mends this one; None for a version that is not affected.

        Raises ValueError for a version that the scheme cannot order.
        """
        order = SCHEMES[self.scheme]
        key = order(version)
        for first, before in self.affected:
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


def read_advisory(name: str, table: Table) -> Advisory:
    """Read ``[advisory.ID]``."""
    scheme = table.need("scheme", word(SCHEMES)) or "dotted"
    affected = tuple(_range(each, scheme) for each in table.array("affected"))
    if not affected:
        table.wrong(
            "affected", 'expected ranges such as [{ from = "580", before = "580.159.03" }], found none'
        )
    advisory = Advisory(
        name,
        table.need("product", TEXT),
        scheme,
        affected,
        table.need("source", TEXT),
        table.need("date", DATE),
    )
    table.close()
    return advisory


def _range(table: Table, scheme: str) -> tuple[str | None, str]:
    first, before = table.take("from", version(scheme), None), table.need("before", version(scheme))
    if first and before and not SCHEMES[scheme](first) < SCHEMES[scheme](before):
        table.wrong("before", f"expected a version above {first}, found {before}")
    table.close()
    return first, before
