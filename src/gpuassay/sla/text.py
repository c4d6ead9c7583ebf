"""The terms as text that people read and sign: rendered from the TOML, so that the two cannot differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpuassay.report import words
from gpuassay.sla.judged import percent

if TYPE_CHECKING:
    from gpuassay.sla.terms import Terms

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def render(terms: Terms) -> str:
    """Write them as Markdown."""
    environment = Environment(  # noqa: S701 - it is text, not HTML
        loader=PackageLoader("gpuassay.sla"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=percent, time=period, tier=words.TIERS.__getitem__)
    environment.globals.update(plural=words.plural)
    return environment.get_template("terms.md.j2").render(terms=terms)


def period(seconds: int) -> str:
    """Write a length of time in the largest unit that it is a whole number of: ``2 minutes``."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    if unit == "day" and seconds == size:
        return "24 hours"
    return words.plural(seconds // size, unit)
