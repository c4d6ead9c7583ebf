"""Which fields of what the API server gives are written down: an allow-list for each kind of object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Shape: TypeAlias = "Mapping[str, Shape] | Callable[[Any], Any] | None"
"""Which keys of an object are kept; of a list, of each entry; a function reduces all; None: all of it."""

NAMED: Mapping[str, Shape] = dict.fromkeys(("name", "uid", "creationTimestamp", "deletionTimestamp"))
PLACED: Mapping[str, Shape] = {**NAMED, "namespace": None}


@dataclass(frozen=True, slots=True)
class Ask:
    """A list that is asked for; of a ``dynamic`` one the version, and so the path, depends on the server."""

    id: str
    path: str
    keep: Shape
    dynamic: bool = False


def keep(value: Any, shape: Shape) -> Any:
    """Reduce what the API gave to what is kept of it; what has no such form is kept out too."""
    if shape is None:
        return value
    if callable(shape):
        return shape(value)
    if isinstance(value, list):
        return [keep(entry, shape) for entry in value]
    if not isinstance(value, dict):
        return None
    return {key: keep(value[key], inner) for key, inner in shape.items() if key in value}
