"""Which of two versions is newer, by the rules of those who numbered them.

A scheme turns a version into a sort key and raises ValueError for one that it cannot order. Python's
own scheme comes from ``packaging``. The rules of dpkg and rpm are a few lines each as sort keys, so we
have them here: of the libraries on PyPI one is GPL, one brings a character-set detector along, and
the one for rpm stopped in 2018, before ``^``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Orderable(Protocol):
    """A sort key; only keys of one scheme can be compared."""

    def __lt__(self, other: Any, /) -> bool:
        """Tell whether it is older."""


Scheme: TypeAlias = "Callable[[str], Orderable]"


def dotted(text: str) -> Orderable:
    """Order ``580.159.03`` by its numbers; zeros at the end say nothing, so 13.1 is 13.1.0."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*", text):
        raise ValueError(f"{text!r} is not numbers with dots between them")
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


_EPOCH = r"(?:(?P<epoch>[0-9]+):)?"
_DEBIAN = re.compile(
    rf"(?!.*-\Z){_EPOCH}(?P<upstream>[0-9][A-Za-z0-9.+~-]*?)(?:-(?P<revision>[A-Za-z0-9.+~]+))?"
)


def debian(text: str) -> Orderable:
    """Order ``[epoch:]upstream[-revision]`` as dpkg does: deb-version(7), section "Sorting algorithm"."""
    parts = _DEBIAN.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a Debian version")
    return int(parts["epoch"] or 0), _debian_key(parts["upstream"]), _debian_key(parts["revision"] or "0")


def _debian_key(part: str) -> Orderable:
    """Alternate between text and number; the end of a text sorts after ``~`` and before all else."""
    pieces = re.findall(r"([^0-9]*)([0-9]*)", part)  # the last piece is always empty: the end of the part
    return tuple(((*map(_debian_weight, text), 0), int(digits or 0)) for text, digits in pieces)


def _debian_weight(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256  # letters before all others


_RPM = re.compile(rf"{_EPOCH}(?P<version>[A-Za-z0-9._+~^]+)(?:-(?P<release>[A-Za-z0-9._+~^]+))?")


def rpm(text: str) -> Orderable:
    """Order ``[epoch:]version[-release]`` as rpm does: rpm-version(7), and rpmvercmp for its parts."""
    parts = _RPM.fullmatch(text)
    if parts is None or not re.search(r"[0-9]", parts["version"]):
        raise ValueError(f"{text!r} is not an rpm version")
    return int(parts["epoch"] or 0), _rpm_key(parts["version"]), _rpm_key(parts["release"] or "")


def _rpm_key(part: str) -> Orderable:
    """Compare segment by segment: ``~`` < the end < ``^`` < letters < a number; separators only separate."""
    return (*map(_rpm_weight, re.findall(r"[0-9]+|[A-Za-z]+|[~^]", part)), (1,))


def _rpm_weight(segment: str) -> tuple[int, int | str] | tuple[int]:
    if segment.isdigit():
        return 4, int(segment)
    return (3, segment) if segment.isalpha() else ({"~": 0, "^": 2}[segment],)


SCHEMES: Mapping[str, Scheme] = {"pep440": Version, "dotted": dotted, "debian": debian, "rpm": rpm}


def line_of(version: str, lines: Iterable[str]) -> str | None:
    """Find the release line that a version belongs to: the longest that its components begin with."""
    parts = _components(version)
    own = [line for line in lines if parts[: len(_components(line))] == _components(line)]
    return max(own, key=lambda line: len(_components(line)), default=None)


def branch(version: str, line: str) -> str:
    """Shorten a version to as many components as a line has: 550.54.15 beside 580 is branch 550."""
    ends = [match.end() for match in _COMPONENT.finditer(version)]
    return version[: ends[min(len(_components(line)), len(ends)) - 1]] if ends else version


_COMPONENT = re.compile(r"[0-9]+|[A-Za-z]+")


def _components(version: str) -> list[int | str]:
    """Split ``v1.5.0-rc.3`` into 1, 5, 0, "rc", 3: a line 1.5 holds it, a line 1.50 does not."""
    parts = _COMPONENT.findall(version.removeprefix("v").removeprefix("0:"))
    return [int(part) if part.isdigit() else part for part in parts]
