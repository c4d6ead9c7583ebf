"""Assemble ``results.json``: what a run was, what every check found, the coverage and the tier.

Everything comes from two JSON documents, the run's context and the checks' outcomes, both of which
stand in the journal: so a run that was killed gives its results all the same, later and elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from gpuassay.judge.catalog import TierRule
from gpuassay.judge.coverage import CheckCoverage, Nodes, cover
from gpuassay.judge.tier import Standing, award
from gpuassay.judge.verdict import Verdict
from gpuassay.report.contracted import CONTRACTED, NOT_RUN, ORDER, contracted
from gpuassay.report.fold import fold, natural
from gpuassay.sla.run import hold, missed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.judge.grading import Row
    from gpuassay.judge.settle import CheckResult

Document: TypeAlias = dict[str, Any]

SCHEMA = 1


def outcome(result: CheckResult, *, over: str) -> Document:
    """Write a settled check as the journal keeps it."""
    return {
        "verdict": _word(result.verdict),
        "reason": result.reason,
        "counts": dict(Counter(_word(row.verdict) for row in result.rows)),
        "observations": observations(result.rows),
        "applicable": result.applicable,
        "cells": [result.cells_expected, result.cells_judged],
        "caps_at_gold": result.caps_at_gold,
        "warned": result.warned,
        "waived": _waived(result.rows),
        "sick": list(result.sick),
        "doubtful": {node: _word(verdict) for node, verdict in result.doubtful.items()},
        "accelerators": len(result.subjects_judged) if over == "gpu" else 0,
    }


def failed_outcome(reason: str) -> Document:
    """Write the outcome of a check that could not be judged at all."""
    row = {"where": "", "count": 1, "at": {}, "metric": "", "value": None, "reference": None}
    error = {"verdict": Verdict.ERROR.word, "reason": reason, "evidence": ""}
    return not_run_outcome(reason) | {
        "verdict": Verdict.ERROR.word,
        "counts": {Verdict.ERROR.word: 1},
        "observations": [row | error],
    }


def graver(one: Document, other: Document) -> Document:
    """Choose the worse of two outcomes of one check; of alike ones the first."""
    return min(one, other, key=lambda found: ORDER.index(found["verdict"]))


def not_run_outcome(reason: str) -> Document:
    """Write the outcome of a check that was not run here, for no fault of the cluster."""
    return {
        "verdict": NOT_RUN,
        "reason": reason,
        "counts": {},
        "observations": [],
        "applicable": True,
        "cells": [0, 0],
        "caps_at_gold": False,
        "warned": False,
        "waived": [],
        "sick": [],
        "doubtful": {},
        "accelerators": 0,
    }


def crashed(found: Document, reason: str) -> Document:
    """Join an outcome with the fault of the check itself: an error, unless it had already failed."""
    error = failed_outcome(reason)
    worse = found if found["verdict"] == Verdict.FAIL.word else error
    return found | {
        "verdict": worse["verdict"],
        "reason": worse["reason"],
        "applicable": True,
        "counts": dict(Counter(found["counts"]) + Counter(error["counts"])),
        "observations": [*found["observations"], *error["observations"]],
    }


def observations(rows: Iterable[Row]) -> list[Document]:
    """Fold rows that are equal in all but place; the worst come first, then natural order."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        kind = type(row.value).__name__
        key = (
            row.verdict,
            row.metric,
            kind,
            repr(row.value),
            repr(row.reference),
            row.reason,
            row.at,
            row.provisional,
        )
        groups[key].append(row)
    folded = [_observation(group) for group in groups.values()]
    return sorted(folded, key=lambda row: (ORDER.index(row["verdict"]), row["metric"], natural(row["where"])))


def assemble(context: Mapping[str, Any], outcomes: Mapping[str, Document], *, cut: str = "") -> Document:
    """Assemble the results of a run.

    ``context`` is what the journal's first line holds; a check that ``outcomes`` lacks was not run:
    ``cut`` says why the run ended early, if it did.
    """
    why = cut or "not selected for this run"
    blank = {"verdict": NOT_RUN, "reason": why, "applicable": True, "cells": [0, 0]}
    found: dict[str, Document] = {check: outcomes.get(check, blank) for check in context["checks"]}
    described = dict(context["checks"])
    if any(pool["contracted"] is not None for pool in context["pools"]):
        described[CONTRACTED], found[CONTRACTED] = contracted(context["pools"], described, found)
    placement = context.get("placement")  # journals of older versions have neither this nor "earlier"
    limits = placement["limits"] if placement else ""
    checks = {check: _check(described[check], found[check], limits) for check in sorted(found)}
    tier = _tier(context, described, found)
    return {
        "schema": SCHEMA,
        **{key: context[key] for key in ("suite", "recording", "target", "profile", "stamps")},
        "earlier": context.get("earlier"),
        "placement": placement,
        **({"plan": context["plan"]} if context.get("plan") else {}),
        "tier": tier,
        **({"sla": hold(context["sla"], context, tier, checks)} if context.get("sla") else {}),
        "coverage": cover(Nodes(**context["nodes"]), map(_coverage, found.values())).document(),
        "out_of_service": context["out_of_service"],
        "return_list": _return_list(found),
        "waivers": [_waiver(waiver, found) for waiver in context["waivers"]],
        "problems": context["problems"],
        "checks": checks,
    }


def is_red(results: Mapping[str, Any]) -> bool:
    """Tell whether results make a run fail: any fail, any error, and a service level that is missed."""
    return missed(results) or any(
        check["verdict"] in ("fail", "error") for check in results["checks"].values()
    )


def _word(verdict: Verdict | None) -> str:
    return NOT_RUN if verdict is None else verdict.word


def _verdict(word: str) -> Verdict | None:
    return None if word == NOT_RUN else Verdict[word.upper()]


def _observation(group: Sequence[Row]) -> Document:
    first = min(group, key=lambda row: natural(row.where))
    document: Document = {
        "where": fold(row.where for row in group),
        "count": len(group),
        "at": dict(first.at),
        "metric": first.metric,
        "value": _finite(first.value),
        "reference": _finite(first.reference),
        "verdict": _word(first.verdict),
        "reason": first.reason,
        "evidence": first.evidence,
    }
    marks = {
        "provisional": first.provisional,
        "waived": first.waived.reason if first.waived else "",
        "caps": "gold" if first.caps_at_gold else "",
        "note": first.note,
        "spread": round(max(row.spread or 0.0 for row in group), 5),
    }
    return document | {key: mark for key, mark in marks.items() if mark}


def _finite(value: object) -> object:
    """JSON has no NaN and no infinity: they are spelled out."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _check(described: Mapping[str, Any], found: Mapping[str, Any], placed: str) -> Document:
    """Write a check; what was measured between nodes carries what their placement keeps it from saying."""
    shown = {key: found.get(key, empty) for key, empty in (("counts", {}), ("observations", []))}
    between = described["phase"] == "perf" and described["category"] == "networking"
    kept = {key: found[key] for key in ("series", "trials") if found.get(key)}
    limited = {"placement": placed} if placed and between and shown["observations"] else {}
    return {"verdict": found["verdict"], "reason": found["reason"], **described, **shown, **kept, **limited}


def _coverage(found: Mapping[str, Any]) -> CheckCoverage:
    return CheckCoverage(_verdict(found["verdict"]), found["applicable"], *found["cells"])


def _tier(context: Mapping[str, Any], described: Mapping[str, Any], found: Mapping[str, Any]) -> Document:
    standings = [
        Standing(
            check,
            described[check]["tier"],
            described[check]["phase"],
            _verdict(own["verdict"]),
            own["reason"],
            own.get("caps_at_gold", False),
            own.get("warned", False),
        )
        for check, own in found.items()
    ]
    rules = {
        tier: TierRule(rule["warnings"], tuple(rule["phases"])) for tier, rule in context["rules"].items()
    }
    judged = max((own.get("accelerators", 0) for own in found.values()), default=0)
    return award(standings, rules, accelerators_judged=judged, barred=context["barred"]).document()


def _return_list(found: Mapping[str, Any]) -> list[Document]:
    checks: dict[str, list[str]] = defaultdict(list)
    for check, own in found.items():
        for node in own.get("sick", ()):
            checks[node].append(check)
    return [{"where": node, "checks": sorted(checks[node])} for node in sorted(checks, key=natural)]


def _waived(rows: Iterable[Row]) -> list[Document]:
    """Count the rows that each waiver has softened."""
    used = Counter(row.waived for row in rows if row.waived)
    return [waiver.document() | {"rows": count} for waiver, count in used.items()]


def _waiver(waiver: Mapping[str, Any], found: Mapping[str, Any]) -> Document:
    softened = found[waiver["check"]].get("waived", ())
    used = sum(one["rows"] for one in softened if one == {**waiver, "rows": one["rows"]})
    state = "expired" if waiver["expired"] else "used" if used else "unmatched"
    shown = {key: waiver[key] for key in ("check", "where", "until", "reason")}
    return shown | {"state": state, "rows": used}
