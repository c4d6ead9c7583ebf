"""Products: the accelerators that are known, and what is known of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.config import FLAG, SCALAR, TEXT, items, meant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpuassay.judge.config import Table
    from gpuassay.judge.fact import Scalar

_PCI_ID = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}")


@dataclass(frozen=True, slots=True)
class Figure:
    """One published or measured figure of an accelerator, and who says so."""

    value: Scalar
    source: str
    provisional: bool = False


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A product: the exact names and PCI ids it goes by, its figures, and the metrics it has no value for."""

    name: str
    match: tuple[str, ...]
    lacks: frozenset[str]
    source: str
    figures: Mapping[str, Figure]

    def lacks_metric(self, check: str, metric: str) -> bool:
        """Tell whether an N/A from the tool is in order for this metric of a check."""
        return check in self.lacks or f"{check}.{metric}" in self.lacks


def read_accelerator(name: str, table: Table) -> Accelerator:
    """Read ``[accelerator.NAME]``: what is no key of ours is a figure."""
    match, source = table.need("match", items(TEXT, least=1)), table.need("source", TEXT)
    for model in match:
        if _PCI_ID.fullmatch(model) and model != model.lower():
            table.wrong("match", f"expected a PCI id in small letters, found {model}")
    lacks = frozenset(table.take("lacks", items(TEXT), ()))
    figures = {figure: _figure(table, figure, source) for figure in table.rest()}
    return Accelerator(name, match, lacks, source, figures)


def _figure(table: Table, name: str, source: str) -> Figure:
    if not isinstance(table.data[name], dict):
        return Figure(table.need(name, SCALAR), source)
    inline = table.inline(name)
    figure = Figure(
        inline.need("is", SCALAR),
        inline.take("source", TEXT, source),
        inline.take("provisional", FLAG, default=False),
    )
    inline.close()
    return figure


def figure_names(accelerators: Iterable[Accelerator]) -> frozenset[str]:
    """Name all figures that at least one product has."""
    return frozenset(name for accelerator in accelerators for name in accelerator.figures)


def compare_products(
    tables: Mapping[str, Table],
    products: Mapping[str, Accelerator],
    checks: Mapping[str, Collection[str]],
) -> None:
    """Note what a product lacks that is no check (or metric of one), and a name that two products go by."""
    known = {*checks, *(f"{check}.{metric}" for check, metrics in checks.items() for metric in metrics)}
    owners: dict[str, str] = {}
    for name, product in products.items():
        for lacked in sorted(product.lacks - known):
            tables[name].wrong("lacks", f"{lacked} is no check, and no metric of one{meant(lacked, known)}")
        for model in product.match:
            if owners.setdefault(model, name) != name:
                tables[name].wrong("match", f"{model} is matched by [accelerator.{owners[model]}] too")
