"""Terms as TOML states them: the templates `bronze`, `silver` and `gold`, or a file of the parties' own."""

from __future__ import annotations

import hashlib
import itertools
import re
import tomllib
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpuassay.judge.catalog import TIERS
from gpuassay.judge.config import (
    COUNT,
    FLAG,
    TEXT,
    ConfigError,
    Kind,
    Mistake,
    Place,
    Table,
    items,
    meant,
    word,
)
from gpuassay.sla import terms as of
from gpuassay.sla.terms import Band, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

TEMPLATES = ("bronze", "silver", "gold")
PROFILES = ("acceptance", "rating")

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) ?%")
_TIME = re.compile(r"([1-9][0-9]*)([smhd])")
_SHARE = re.compile(r"([01])(?:/([1-9][0-9]*))?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_WHOLE = 100


def _percent(value: object) -> Fraction:
    found = _PERCENT.fullmatch(TEXT.read(value))
    if found is None or Fraction(found[1]) > _WHOLE:
        raise ValueError
    return Fraction(found[1]) / _WHOLE


def _time(value: object) -> int:
    found = _TIME.fullmatch(TEXT.read(value))
    if found is None:
        raise ValueError
    return int(found[1]) * _SECONDS[found[2]]


def _share(value: object) -> Fraction:
    found = _SHARE.fullmatch(TEXT.read(value))
    if found is None:
        raise ValueError
    return Fraction(int(found[1]), int(found[2] or 1))


def _band(value: object) -> Band:
    if not isinstance(value, dict) or set(value) != {"below", "percent"}:
        raise ValueError
    percent = COUNT.read(value["percent"])
    if not 0 < percent <= _WHOLE:
        raise ValueError
    return Band(_percent(value["below"]), percent)


PERCENT: Kind[Fraction] = Kind('a share such as "99.9 %"', _percent, Fraction(0))
TIME: Kind[int] = Kind('a time such as "2m", "1h" or "14d"', _time, 0)
SHARE: Kind[Fraction] = Kind('"0", "1" or a part such as "1/2"', _share, Fraction(0))
BAND: Kind[Band] = Kind('{ below = "99.9 %", percent = 10 }', _band, Band(Fraction(0), 0))
BANDS = items(BAND, least=1)

# Each section: what it becomes, and for each key of it the field and what it must be.
_SECTIONS: Mapping[str, tuple[Callable[..., Any], Mapping[str, tuple[str, Kind[Any]]]]] = {
    "down": (
        of.Down,
        {
            "shortest": ("shortest_s", TIME),
            "settled": ("settled_s", TIME),
            "degraded_counts": ("degraded_counts", SHARE),
        },
    ),
    "rack": (of.Rack, {"nodes": ("nodes", COUNT), "down_at": ("down_at", COUNT)}),
    "availability": (of.Availability, {"node": ("node", PERCENT), "rack": ("rack", PERCENT)}),
    "times": (
        of.Times,
        {"detect": ("detect_s", TIME), "isolate": ("isolate_s", TIME), "replace": ("replace_s", TIME)},
    ),
    "maintenance": (of.Maintenance, {"most_a_month": ("most_s", TIME), "notice": ("notice_s", TIME)}),
    "acceptance": (
        of.Acceptance,
        {
            "profile": ("profile", word(PROFILES)),
            "tier": ("tier", word(TIERS)),
            "window": ("window_s", TIME),
            "retest_swapped": ("retest_swapped", FLAG),
            "retest_within": ("retest_within_s", TIME),
        },
    ),
    "credits": (of.Credits, {"node": ("node", BANDS), "rack": ("rack", BANDS)}),
    "termination": (
        of.Termination,
        {"below": ("below", PERCENT), "missed": ("missed", COUNT), "of_months": ("of_months", COUNT)},
    ),
    "spares": (
        of.Spares,
        {"share": ("share", PERCENT), "least": ("least", COUNT), "refill": ("refill_s", TIME)},
    ),
}


def load(named: str, folder: Path | None = None) -> Terms:
    """Read a template of ours by its name, or a file by its path (anything with a slash or ``.toml``).

    Raises ConfigError, which names the file, the key and what was expected.
    """
    if named in TEMPLATES:
        return parse(files("gpuassay.sla").joinpath("templates", f"{named}.toml").read_bytes(), named)
    if "/" not in named and not named.endswith(".toml"):
        known = f"expected {', '.join(TEMPLATES)} or the path of a file of yours{meant(named, TEMPLATES)}"
        raise ConfigError([Mistake(Place(f"SLA {named}"), f"there is no such template; {known}")])
    try:
        content = ((folder or Path()) / named).read_bytes()
    except OSError as error:
        raise ConfigError([Mistake(Place(named), f"cannot be read: {error.strerror}")]) from error
    return parse(content, named)


def parse(content: bytes, name: str) -> Terms:
    """Read terms from TOML; ``name`` is said in errors. Raises ConfigError with every mistake."""
    try:
        data = tomllib.loads(content.decode())
    except ValueError as error:  # also what is no UTF-8
        raise ConfigError([Mistake(Place(name), f"not TOML: {error}")]) from error
    mistakes: list[Mistake] = []
    top = Table(data, Place(name), mistakes)
    said: dict[str, Any] = {key: top.need(key, TEXT) for key in ("title", "summary")}
    said |= {key: _section(top, key, *parts) for key, parts in _SECTIONS.items()}
    top.close()
    terms = Terms(Path(name).stem, **said, digest=hashlib.sha256(content).hexdigest())
    if not mistakes:
        mistakes += [Mistake(Place(name, f"[{section}]"), why) for section, why in _contradictions(terms)]
    if mistakes:
        raise ConfigError(mistakes)
    return terms


def _section(top: Table, name: str, make: Callable[..., T], keys: Mapping[str, tuple[str, Kind[Any]]]) -> T:
    """Read one section; each says where its numbers come from."""
    table = top.section(name)
    values = {field: table.need(key, kind) for key, (field, kind) in keys.items()}
    values["source"] = table.need("source", TEXT)
    table.close()
    return make(**values)


def _contradictions(terms: Terms) -> Iterator[tuple[str, str]]:
    """Say which terms do not go together."""
    if not 0 < terms.rack.down_at <= terms.rack.nodes:
        yield "rack", f"down_at must be between 1 and nodes, which is {terms.rack.nodes}"
    if terms.down.degraded_counts > 1:
        yield "down", "degraded_counts must not be above 1"
    if not 0 < terms.termination.missed <= terms.termination.of_months:
        yield "termination", "missed must be between 1 and of_months"
    for kind in ("node", "rack"):
        bands, promised = terms.credits.of(kind), terms.availability.of(kind)
        if bands[0].below != promised:
            yield "credits", f"{kind}: the first band must begin at the availability that is promised"
        pairs = list(itertools.pairwise(bands))
        if any(after.below >= before.below or after.percent <= before.percent for before, after in pairs):
            yield "credits", f"{kind}: from one band to the next, below must fall and percent must rise"
