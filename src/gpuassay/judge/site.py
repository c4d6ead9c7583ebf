"""The site file: what was bought, what is out of service, and where this site departs from the catalogue."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.judge.catalog import PHASES, verify_figure
from gpuassay.judge.config import MOMENT, TEXT, ConfigError, Mistake, Place, Table, meant
from gpuassay.judge.documents import digest, parse, read, write
from gpuassay.judge.limits import read_limit
from gpuassay.judge.names import natural
from gpuassay.judge.pools import Pool, contract_names, read_pools
from gpuassay.judge.reach import Reach, read_reach
from gpuassay.judge.services import Services, read_services
from gpuassay.judge.waivers import SITE_FILE, Out, Replaced, Waiver, read_out, read_replaced, read_waiver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from gpuassay.judge.catalog import Catalog
    from gpuassay.judge.limits import Limit

__all__ = ["Change", "Out", "Pool", "Site", "Waiver", "load_site", "undeclared"]


@dataclass(frozen=True, slots=True)
class Change:
    """A limit that this site file changes, in words."""

    check: str
    metric: str
    old: str
    new: str

    def document(self) -> dict[str, str]:
        """Give it as reports have it."""
        return {"check": self.check, "metric": self.metric, "from": self.old, "to": self.new}


@dataclass(frozen=True)
class Site:
    """What is declared of a cluster, seen on a day; before `at` is asked, nothing has expired."""

    catalog: Catalog
    declared: bool = False
    cluster: str = ""
    provider: str = ""
    handed_over: datetime | None = None
    pools: tuple[Pool, ...] = ()
    overrides: Mapping[str, Mapping[str, Limit]] = field(default_factory=dict)
    all_waivers: tuple[Waiver, ...] = ()
    outs: tuple[Out, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    reach: Reach = field(default_factory=Reach)
    services: Services = field(default_factory=Services)
    document: Mapping[str, Any] = field(default_factory=dict)
    day: date = date.min

    def at(self, day: date) -> Site:
        """See it on a day: waivers and outages whose last day is past are marked as expired."""
        waivers = (replace(waiver, expired=waiver.until < day) for waiver in self.all_waivers)
        outs = (replace(out, expired=out.until is not None and out.until < day) for out in self.outs)
        return replace(self, all_waivers=tuple(waivers), outs=tuple(outs), day=day)

    def without(self, outs: Iterable[Out]) -> Site:
        """See it with more nodes out of service: those that the cluster's own scheduler gives nothing to."""
        return replace(self, outs=(*self.outs, *outs))

    @property
    def digest(self) -> str:
        """SHA-256 of what the site file says; comments and spaces do not count."""
        return digest(self.document)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """All declared nodes, in natural order."""
        return tuple(sorted(self._pool_of, key=natural))

    @cached_property
    def _pool_of(self) -> Mapping[str, Pool]:
        return {node: pool for pool in self.pools for node in pool.nodes}

    def pool_of(self, node: str) -> Pool | None:
        """Find the pool that a node was declared in."""
        return self._pool_of.get(node)

    @cached_property
    def out_nodes(self) -> frozenset[str]:
        """Nodes that are out of service; one whose outage has expired is back in service."""
        return frozenset(node for out in self.outs if not out.expired for node in out.nodes)

    @property
    def held_back(self) -> tuple[str, ...]:
        """Nodes that whoever runs the cluster holds out of service, and not the site file."""
        held = {node for out in self.outs if out.source != SITE_FILE for node in out.nodes}
        return tuple(sorted(held, key=natural))

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """The waivers that are in force."""
        return tuple(waiver for waiver in self.all_waivers if not waiver.expired)

    def waiver_for(self, check: str, where: str) -> Waiver | None:
        """Find a waiver in force for a check at a place."""
        return next((waiver for waiver in self.waivers if waiver.covers(check, where)), None)

    def expired_waiver_for(self, check: str, where: str) -> Waiver | None:
        """Find the waiver that would have covered a place, had it not expired: the latest of them."""
        found = [waiver for waiver in self.all_waivers if waiver.expired and waiver.covers(check, where)]
        return max(found, key=lambda waiver: waiver.until, default=None)

    def effective(self, check: str) -> Mapping[str, Limit]:
        """Give the limits of a check as they hold here, by metric."""
        return {**self.catalog.checks[check].limits, **self.overrides.get(check, {})}

    @property
    def relaxed(self) -> tuple[Change, ...]:
        """Limits under which something may pass that the catalogue would not let pass."""
        return self._changes(loosened=True)

    @property
    def tightened(self) -> tuple[Change, ...]:
        """Limits that are surely as strict as the catalogue's, and not the same."""
        return self._changes(loosened=False)

    def _changes(self, *, loosened: bool) -> tuple[Change, ...]:
        return tuple(
            Change(check, metric, old.text, new.text)
            for check, metrics in self.overrides.items()
            for metric, new in metrics.items()
            if (old := self.catalog.checks[check].limits[metric]) != new and new.loosens(old) is loosened
        )

    @property
    def effective_toml(self) -> str:
        """The thresholds as they hold here, written out: another site can be judged by them."""
        document: dict[str, Any] = copy.deepcopy(dict(self.catalog.document))
        for check, metrics in self.document.get("limits", {}).items():
            phase, area, name = check.split(".")
            table = document[phase][area][name]
            for metric, limit in metrics.items():
                unit = self.overrides[check][metric].unit
                table[metric] = {**limit, "unit": unit} if unit else limit
        return write(document)


def undeclared(catalog: Catalog) -> Site:
    """Stand in for a site file where there is none: what is found decides."""
    return Site(catalog)


def load_site(path: Path, catalog: Catalog) -> Site:
    """Read a site file; raises ConfigError with every mistake in it."""
    mistakes: list[Mistake] = []
    table = Table(parse(read(path), path.name), Place(path.name), mistakes)
    cluster = table.section("cluster")
    pools = read_pools(table, catalog)
    declared = frozenset(node for pool in pools for node in pool.nodes)
    site = Site(
        catalog,
        declared=True,
        cluster=cluster.need("name", TEXT),
        provider=cluster.take("provider", TEXT, ""),
        handed_over=cluster.take("handed_over", MOMENT, None),
        pools=pools,
        overrides=_overrides(table.section("limits"), catalog),
        all_waivers=tuple(read_waiver(each, catalog.checks) for each in table.array("waiver")),
        outs=tuple(read_out(each, declared) for each in table.array("out")),
        replaced=tuple(map(read_replaced, table.array("replaced"))),
        reach=read_reach(table),
        services=read_services(table),
        document=table.data,
    )
    cluster.close()
    table.close()
    if mistakes:
        raise ConfigError(mistakes)
    return replace(site, services=replace(site.services, reach=site.reach))


def load_services(path: Path) -> Services:
    """Read the services of a site file, whatever else is wrong with it; no TOML raises ConfigError."""
    return read_services(Table(parse(read(path), path.name), Place(path.name), []))


def _overrides(section: Table, catalog: Catalog) -> Mapping[str, Mapping[str, Limit]]:
    overrides = {}
    for check, table in section.tables():
        if check in catalog.checks:
            metrics = table.data.keys()
            overrides[check] = {metric: _override(table, metric, check, catalog) for metric in metrics}
        elif check in PHASES:
            section.wrong(
                check, f'expected the id of a check in quotes, such as [limits."{check}.area.name"]'
            )
        else:
            section.wrong(check, f"there is no such check{meant(check, catalog.checks)}")
    return overrides


def _override(table: Table, metric: str, check: str, catalog: Catalog) -> Limit:
    known = catalog.checks[check].limits
    limit = read_limit(table, metric, catalog.advisories)
    if metric not in known:
        table.wrong(
            metric, f"{check} has no such metric; expected one of {', '.join(known)}{meant(metric, known)}"
        )
        return limit
    unit = known[metric].unit
    if limit.unit not in ("", unit):
        table.wrong(
            metric, f"expected the unit of the catalogue, {unit or 'which is none'}; found {limit.unit}"
        )
    verify_figure(table, metric, limit, catalog.figures)
    if limit.of and limit.of.root == "contract" and limit.of.name not in contract_names(catalog):
        table.wrong(
            metric, f"no pool can declare {limit.of.name}{meant(limit.of.name, contract_names(catalog))}"
        )
    return replace(limit, unit=unit)
