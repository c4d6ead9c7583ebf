"""What one run says of a service level: the acceptance test, and the times of what was broken on purpose.

Availability is nothing that a run can show; for that there are the histories of `gpuassay sla check`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from gpuassay.judge.catalog import TIERS
from gpuassay.sla.judged import TIMES, timed, together
from gpuassay.sla.window import within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.sla.judged import Outcome
    from gpuassay.sla.terms import Terms

Document: TypeAlias = dict[str, Any]

# Of each time: the metric of how long it took, and that of whether it came about at all.
_METRICS: Mapping[str, tuple[str, str]] = {
    "detect": ("detect_s", "detected"),
    "isolate": ("isolate_s", "isolated"),
    "replace": ("replace_s", "replaced"),
}
_NOT_WITHIN = re.compile(r"not within ([0-9]+) s")
_NO_FAULT = "no check has seen it: nothing was broken on purpose, or nobody waited for it"


def promises(terms: Terms) -> Document:
    """Give what a run can be held to, as the journal keeps it."""
    return {
        "name": terms.name,
        "title": terms.title,
        "digest": terms.digest,
        "profile": terms.acceptance.profile,
        "tier": terms.acceptance.tier,
        "window_s": terms.acceptance.window_s,
        "detect_s": terms.times.detect_s,
        "isolate_s": terms.times.isolate_s,
        "replace_s": terms.times.replace_s,
    }


def hold(
    promised: Mapping[str, Any],
    context: Mapping[str, Any],
    tier: Mapping[str, Any],
    checks: Mapping[str, Mapping[str, Any]],
) -> Document:
    """Hold a run to what was promised; a recording that was not sealed shows no promise kept."""
    found = [*_accepted(promised, context, tier)]
    found += [_time(name, promised[f"{name}_s"], checks) for name in TIMES]
    if context["recording"]["seal"] != "sealed":
        why = f"the recording is {context['recording']['seal']}"
        found = [
            one | ({"outcome": "unknown", "why": why} if one["outcome"] == "met" else {}) for one in found
        ]
    return {
        **{key: promised[key] for key in ("name", "title", "digest")},
        "outcome": together(one["outcome"] for one in found),
        "terms": found,
    }


def _accepted(
    promised: Mapping[str, Any], context: Mapping[str, Any], tier: Mapping[str, Any]
) -> Iterator[Document]:
    """Hold the tier to its promise, and the time of the evidence to the window that is open for it.

    Evidence from before or after the window shows no acceptance met; that a tier is out of reach stays seen.
    """
    acceptance = _acceptance(promised, context["profile"], tier)
    if "window_s" not in promised:  # in journals of older versions
        yield acceptance
        return
    window = within(promised["window_s"], context["recording"])
    declared = context["recording"].get("handed_over") is not None
    if declared and acceptance["outcome"] == "met" and window["outcome"] != "met":
        acceptance |= {"outcome": "unknown", "why": f"{acceptance['why']}, but {window['why']}"}
    yield acceptance
    yield window


def _acceptance(promised: Mapping[str, Any], profile: str, tier: Mapping[str, Any]) -> Document:
    asked = promised["tier"]
    outcome: Outcome = "unknown"
    if profile != promised["profile"]:
        why = f"judged by the profile {profile}"
    elif _reaches(tier["won"], asked):
        outcome, why = "met", f"{tier['won']} is won"
    elif _reaches(tier["ceiling"], asked):
        why = f"{asked} is not won, and still possible"
    else:
        outcome, why = "missed", f"{asked} is out of reach: the ceiling is {tier['ceiling'] or 'none'}"
    words = f"the tier {asked}, by the profile {promised['profile']}"
    return {"term": "acceptance", "promised": words, "outcome": outcome, "why": why, "checks": []}


def _reaches(tier: str | None, asked: str) -> bool:
    return tier is not None and TIERS.index(tier) >= TIERS.index(asked)


def _time(name: str, promised: int, checks: Mapping[str, Mapping[str, Any]]) -> Document:
    """Hold the slowest of all faults to a time; one that was not seen leaves the others' open."""
    seconds, whether = _METRICS[name]
    rows = [
        (check, row)
        for check, own in checks.items()
        if own["phase"] == "reliability"
        for row in own["observations"]
        if row["metric"] in (seconds, whether)
    ]
    told = [(check, *_told(row, promised, measured=row["metric"] == seconds)) for check, row in rows]
    outcome = together(one for _, one, _ in told)
    said = dict.fromkeys(words for _, one, words in told if one == outcome and words)
    return {
        "term": name,
        "promised": f"within {promised} s",
        "outcome": outcome,
        "why": "; ".join(said) or _NO_FAULT,
        "checks": sorted({check for check, one, _ in told if one == outcome}),
    }


def _told(row: Mapping[str, Any], promised: int, *, measured: bool) -> tuple[Outcome, str]:
    """Read one row: a time, or whether it came about in the time that was watched."""
    where, value = row["where"] or "the cluster", row["value"]
    if measured and isinstance(value, int | float) and not isinstance(value, bool):
        return timed(value, promised), f"{where}: after {value:g} s"
    if not measured and value is True:
        return "met", ""  # how long it took is told by a row of its own
    said = row["reason"] or row.get("note", "")
    watched = _NOT_WITHIN.search(said) if value is False else None
    if watched and int(watched[1]) >= promised:
        return "missed", f"{where}: {watched[0]}"
    return "unknown", f"{where}: {said}"


def missed(results: Mapping[str, Any]) -> bool:
    """Tell whether results show that a service level which was asked for is missed."""
    return "sla" in results and bool(results["sla"]["outcome"] == "missed")


def summary(sla: Mapping[str, Any]) -> Iterator[str]:
    """Write it in lines for a terminal."""
    yield f"service level {sla['title']}: {sla['outcome']}"
    for one in sla["terms"]:
        yield f"  {one['term']}: {one['promised']}: {one['outcome']}: {one['why']}"
