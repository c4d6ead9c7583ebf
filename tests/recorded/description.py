"""Descriptions of recorded clusters: what each is, and what must be found in it."""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.judge.catalog import load_catalog
from recorded import overlay
from recorded.overlay import Overlay, OverlayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from gpuassay.judge.catalog import Check

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recorded"
FAULTY = FIXTURES / "faulty"

HEALTHY_KEYS = frozenset(
    {"title", "like", "lacks", "synthetic", "model", "nodes", "begin", "end", "expected"}
)
FAULTY_KEYS = frozenset(
    {
        "title",
        "base",
        "lacks",
        "begin",
        "end",
        "says",
        "nothing",
        "cases",
        "profile",
        "overlay",
        "earlier",
        "expected",
    }
)
EARLIER = "@earlier"  # the name of a cluster's earlier recording is its own and this
WEEK = timedelta(days=7)


class DescriptionError(ValueError):
    """A description that cannot be read; the message begins with its file."""


@dataclass(frozen=True)
class Description:
    """One recorded cluster.

    ``expected`` maps each check to its verdict; in the file, those that it does not name are skipped if they
    need what the cluster ``lacks``, are as ``otherwise`` or ``passing`` say, or as on the cluster that a
    healthy one is ``like``. Of a faulty cluster, ``changed`` are the checks that differ from the base, and
    each expression of ``says`` must be found in the message of one of them. ``nothing`` marks a cluster on
    which no check may pass, whatever the check. ``cases`` maps public cases that this cluster shows in our
    form to the check that has to see them; ``profile`` is what it is judged by. ``earlier`` is what its base
    was changed by a week before; None if there is no such recording.
    """

    name: str
    file: Path
    title: str
    model: str
    nodes: str
    begin: datetime
    end: datetime
    site: str
    expected: Mapping[str, str]
    changed: frozenset[str] = frozenset()
    says: tuple[str, ...] = ()
    nothing: bool = False
    profile: str = ""
    cases: Mapping[str, str] = field(default_factory=dict)
    overlays: tuple[Overlay, ...] = ()
    earlier: tuple[Overlay, ...] | None = None


def healthy() -> list[str]:
    """Return the names of the healthy clusters, whose recordings are committed."""
    return sorted(path.parent.name for path in FIXTURES.glob("*/description.toml"))


def faulty() -> list[str]:
    """Return the names of the faulty clusters, which are built when asked for."""
    return sorted(path.stem for path in FAULTY.glob("*.toml"))


def describe(name: str) -> Description:
    """Read the description of a cluster; raise DescriptionError if it is not understood."""
    if name.endswith(EARLIER):
        return before(describe(name.removesuffix(EARLIER)))
    if name in healthy():
        return _healthy(name, FIXTURES / name / "description.toml")
    return read_faulty(FAULTY / f"{name}.toml")


def read_faulty(file: Path) -> Description:
    """Read the description of a faulty cluster from any file."""
    table = _load(file, FAULTY_KEYS, needed={"title", "base"})
    if not {"overlay", "earlier"} & table.keys():
        raise DescriptionError(f"{file}: overlay: missing")
    base = describe(table["base"])
    changed, sweeping = _expected(table.get("expected", {}), base.expected, _skipped(table, file))
    same = sorted(check for check, verdict in changed.items() if base.expected.get(check) == verdict)
    if same and not sweeping:
        raise DescriptionError(f"{file}: expected.{same[0]} is what the base has already")
    try:
        overlays = tuple(overlay.parse(entry) for entry in table.get("overlay", ()))
        earlier = tuple(overlay.parse(entry) for entry in table["earlier"]) if "earlier" in table else None
    except OverlayError as error:
        raise DescriptionError(f"{file}: overlay: {error}") from None
    return replace(
        base,
        name=file.stem,
        file=file,
        title=table["title"],
        expected={**base.expected, **changed},
        changed=frozenset(changed),
        begin=table.get("begin", base.begin),
        end=table.get("end", base.end),
        says=tuple(table.get("says", ())),
        nothing=table.get("nothing", False),
        profile=table.get("profile", ""),
        cases=table.get("cases", {}),
        overlays=overlays,
        earlier=earlier,
    )


def before(described: Description) -> Description:
    """Describe the earlier recording of a cluster: its base, a week younger, with the changes of its own."""
    if described.earlier is None:
        raise DescriptionError(f"{described.file}: there is no earlier recording of it")
    return replace(
        described,
        name=f"{described.name}{EARLIER}",
        begin=described.begin - WEEK,
        end=described.end - WEEK,
        overlays=(overlay.younger(WEEK.total_seconds()), *described.earlier),
    )


def _healthy(name: str, file: Path) -> Description:
    table = _load(file, HEALTHY_KEYS, needed=HEALTHY_KEYS - {"like", "lacks"})
    if table["synthetic"] is not True:
        raise DescriptionError(f"{file}: synthetic: every cluster here is made up and says so")
    like = describe(table["like"]).expected if "like" in table else {}
    expected, _ = _expected(table["expected"], dict.fromkeys(_checks(), ""), _skipped(table, file))
    site = (file.parent / "site.toml").read_text(encoding="utf-8")
    about = {key: table[key] for key in ("title", "model", "nodes", "begin", "end")}
    return Description(name=name, file=file, site=site, expected={**like, **expected}, **about)


def _skipped(table: Mapping[str, Any], file: Path) -> frozenset[str]:
    """Name the checks that need what a cluster lacks."""
    lacks = frozenset(table.get("lacks", ()))
    if unknown := sorted(lacks.difference(*(check.needs for check in _checks().values()))):
        raise DescriptionError(f"{file}: lacks: no check needs {unknown[0]}")
    return frozenset(name for name, check in _checks().items() if not lacks.isdisjoint(check.needs))


def _expected(
    table: Mapping[str, Any], base: Mapping[str, str], skipped: frozenset[str]
) -> tuple[dict[str, str], bool]:
    """Return the verdicts that a table gives, and whether it speaks of checks that it does not name.

    ``otherwise`` is the verdict of every check that is not named, ``passing`` that of every such check
    which passes on the base; a pattern such as ``audit.earlier.*`` that of every check that it fits.
    """
    named = dict(_flat(table))
    otherwise, passing = named.pop("otherwise", ""), named.pop("passing", "")
    swept = dict.fromkeys(base, otherwise) if otherwise else {}
    if passing:
        swept |= {check: passing for check, verdict in base.items() if verdict == "pass"}
    for pattern in [name for name in named if "*" in name]:
        swept |= dict.fromkeys(fnmatch.filter(base, pattern), named.pop(pattern))
    swept |= dict.fromkeys(skipped, "skip")
    return swept | named, bool(swept)


@cache
def _checks() -> Mapping[str, Check]:
    root = FIXTURES.parents[1]
    return load_catalog(root / "thresholds.toml", root / "advisories.toml").checks


def _load(file: Path, known: frozenset[str], needed: frozenset[str] | set[str]) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DescriptionError(f"{file}: {error}") from None
    if unknown := sorted(table.keys() - known):
        raise DescriptionError(f"{file}: {unknown[0]}: expected one of {', '.join(sorted(known))}")
    if missing := sorted(needed - table.keys()):
        raise DescriptionError(f"{file}: {missing[0]}: missing")
    return table


def _flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield check ids and verdicts: in TOML, ``audit.host.memlock = "fail"`` is a table in a table."""
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
