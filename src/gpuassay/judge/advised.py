"""The limit by advisories on packages: what is affected warns within its patch window, then fails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from gpuassay.judge.advisories import SEVERITIES
from gpuassay.judge.rules import Finding, Reference, Ungradable
from gpuassay.judge.verdict import Verdict
from gpuassay.judge.wording import kind_of

if TYPE_CHECKING:
    from gpuassay.judge.advisories import Advisory
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.rules import Rule

DAY = Reference("run", "day")  # when the evidence was taken, as 2026-11-30
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Advised:
    """No advisory on a component holds for a package; within its patch window one warns, then it fails.

    A value is where a package is from, its name and its version: ``ubuntu:24.04/runc-app 1.3.3-0ubuntu1``,
    ``upstream/runc 1.3.6``. It is compared with what was said of that very package and with nothing else: a
    distribution mends an old version, and numbers its kernels apart by flavour. What nobody knew of on the
    day of the evidence is no fault of those who ran it.
    """

    component: str
    advisories: tuple[Advisory, ...]
    of: Reference = DAY

    @property
    def text(self) -> str:
        """Say of what."""
        return f"not affected by any advisory on {self.component}, or within its patch window"

    def find(self, value: object, reference: Scalar | None) -> Finding | None:
        """Name all advisories that hold for a package, those that are overdue first."""
        if not isinstance(value, str):
            raise Ungradable(f"expected a package and its version, not {kind_of(value)}")
        package, _, version = value.partition(" ")
        about = [one for one in self.advisories if package in one.packages]
        if not about:
            raise Ungradable(
                f"and no advisory on {self.component} speaks of {package}: bring advisories.toml up to date"
                f" (gpuassay advisories update, with OSV's documents on {package.partition('/')[0]})"
            )
        try:
            today = date.fromisoformat(str(reference))
            known = [one for one in about if one.known <= today]
            open_ = [(one, fixed) for one in known if (fixed := one.first_fixed(version, package))]
        except ValueError as error:
            raise Ungradable(f"expected a version in the {about[0].scheme} scheme, and a day") from error
        late = [(one, fixed) for one, fixed in open_ if one.due < today]
        if late:
            return Finding(Verdict.FAIL, f"affected by {_several(late)}")
        if not open_:
            return None
        due = min(one.due for one, _ in open_)
        return Finding(Verdict.WARN, f"affected by {_several(open_)}; fails if it is not mended by {due}")

    def as_strict_as(self, other: Rule) -> bool:
        """Only the same advisories with the same windows are surely as strict."""
        return self == other


def _several(found: list[tuple[Advisory, str]]) -> str:
    """Name the gravest and newest advisories, each with the version that mends it."""
    found.sort(key=lambda pair: pair[0].date, reverse=True)
    found.sort(key=lambda pair: SEVERITIES.index(pair[0].severity or SEVERITIES[0]))
    named = [
        f"{one.id} ({', '.join(filter(None, (one.severity, f'first fixed in {fixed}', one.source)))})"
        for one, fixed in found[:_NAMED]
    ]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"{', '.join(named)}{more}"
