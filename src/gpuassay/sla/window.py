"""The acceptance window: whether the evidence of a run was taken after hand-over, and in time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gpuassay.sla.moments import lasted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.sla.judged import Outcome

_UNDECLARED = "no hand-over is declared ([cluster] handed_over in the site file)"


def within(window_s: int, recording: Mapping[str, Any]) -> dict[str, Any]:
    """Hold the times of a recording, as reports write them, to a window that opens at hand-over.

    One run never shows that a window was missed: another one may have been in time.
    """
    outcome, why = _told(window_s, recording)
    words = f"evidence from hand-over on, until {lasted(window_s)} after it"
    return {"term": "acceptance_window", "promised": words, "outcome": outcome, "why": why, "checks": []}


def _told(window_s: int, recording: Mapping[str, Any]) -> tuple[Outcome, str]:
    handed_over, begin, end = (recording.get(key) for key in ("handed_over", "begin", "end"))
    if handed_over is None:
        return "unknown", _UNDECLARED
    if begin is None or end is None:
        return "unknown", "the recording does not say when it began and ended"
    end = max(end, recording.get("measured") or end, key=datetime.fromisoformat)
    early, took = _seconds(begin, handed_over), _seconds(handed_over, end)
    if early > 0:
        return "unknown", f"the evidence begins at {begin}, {lasted(early)} before hand-over at {handed_over}"
    if took > window_s:
        late = lasted(took - window_s)
        return "unknown", f"the evidence ends at {end}, {late} after the window; hand-over: {handed_over}"
    return "met", f"the evidence is of {begin} to {end}; hand-over: {handed_over}"


def _seconds(since: str, until: str) -> int:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)) // timedelta(seconds=1)
