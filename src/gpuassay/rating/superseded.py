"""Fails of earlier runs that later evidence replaced: a check that was run until it passed is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.rating.words import Document


def superseded(runs: Sequence[Mapping[str, Any]], merged: Mapping[str, Any]) -> list[Document]:
    """List every check that failed in a run, and does not fail in what is rated, with all its outcomes.

    ``runs`` are results documents, the newest first, each judged by the same numbers.
    """
    found = []
    for check in sorted({check for run in runs for check in run["checks"]}):
        told = [_outcome(run, check) for run in reversed(runs) if check in run["checks"]]
        now = merged["checks"][check]["verdict"] if check in merged["checks"] else "not_run"
        if now != "fail" and any(one["verdict"] == "fail" for one in told):
            tried = [one for one in told if one["verdict"] not in ("not_run", "skip")]
            failed = [one for one in tried if one["verdict"] == "fail"]
            title = next(run["checks"][check]["title"] for run in runs if check in run["checks"])
            found.append(
                {
                    "check": check,
                    "title": title,
                    "now": now,
                    "failed": len(failed),
                    "tried": len(tried),
                    "fails": failed,
                }
            )
    return found


def _outcome(run: Mapping[str, Any], check: str) -> Document:
    own = run["checks"][check]
    recording = run["recording"]
    return {
        "recording": recording["digest"],
        "end": recording["end"],
        "verdict": own["verdict"],
        "reason": own["reason"],
    }
