"""The pages that people sign and read: of one rating, and of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.rating.assessor import ABOUT
from gpuassay.rating.podium import RANKS
from gpuassay.rating.steps import EFFORTS
from gpuassay.rating.words import standing_word
from gpuassay.report.html import page_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

_STYLES = "report.css rating.css"


def rating_page(document: Mapping[str, Any]) -> str:
    """Write ``rating.html``. The same rating gives the same bytes."""
    return _render("rating.html.j2", "sort.js", document)


def podium_page(document: Mapping[str, Any]) -> str:
    """Write ``podium.html``. The same podium gives the same bytes."""
    return _render("podium.html.j2", "report.js sort.js", document)


def _render(template: str, scripts: str, document: Mapping[str, Any]) -> str:
    page = page_environment(_STYLES, scripts).get_template(template)
    words = {"efforts": EFFORTS, "standing": standing_word, "about": ABOUT, "rank": _rank}
    return page.render(doc=document, **words, results={"checks": {}})


def _rank(place: str | None) -> int:
    """Give the place of a tier among all, for a table to be sorted by; what is no rank comes before them."""
    return RANKS.index(place) + 1 if place in RANKS else 0
