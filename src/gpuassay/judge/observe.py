"""What a check says: observations, taken down as they come and compared with nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.judge.fact import Fact, Scalar, Subject


@dataclass(frozen=True, slots=True)
class Observation:
    """One metric of one subject; ``at`` is a coordinate on a curve, e.g. ``(("size", "16GiB"),)``."""

    subject: Subject
    metric: str
    value: Fact[Scalar]
    at: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """What one figure of a subject was over time: pairs of seconds and values, for a picture."""

    subject: Subject
    metric: str
    points: tuple[tuple[float, float], ...]


class Observe:
    """The ``observe`` that a check is given."""

    def __init__(self) -> None:
        """Start with nothing observed."""
        self._taken: list[Observation] = []
        self.series: list[Series] = []

    def __call__(
        self,
        subject: Subject,
        *,
        at: Mapping[str, str] | None = None,
        **metrics: Fact[Scalar] | Scalar,
    ) -> None:
        """Take down one or more metrics of a subject.

        A value is a fact as the fleet gave it, or a plain bool, number or string. Anything else (None
        above all) is taken down as garbled: it can never pass. Raises TypeError for what is no subject.
        """
        if not _is_subject(subject):
            raise TypeError(f"{type(subject).__name__} is no subject: nothing can be observed on it")
        where = tuple((str(axis), str(point)) for axis, point in (at or {}).items())
        self._taken.extend(
            Observation(subject, metric, as_fact(value), where) for metric, value in metrics.items()
        )

    def show(self, subject: Subject, **metrics: Fact[tuple[tuple[float, float], ...]]) -> None:
        """Keep figures over time for the report. They are not judged, and one that is unread is left out."""
        self.series += [
            Series(subject, metric, fact.value) for metric, fact in metrics.items() if isinstance(fact, Read)
        ]

    def __iter__(self) -> Iterator[Observation]:
        """Give the observations in the order in which they were made."""
        return iter(self._taken)


def _is_subject(value: object) -> bool:
    names = (getattr(value, "where", None), getattr(value, "node", None))
    models = getattr(value, "models", None)
    return isinstance(models, tuple) and all(isinstance(name, str) for name in (*names, *models))


def as_fact(value: object) -> Fact[Scalar]:
    """Take a fact, or a plain value as one; what is neither is unread."""
    if isinstance(value, Unread):
        return value
    inner: object = value.value if isinstance(value, Read) else value
    if not isinstance(inner, (bool, int, float, str)):
        evidence = value.evidence if isinstance(value, Read) else ""
        return Unread("garbled", f"{type(inner).__name__} was given, which is no value", evidence)
    return value if isinstance(value, Read) else Read(inner)
