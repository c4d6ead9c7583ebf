"""Grafana as a subject: whether it answers, to whom, and what its dashboards show of GPUs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.facts import web
from gpuassay.facts.dashboards import Panel, panels
from gpuassay.facts.source import document, parse, take
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of

if TYPE_CHECKING:
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact

_LOGS = frozenset(
    {
        "loki",
        "elasticsearch",
        "grafana-opensearch-datasource",
        "victoriametrics-logs-datasource",
        "grafana-splunk-datasource",
        "grafana-clickhouse-datasource",
        "cloudwatch",
        "stackdriver",
        "grafana-azure-monitor-datasource",
    }
)
_DASHBOARD = "dashboard/"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard with panels over GPUs."""

    where: str
    filled_percent: Fact[float]
    node: str = ""
    models: tuple[str, ...] = ()


class Grafana:
    """All that Grafana answered."""

    where = "grafana"
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: NodeEvidence) -> None:
        """Take what the survey brought."""
        self._evidence = evidence

    @property
    def answers(self) -> Fact[bool]:
        """Whether it is up, with its database."""
        item = self._evidence.item("health")
        if item is not None and item.status in ("failed", "timed_out"):
            return Read(value=False, evidence=self._evidence.ref(item), note=item.why)
        said = document(self._evidence, "health").text("database")
        return said if isinstance(said, Unread) else Read(said.value == "ok", said.evidence, said.value)

    @property
    def answers_anyone(self) -> Fact[bool]:
        """Whether it lists dashboards without a login."""
        return web.answers_anyone(self._evidence, "anonymous")

    @property
    def gpu_dashboards(self) -> Fact[int]:
        """How many dashboards have panels over GPUs."""
        listed = web.listed(self._evidence, "search")
        if isinstance(listed, Unread):
            return listed
        lost = [
            item for item in self._evidence.items if item.id.startswith(_DASHBOARD) and item.status != "ok"
        ]
        if lost and not self.dashboards:
            return Unread(lost[0].status, lost[0].why, self._evidence.ref(lost[0]))  # type: ignore[arg-type]
        note = first_of([one.where for one in self.dashboards]) or f"of {len(listed.value)} dashboards"
        return Read(len(self.dashboards), listed.evidence, note)

    @property
    def log_sources(self) -> Fact[int]:
        """How many of its data sources hold logs."""
        sources = web.listed(self._evidence, "datasources")
        if isinstance(sources, Unread):
            return sources
        kinds = [str(one.get("type")) for one in sources.value if isinstance(one, dict)]
        logs = [kind for kind in kinds if kind in _LOGS]
        note = brief(", ".join(logs) or f"it has {', '.join(kinds) or 'no data source'}")
        return Read(len(logs), sources.evidence, note)

    @cached_property
    def dashboards(self) -> tuple[Dashboard, ...]:
        """Those with panels over GPUs; one that is unread where not even their list is known."""
        if isinstance(listed := web.listed(self._evidence, "search"), Unread):
            return (Dashboard("grafana/dashboards", listed),)
        found = web.listed(self._evidence, "datasources")
        sources = [] if isinstance(found, Unread) else found.value
        dashboards = []
        for item in self._evidence.items:
            if item.id.startswith(_DASHBOARD) and item.status == "ok":
                shown = parse(item, self._evidence.ref(item))
                asked = panels(shown, sources)
                if asked and isinstance(shown, dict):
                    uid = item.id.removeprefix(_DASHBOARD)
                    dashboards.append(Dashboard(f"grafana/{_title(shown, uid)}", self._filled(uid, asked)))
        return tuple(dashboards)

    def _filled(self, uid: str, asked: list[Panel]) -> Fact[float]:
        """Tell how many of the panels that were asked show anything, in percent."""
        has: dict[str, bool] = {}
        unread = Unread("not_asked", "it could not be told which data source its panels ask")
        ref = ""
        for index, panel in enumerate(asked):
            fact = take(self._evidence, panel_id(uid, index))
            filled = fact if isinstance(fact, Unread) else _has_data(fact.value.out, fact.evidence)
            if isinstance(filled, Read):
                has[f"{panel.title} ({index})"] = filled.value
                ref = ref or filled.evidence
            elif filled.kind != "not_asked":
                unread = filled
        if not has:
            return unread
        empty = [title for title, filled in has.items() if not filled]
        note = f"{len(empty)} of {len(has)} are empty: {first_of(empty)}" if empty else ""
        return Read(100 * (len(has) - len(empty)) / len(has), ref, note)


def panel_id(uid: str, index: int) -> str:
    """Give the id of the item with what a panel's query gave."""
    return f"panel/{uid}/{index}"


def _title(shown: dict[str, Any], uid: str) -> str:
    inner = shown.get("dashboard")
    title = inner.get("title") if isinstance(inner, dict) else None
    return brief(title) if isinstance(title, str) and title.strip() else uid


def _has_data(out: bytes, ref: str) -> Fact[bool]:
    """Tell whether a query gave at least one value, in any of its frames."""
    try:
        result = json.loads(out)["results"]["A"]
        if error := result.get("error"):
            return Unread("failed", brief(str(error)), ref)
        columns = [column for frame in result.get("frames") or [] for column in frame["data"]["values"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Unread("garbled", "the answer to a panel's query cannot be read", ref)
    return Read(any(columns), ref)
