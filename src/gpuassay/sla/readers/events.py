"""What no scheduler knows, as somebody writes it down: swaps, tests of nodes, the pool of spares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.sla import moments
from gpuassay.sla.outages import History, Pool, Proof
from gpuassay.sla.readers import ReadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.sla.outages import Step
    from gpuassay.sla.readers import Reading

_KEYS: Mapping[str, frozenset[str]] = {
    "swapped": frozenset(("event", "at", "node")),
    "tested": frozenset(("event", "at", "node", "passed")),
    "spares": frozenset(("event", "at", "healthy")),
}


def event(found: Mapping[str, Any], place: str, how: Reading) -> History:
    """Read one event. Raises ReadError.

    Of the two times that a clock shows twice, the one counts which makes the time out of service longer.
    """
    keys = _KEYS.get(str(found["event"]))
    if keys is None:
        raise ReadError(f"{place}: event: expected one of {', '.join(_KEYS)}, found {found['event']!r}")
    if set(found) != keys:
        raise ReadError(
            f"{place}: expected an event {found['event']} with the keys {', '.join(sorted(keys))}"
        )
    at = moment(found, "at", place, how)
    if found["event"] == "spares":
        return History(pools=(Pool(at.late, _count(found, "healthy", place), place),))
    step: Step = "swapped"
    if found["event"] == "tested":
        step = "passed" if _flag(found, "passed", place) else "failed"
    when = at.late if step == "passed" else at.early
    return History(tests=(Proof(text_of(found, "node", place), when, step, place),))


def text_of(found: Mapping[str, Any], key: str, place: str) -> str:
    """Read a text. Raises ReadError."""
    if not isinstance(found[key], str) or not found[key].strip():
        raise ReadError(f"{place}: {key}: expected a text")
    return str(found[key])


def moment(found: Mapping[str, Any], key: str, place: str, how: Reading) -> moments.Moment:
    """Read a time. Raises ReadError."""
    try:
        return moments.read(text_of(found, key, place), how.zone)
    except ReadError:
        raise
    except ValueError as error:
        raise ReadError(f"{place}: {key}: {error}") from error


def _count(found: Mapping[str, Any], key: str, place: str) -> int:
    if type(found[key]) is not int or found[key] < 0:
        raise ReadError(
            f"{place}: {key}: expected a whole number, 0 or more, found {brief(str(found[key]))!r}"
        )
    return int(found[key])


def _flag(found: Mapping[str, Any], key: str, place: str) -> bool:
    if not isinstance(found[key], bool):
        raise ReadError(f"{place}: {key}: expected true or false, found {brief(str(found[key]))!r}")
    return bool(found[key])
