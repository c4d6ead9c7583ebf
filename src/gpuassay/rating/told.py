"""A rating on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.rating.steps import EFFORTS
from gpuassay.rating.words import standing_word
from gpuassay.report.words import TIERS, VERDICTS, period, plural, tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FIRST = 5


def lines(rating: Mapping[str, Any]) -> Iterator[str]:
    """Write a rating in a screenful: all else is on the page."""
    rated, computed = rating["rated"], rating["computed"]
    yield f"{rating['cluster'] or 'GPU cluster'}: {standing_word(rated['state'], rated['tier'])}"
    if rated["lowered"]:
        yield f"  computed: {TIERS[computed['won']]}; lowered by the assessor's file"
    yield f"  {computed['why']}"
    yield f"  {plural(len(rating['runs']), 'run')}, {period(**rating['window'])}"
    for stamp in rating["stamps"]:
        yield f"  {stamp['stamp'].upper()}: {stamp['why']}"
    if rating["assessor"] and rating["assessor"]["signature"] != "signed":
        yield f"  {rating['assessor']['signature'].upper()}: {rating['assessor']['why']}"
    for one in rating["superseded"]:
        yield (
            f"  superseded: {one['check']} failed in {one['failed']} of {one['tried']} runs; "
            f"now {VERDICTS[one['now']].label.lower()}"
        )
    yield "by category:"
    for line in rating["categories"]:
        counts = ", ".join(f"{n} {VERDICTS[key].label.lower()}" for key, n in tally(line["counts"]))
        holds = f"; holds back {TIERS[line['holds']]}" if line["holds"] else ""
        yield f"  {line['category']}: {counts}{holds}"
    yield from _next(rating["next"])
    for node in rating["return_list"]:
        yield f"return {node['where']}: {', '.join(node['checks'])}"
    yield rating["statement"]


def _next(ahead: Mapping[str, Any]) -> Iterator[str]:
    if ahead["tier"] is None:
        return
    yield f"to {TIERS[ahead['tier']]}, the cheapest first:"
    for step in ahead["steps"][:_FIRST]:
        yield f"  {EFFORTS[step['effort']]}: {step['does']}"
    if len(ahead["steps"]) > _FIRST:
        yield f"  and {plural(len(ahead['steps']) - _FIRST, 'more step')}"
