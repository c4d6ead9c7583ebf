"""The catalogue: what ``thresholds.toml`` and ``advisories.toml`` say, read once and checked as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gpuassay.judge.advisories import Advisory, read_advisories, read_windows
from gpuassay.judge.config import (
    COUNT,
    DATE,
    DURATION,
    SCALAR,
    TEXT,
    ConfigError,
    Mistake,
    Place,
    Table,
    items,
    meant,
    word,
)
from gpuassay.judge.documents import digest, parse, read
from gpuassay.judge.limits import read_limit
from gpuassay.judge.products import Accelerator, Figure, compare_products, figure_names, read_accelerator

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date
    from pathlib import Path

    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.limits import Limit

__all__ = [
    "Accelerator",
    "Advisory",
    "Catalog",
    "Check",
    "Figure",
    "Measurement",
    "Profile",
    "TierRule",
    "load_catalog",
    "verify_figure",
]

PHASES = ("audit", "perf", "reliability")
TIERS = ("ribbon", "bronze", "silver", "gold", "platinum")  # rising
CATEGORIES = (
    "security",
    "lifecycle",
    "orchestration",
    "compute",
    "networking",
    "storage",
    "reliability",
    "monitoring",
)
DOMAINS = ("gpu", "port", "nic", "volume", "node", "pair", "class", "cluster")
SEATS = ("tenant", "root", "host", "fabric", "provider")
FAULTS = ("component", "design")
LEVELS = ("read", "touch", "contact", "load", "disrupt", "break")  # what the user may consent to
_WORD = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Check:
    """What the catalogue says of one check; ``tier`` is the lowest that needs it, ``over`` its domain.

    With ``profiles``, only these ask for it; under any other it does not apply.
    """

    id: str
    phase: str
    category: str
    tier: str
    over: str
    needs: tuple[str, ...]
    seat: str
    fault: str
    source: str
    limits: Mapping[str, Limit]
    profiles: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where its function is: ``tests_audit/test_health.py::test_row_remaps``."""
        phase, area, name = self.id.split(".")
        return f"tests_{phase}/test_{area}.py::test_{name}"


@dataclass(frozen=True, slots=True)
class TierRule:
    """What a tier asks beside its checks: how many may warn, and phases with something judged."""

    warnings: int
    phases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """What is demanded of every cluster that is judged by this profile."""

    name: str
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One thing to run: a tool, a workload or a fault, its arguments, and the consent that it needs.

    Two of ``tool``, ``workload`` and ``fault`` are empty.
    """

    name: str
    tool: str
    args: Mapping[str, Scalar]
    deadline_s: float
    level: str
    workload: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All tables. ``needs`` has a sentence for each word; ``document`` is the thresholds as written.

    ``reviewed`` is the day on which the advisories were last compared with their sources.
    """

    checks: Mapping[str, Check]
    accelerators: Mapping[str, Accelerator]
    tiers: Mapping[str, TierRule]
    needs: Mapping[str, str]
    profiles: Mapping[str, Profile]
    advisories: Mapping[str, Advisory]
    digest: str
    document: Mapping[str, Any]
    measurements: Mapping[str, Measurement]
    reviewed: date | None = None

    @property
    def figures(self) -> frozenset[str]:
        """The names that limits may use in ``accelerator.NAME``."""
        return figure_names(self.accelerators.values())

    @property
    def contract_keys(self) -> frozenset[str]:
        """The names that limits use in ``contract.NAME``: a pool of a site file may declare them."""
        limits = (limit for check in self.checks.values() for limit in check.limits.values())
        return frozenset(limit.of.name for limit in limits if limit.of and limit.of.root == "contract")

    def accelerator_of(self, models: tuple[str, ...]) -> Accelerator | None:
        """Find a product by its exact name or PCI id; None for one that no table knows.

        Raises LookupError where the names of one subject belong to different products.
        """
        found = [one for one in self.accelerators.values() if not set(models).isdisjoint(one.match)]
        if len(found) > 1:
            named = " and ".join(f"[accelerator.{one.name}]" for one in found)
            raise LookupError(f"{' / '.join(models)} matches {named}")
        return found[0] if found else None


def load_catalog(thresholds: Path, advisories: Path) -> Catalog:
    """Read both files; raises ConfigError with every mistake in them."""
    mistakes: list[Mistake] = []
    tables = [_open(path, mistakes) for path in (thresholds, advisories)]
    if not mistakes:
        catalog = _catalog(*tables)
    if mistakes:
        raise ConfigError(mistakes)
    return catalog


def _open(path: Path, mistakes: list[Mistake]) -> Table:
    try:
        document = parse(read(path), path.name)
    except ConfigError as error:
        mistakes.extend(error.mistakes)
        document = {}
    return Table(document, Place(path.name), mistakes)


def _catalog(thresholds: Table, bulletins: Table) -> Catalog:
    windows = read_windows(thresholds.section("patch_window"))
    advisories = read_advisories(bulletins.section("advisory"), windows)
    reviewed = bulletins.take("reviewed", DATE, None)
    bulletins.close()
    needs = thresholds.section("needs")
    words = {name: needs.need(name, TEXT) for name in needs.data}
    products = dict(thresholds.section("accelerator").tables())
    accelerators = {name: read_accelerator(name, table) for name, table in products.items()}
    profiles = {name: _profile(name, table, words) for name, table in thresholds.section("profile").tables()}
    checks = _checks(thresholds, words, profiles, advisories, figure_names(accelerators.values()))
    catalog = Catalog(
        checks,
        accelerators,
        _tiers(thresholds.section("tiers")),
        words,
        profiles,
        advisories,
        digest(thresholds.data, bulletins.data),
        thresholds.data,
        {name: _measurement(name, table) for name, table in thresholds.section("measure").tables()},
        reviewed,
    )
    thresholds.close()
    compare_products(products, accelerators, {check.id: check.limits for check in checks.values()})
    return catalog


def _tiers(section: Table) -> Mapping[str, TierRule]:
    tables = dict(section.tables(known=TIERS))
    rules = {}
    for tier in TIERS:
        if tier not in tables:
            section.wrong(tier, "is missing; expected a table with `warnings` and `phases`")
            continue
        table = tables[tier]
        rules[tier] = TierRule(table.need("warnings", COUNT), table.need("phases", items(word(PHASES))))
        table.close()
    for lower, higher in pairwise(rules):
        if rules[higher].warnings > rules[lower].warnings:
            tables[higher].wrong("warnings", f"expected no more than {lower} has, {rules[lower].warnings}")
    return rules


def _profile(name: str, table: Table, needs: Collection[str]) -> Profile:
    profile = Profile(name, table.need("requires", items(word(needs))))
    table.close()
    return profile


def _measurement(name: str, table: Table) -> Measurement:
    args = table.below("args", table.data.get("args", {}))
    measurement = Measurement(
        name,
        tool=table.take("tool", TEXT, ""),
        workload=table.take("workload", TEXT, ""),
        fault=table.take("fault", TEXT, ""),
        args={key: args.need(key, SCALAR) for key in args.data},
        deadline_s=table.need("deadline", DURATION),
        level=table.need("level", word(LEVELS)),
    )
    if sum(map(bool, (measurement.tool, measurement.workload, measurement.fault))) != 1:
        table.wrong("", "expected a `tool`, a `workload` or a `fault`, and one of them only")
    table.close()
    return measurement


def _checks(
    thresholds: Table,
    needs: Collection[str],
    profiles: Collection[str],
    advisories: Mapping[str, Advisory],
    figures: Collection[str],
) -> Mapping[str, Check]:
    checks = {}
    for phase in PHASES:
        for area, section in thresholds.section(phase).tables():
            for name, table in section.tables():
                check = _check(f"{phase}.{area}.{name}", table, needs, profiles, advisories)
                checks[check.id] = check
                for metric, limit in check.limits.items():
                    verify_figure(table, metric, limit, figures)
    return checks


def _check(
    name: str,
    table: Table,
    needs: Collection[str],
    profiles: Collection[str],
    advisories: Mapping[str, Advisory],
) -> Check:
    if not all(map(_WORD.fullmatch, name.split("."))):
        table.wrong("", "expected the names of a test file and a function: small letters, digits and _")
    check = Check(
        id=name,
        phase=name.partition(".")[0],
        category=table.need("category", word(CATEGORIES)),
        tier=table.need("tier", word(TIERS)),
        over=table.need("over", word(DOMAINS)),
        needs=table.take("needs", items(word(needs)), ()),
        seat=table.take("seat", word(SEATS), "tenant"),
        fault=table.take("fault", word(FAULTS), "design"),
        source=table.need("source", TEXT),
        profiles=table.take("profiles", items(word(profiles), least=1), ()),
        limits=_limits(table, advisories),
    )
    if not check.limits:
        table.wrong(
            "", "has no metric; expected at least one with its limit, such as pending = { is = false }"
        )
    return check


def _limits(table: Table, advisories: Mapping[str, Advisory]) -> Mapping[str, Limit]:
    limits = {}
    known = table.asked
    for metric in table.rest():
        if isinstance(table.data[metric], dict) and _WORD.fullmatch(metric):
            limits[metric] = read_limit(table, metric, advisories)
        else:
            expected = f"expected one of {', '.join(known)}, or a metric with its limit in braces"
            table.wrong(metric, f"unknown; {expected}{meant(metric, known)}")
    return limits


def verify_figure(table: Table, metric: str, limit: Limit, figures: Collection[str]) -> None:
    """Note a limit that refers to a figure which no accelerator has."""
    for of in (limit.of, limit.otherwise):
        if of and of.root == "accelerator" and of.name not in figures:
            table.wrong(metric, f"no [accelerator] table has the figure {of.name}{meant(of.name, figures)}")
