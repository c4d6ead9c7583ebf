"""What stands between a cluster and its next tier, the cheapest first.

Cheap is by kind of work, and within a kind by the number of checks that one step settles at most once:
a run that is missing costs less than another seat, that less than something that would not be read, a
warning less than a broken part, and a wrong design most. docs/rating.md says why.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from gpuassay.judge.catalog import TIERS
from gpuassay.report.words import PHASES, SEATS, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.rating.words import Document

EFFORTS: Final[Mapping[str, str]] = {
    "measure": "a run to make",
    "seat": "a recording from another seat",
    "read": "something that could not be read",
    "warning": "a warning",
    "component": "a broken part",
    "design": "a design fault",
}
_OF_VERDICT = {"not_run": "measure", "unseen": "seat", "error": "read", "warn": "warning"}


def steps(results: Mapping[str, Any], tiers: Sequence[Mapping[str, Any]]) -> Document:
    """Give the next tier and the steps to it; no tier where the highest one is won."""
    won = results["tier"]["won"]
    above = TIERS[TIERS.index(won) + 1 :] if won else TIERS
    if not above:
        return {"tier": None, "steps": []}
    line = next(one for one in tiers if one["tier"] == above[0])
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for held in line["held_by"]:
        grouped[_group(results["checks"].get(held["check"]), held)].append(held)
    found = [_step(results, kind, named, held, line) for (kind, named), held in grouped.items()]
    order = list(EFFORTS)
    found.sort(key=lambda step: (order.index(step["effort"]), len(step["checks"]), step["checks"]))
    return {"tier": above[0], "steps": found}


def _group(check: Mapping[str, Any] | None, held: Mapping[str, Any]) -> tuple[str, str]:
    """Put together what one and the same step settles."""
    if check is None:  # a phase that proves nothing
        return "measure", held["check"]
    effort = _OF_VERDICT.get(held["verdict"]) or ("design" if check["fault"] != "component" else "component")
    if held["verdict"] in ("pass", "skip"):  # a waiver, which caps the tier at gold
        effort = "warning"
    same = {"measure": check["phase"], "seat": check["seat"], "read": held["reason"], "warning": ""}
    return effort, same.get(effort, held["check"])


def _step(
    results: Mapping[str, Any],
    effort: str,
    named: str,
    held: Sequence[Mapping[str, Any]],
    line: Mapping[str, Any],
) -> Document:
    checks = sorted(one["check"] for one in held)
    first = results["checks"].get(checks[0])
    return {
        "effort": effort,
        "does": _does(effort, named, len(checks), line, first),
        "fix": first["fix"] if first and effort in ("component", "design") else "",
        "checks": checks,
        "where": sorted({node["where"] for node in results["return_list"] if {*checks} & {*node["checks"]}}),
    }


def _does(
    effort: str, named: str, count: int, line: Mapping[str, Any], check: Mapping[str, Any] | None
) -> str:
    """Say what is to be done."""
    checks = plural(count, "check")
    if effort == "measure":
        if check is None:
            return f"have at least one check of the {PHASES.get(named, named)} phase judged: none applies yet"
        return f"run what is missing of the {PHASES[named]} phase: {checks}"
    if effort == "seat":
        return f"add what was seen from another seat ({SEATS[named]}): {checks}"
    if effort == "read":
        return f"mend what kept {checks} from being judged: {named}"
    if effort == "warning":
        spare = line["warnings_allowed"]
        return f"clear warnings until no more than {spare} are left: {checks} now"
    return str(check["title"]) if check else named
