"""How far a pod is, read from what the API server says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gpuassay.facts.text import brief

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",  # it was tried, and has failed
        "InvalidImageName",
        "RunContainerError",
    }
)


@dataclass(frozen=True, slots=True)
class Stage:
    """``unplaced`` and ``placed`` may yet run; ``why`` says what a pod waits for, or how it ended."""

    state: Literal["unplaced", "placed", "running", "ended", "hopeless"]
    why: str = ""


def stage(pod: Mapping[str, Any]) -> Stage:
    """Read how far a pod is; what is not there or of another form counts as not said."""
    status = _inner(pod, "status")
    state = _inner(_first(status, "containerStatuses"), "state")
    if isinstance(state.get("running"), dict):
        return Stage("running")
    if isinstance(state.get("terminated"), dict):
        return Stage("ended", _ended(state["terminated"], status))
    if status.get("phase") in ("Failed", "Succeeded"):
        return Stage("hopeless", _words(status) or f"its phase is {status['phase']}")
    waiting = _inner(state, "waiting")
    if waiting.get("reason") in _HOPELESS:
        return Stage("hopeless", _words(waiting))
    if _inner(pod, "spec").get("nodeName"):
        return Stage("placed", _words(waiting) or "its node's kubelet has not taken it up")
    return Stage("unplaced", _unplaced(status))


def _ended(terminated: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    code, reason = terminated.get("exitCode"), terminated.get("reason")
    words = [f"exit {code}"]
    if reason not in (None, "Completed", "Error"):
        words.append(_words(terminated))
    if status.get("reason"):  # the kubelet ended it: evicted, or past its deadline
        words.append(_words(status))
    return ", ".join(filter(None, words))


def _unplaced(status: Mapping[str, Any]) -> str:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "PodScheduled" and _words(condition):
            return _words(condition)
    return "no scheduler has looked at it"


def _words(said: Mapping[str, Any]) -> str:
    return brief(": ".join(str(said[key]) for key in ("reason", "message") if said.get(key)))


def _inner(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = values.get(key)
    return inner if isinstance(inner, dict) else {}


def _first(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = values.get(key)
    return inner[0] if isinstance(inner, list) and inner and isinstance(inner[0], dict) else {}
