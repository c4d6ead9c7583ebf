"""The kinds of limit: what each one accepts, in words and in code.

A rule finds what is wrong with a value (None: nothing is) and raises `Ungradable` for a value that it
cannot compare. `limits.Limit` is the only caller; it makes a grade of what was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpuassay.judge.verdict import Verdict
from gpuassay.judge.versions import SCHEMES, branch, line_of
from gpuassay.judge.wording import kind_of, show, show_beside, show_bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.judge.advisories import Advisory
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.versions import Orderable

LEVELS = ("fail", "warn", "platinum")
BOUNDS = (
    "fail_below",
    "warn_below",
    "platinum_below",
    "platinum_above",
    "warn_above",
    "fail_above",
)  # rising
_SAYS = {"fail": "fails", "warn": "warns", "platinum": "no platinum"}
_VERDICTS = {"fail": Verdict.FAIL, "warn": Verdict.WARN, "platinum": Verdict.PASS}


class Ungradable(ValueError):  # noqa: N818 - it says what the value is, as the verdicts do
    """A value that a rule cannot compare; the words go on after "is …, "."""


class Finding(NamedTuple):
    """What a rule has against a value; ``shown`` is the value where the rule writes it in its own way."""

    verdict: Verdict
    phrase: str
    caps_at_gold: bool = False
    shown: str = ""


class Reference(NamedTuple):
    """What a value is measured against: a figure of its accelerator, a property, the contract, its pool."""

    root: str
    name: str

    def __str__(self) -> str:
        return f"{self.root}.{self.name}"


class Rule(Protocol):
    """One kind of limit."""

    @property
    def text(self) -> str:
        """The rule in plain words, for a report."""

    def find(self, value: object, reference: Scalar | None) -> Finding | None:
        """Find what is wrong with a value; raises Ungradable."""

    def as_strict_as(self, other: Rule) -> bool:
        """Tell whether no value fares better here than under the other rule; when unsure, no."""


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Ungradable(f"expected a number, not {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError as error:
        raise Ungradable("expected a number of a size that can be compared") from error
    if not math.isfinite(number):
        raise Ungradable("expected a finite number")
    return number


def _same_kind(value: object, expected: Scalar) -> None:
    if kind_of(value) != kind_of(expected):
        raise Ungradable(f"expected {kind_of(expected)}, not {kind_of(value)}")
    if isinstance(value, float):
        _number(value)


@dataclass(frozen=True, slots=True)
class Bands:
    """Bounds in rising order between which a number is good; with ``of``, a ratio to a reference."""

    bounds: Mapping[str, float]
    of: Reference | None = None
    beyond: float | None = None  # of a pool: only what lies this many robust deviations away can be outside
    doubt_above: float | None = None  # no such thing can: what is above was measured wrongly, and is an error

    @property
    def text(self) -> str:
        """Say the bounds, the worst first."""
        said = [
            f"{'no platinum' if level == 'platinum' else level} {side} {self._written(bound)}"
            for level, side, bound in self._worst_first()
        ]
        beyond = f", if beyond {show(self.beyond)} robust deviations" if self.beyond else ""
        doubt = f", not believed above {self._written(self.doubt_above)}" if self.doubt_above else ""
        return ", ".join(said) + doubt + (f" of {self.of}" if self.of else "") + beyond

    def find(self, value: object, reference: Scalar | None) -> Finding | None:
        """Name the worst bound that the value breaks."""
        number = _number(value)
        base = 1.0 if self.of is None else self._base(reference)
        if self.doubt_above and number / base > self.doubt_above:
            known = f" of {show(reference)}" if self.of else ""
            raise Ungradable(
                f"not believed above {self._written(self.doubt_above)}{known}: it was measured wrongly"
            )
        for level, side, bound in self._worst_first():
            if number / base < bound if side == "below" else number / base > bound:
                phrase, shown = f"{_SAYS[level]} {side} {self._written(bound)}", ""
                if self.of is None:
                    shown = show_beside(value if isinstance(value, int) else number, bound)
                else:
                    phrase += f" of {show(reference)} ({show_beside(number / base, bound, ratio=True)})"
                return Finding(_VERDICTS[level], phrase, level == "platinum", shown)
        return None

    def as_strict_as(self, other: Rule) -> bool:
        """Compare where each level, or a worse one, begins on either side."""
        if not isinstance(other, Bands) or self.of != other.of:
            return False
        if (self.beyond or 0.0) > (other.beyond or 0.0):
            return False
        if (self.doubt_above or math.inf) > (other.doubt_above or math.inf):
            return False
        mine, theirs = self.reach(), other.reach()
        pairs = zip(mine, theirs, strict=True)
        return all(low >= low2 and high <= high2 for (low, high), (low2, high2) in pairs)

    def _base(self, reference: Scalar | None) -> float:
        try:
            base = _number(reference)
        except Ungradable:
            base = 0.0
        if base <= 0:
            raise Ungradable(f"not comparable with {self.of}, which is {show(reference)}")
        return base

    def _written(self, bound: float) -> str:
        return show_bound(bound, ratio=self.of is not None)

    def _worst_first(self) -> Iterator[tuple[str, str, float]]:
        for level in LEVELS:
            for side in ("below", "above"):
                if (bound := self.bounds.get(f"{level}_{side}")) is not None:
                    yield level, side, bound

    def reach(self) -> list[tuple[float, float]]:
        """Give, level by level, the bounds outside which a value is as bad as that or worse."""
        low, high = -math.inf, math.inf
        reach = []
        for level in LEVELS:
            # A level without a bound begins where the worse one before it does.
            low, high = self.bounds.get(f"{level}_below", low), self.bounds.get(f"{level}_above", high)
            reach.append((low, high))
        return reach


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value, or one of a few, and no other."""

    values: tuple[Scalar, ...]

    @property
    def text(self) -> str:
        """Say the values."""
        return f"is {self._words}"

    @property
    def _words(self) -> str:
        said = ", ".join(map(show, self.values))
        return said if len(self.values) == 1 else f"one of {said}"

    def find(self, value: object, reference: Scalar | None) -> Finding | None:  # noqa: ARG002 - a rule's form
        """Refuse any other value of the same kind."""
        _same_kind(value, self.values[0])
        return None if value in self.values else Finding(Verdict.FAIL, f"expected {self._words}")

    def as_strict_as(self, other: Rule) -> bool:
        """Ask the other about each value: all must be clean passes there. All else fails here already."""
        try:
            return all(other.find(value, None) is None for value in self.values)
        except Ungradable:
            return False


@dataclass(frozen=True, slots=True)
class Equal:
    """The same as a reference, or (``of`` None) as most of the pool."""

    of: Reference | None = None

    @property
    def text(self) -> str:
        """Say what it must equal."""
        return f"equal to {self.of}" if self.of else "the same across its pool"

    def find(self, value: object, reference: Scalar | None) -> Finding | None:
        """Refuse any value but the reference."""
        if reference is None or (isinstance(reference, float) and not math.isfinite(reference)):
            raise Ungradable(f"not comparable with {self.of or 'its pool'}, which is {show(reference)}")
        _same_kind(value, reference)
        if value == reference:
            return None
        whose = f" ({self.of})" if self.of else ", as most of its pool"
        return Finding(Verdict.FAIL, f"expected {show(reference)}{whose}")

    def as_strict_as(self, other: Rule) -> bool:
        """Only the same reference is surely as strict."""
        return self == other


@dataclass(frozen=True, slots=True)
class Unique:
    """A value that nobody else has: no other subject, or none of another node (``to`` "node")."""

    to: str

    @property
    def text(self) -> str:
        """Say whose alone it must be."""
        return f"unique to its {self.to}"

    def find(self, value: object, reference: Scalar | None) -> Finding | None:
        """Refuse a value that another has; ``reference`` names the others, and is empty if there are none."""
        if kind_of(value) == "nothing" or not isinstance(reference, str):
            raise Ungradable("not comparable with the others of the cluster")
        return Finding(Verdict.FAIL, f"{reference} has it too") if reference else None

    def as_strict_as(self, other: Rule) -> bool:
        """Tell whether the other is no stricter: what is unique to a subject is unique to its node."""
        return isinstance(other, Unique) and self.to in ("subject", other.to)


@dataclass(frozen=True, slots=True)
class Versions:
    """A floor, a floor for each release line, and advisories; all that are given count."""

    scheme: str
    at_least: str = ""
    per_line: Mapping[str, str] = field(default_factory=dict)
    advisories: tuple[Advisory, ...] = ()

    @property
    def text(self) -> str:
        """Say the floors and the advisories."""
        floors = ", ".join(f"{floor} on {line}" for line, floor in self.per_line.items())
        listed = ", ".join(advisory.id for advisory in self.advisories)
        said = (
            f"at least {self.at_least}" if self.at_least else "",
            f"at least {floors}" if floors else "",
            f"not affected by {listed}" if listed else "",
        )
        return ", ".join(filter(None, said))

    def find(self, value: object, reference: Scalar | None) -> Finding | None:  # noqa: ARG002 - a rule's form
        """Name all that speaks against a version, the worst first."""
        if not isinstance(value, str):
            raise Ungradable(f"expected a version, not {kind_of(value)}")
        try:
            found = [*self._below_floor(value), *self._off_line(value), *self._affected(value)]
        except ValueError as error:
            raise Ungradable(f"expected a version in the {self.scheme} scheme") from error
        found.sort(key=lambda finding: -finding.verdict)
        return Finding(found[0].verdict, "; ".join(finding.phrase for finding in found)) if found else None

    def _order(self, version: str) -> Orderable:
        return SCHEMES[self.scheme](version)

    def _below_floor(self, version: str) -> Iterator[Finding]:
        if self._order(version) < self._order(self.at_least or version):
            yield Finding(Verdict.FAIL, f"expected at least {self.at_least}")

    def _off_line(self, version: str) -> Iterator[Finding]:
        line = line_of(version, self.per_line)
        if line is not None:
            if self._order(version) < self._order(self.per_line[line]):
                yield Finding(Verdict.FAIL, f"expected at least {self.per_line[line]} on branch {line}")
        elif self.per_line:
            newest = max(self.per_line, key=self._order)
            if self._order(newest) < self._order(version):
                yield Finding(Verdict.WARN, "newer than every branch this table knows")
            else:
                yield Finding(Verdict.FAIL, f"branch {branch(version, newest)} has ended: no fixed release")

    def _affected(self, version: str) -> Iterator[Finding]:
        for advisory in self.advisories:
            fixed = advisory.first_fixed(version)
            if fixed is not None:
                phrase = f"affected by {advisory.id}, first fixed in {fixed} ({advisory.source})"
                yield Finding(Verdict.FAIL, phrase)

    def as_strict_as(self, other: Rule) -> bool:
        """At least the other's floors, on the same lines, and all of its advisories."""
        if not isinstance(other, Versions) or self.scheme != other.scheme:
            return False
        floors = [(self.at_least, other.at_least)]
        if other.per_line:
            floors += [(self.per_line.get(line, ""), floor) for line, floor in other.per_line.items()]
        return (
            all(
                not theirs or (mine and not self._order(mine) < self._order(theirs))
                for mine, theirs in floors
            )
            and (not other.per_line or self.per_line.keys() == other.per_line.keys())
            and set(other.advisories) <= set(self.advisories)
        )
