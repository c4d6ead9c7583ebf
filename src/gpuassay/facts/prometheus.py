"""Prometheus as a subject: what it scrapes, what it alerts on, and what it holds of each node and GPU."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import gpu_metrics, web
from gpuassay.facts.alert_rules import Rules
from gpuassay.facts.record import mapped
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.node import Node
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

GRAFANA_RULES = "grafana-rules"
_DAYS = {"y": 365.0, "w": 7.0, "d": 1.0, "h": 1 / 24, "m": 1 / 1440}
_IDLE = "no GPU worked within seven days, as far as Prometheus knows: run a job, and ask again"


@dataclass(frozen=True, slots=True)
class Target:
    """What Prometheus scrapes, or why that is not known."""

    where: str
    up: Fact[bool]
    node: str = ""
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of a query's result."""

    labels: Mapping[str, str]
    at: float
    value: float


class Prometheus:
    """All that Prometheus answered."""

    where = "prometheus"
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take what the survey brought."""
        self._evidence = evidence
        self._named_by: dict[str, Fact[frozenset[str]]] = {}

    @property
    def answers_anyone(self) -> Fact[bool]:
        """Whether it answers without a login."""
        return web.answers_anyone(self._evidence, "anonymous")

    @property
    def retention_days(self) -> Fact[float]:
        """For how long it keeps what it has scraped."""
        said = web.success(self._evidence, "runtimeinfo").text("storageRetention")
        if isinstance(said, Unread):
            return said
        parts = re.findall(r"([0-9]+)(y|w|d|h|m)(?![a-zA-Z])", said.value.partition(" or ")[0])
        if not parts:
            return Unread("garbled", f"it keeps {brief(said.value)}, which is no time", said.evidence)
        return Read(sum(int(count) * _DAYS[unit] for count, unit in parts), said.evidence, said.value)

    @property
    def alertmanagers(self) -> Fact[int]:
        """To how many alertmanagers it sends; Grafana, where it keeps alerts, has one of its own."""
        active = web.success(self._evidence, "alertmanagers").listed("activeAlertmanagers")
        own = self._grafana_rules.alerts
        return mapped(active, lambda urls: len(urls) + (isinstance(own, Read) and own.value > 0))

    @cached_property
    def rules(self) -> Rules:
        """Its rules, and those that Grafana keeps itself."""
        return Rules("prometheus/rules", web.success(self._evidence, "rules"), self._grafana_rules)

    @cached_property
    def _grafana_rules(self) -> Rules:
        return Rules("grafana/rules", web.success(self._evidence, GRAFANA_RULES))

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """What it scrapes; one that is unread where nothing is."""
        found = web.success(self._evidence, "targets").listed("activeTargets")
        if isinstance(found, Read) and not found.value:
            found = Unread("not_found", "Prometheus scrapes nothing", found.evidence)
        if isinstance(found, Unread):
            return (Target("prometheus/targets", found),)
        return tuple(map(_target, found.value))

    # --- what it holds of nodes and GPUs -----------------------------------------------------------

    def gpus_missing(self, node: Node) -> Fact[int]:
        """How many GPUs of a node it has no recent sample of."""
        if isinstance(self._gpus, Unread):
            return self._gpus
        return gpu_metrics.counted(self._shown, node, self._gpus.evidence)

    def sample_age_s(self, node: Node) -> Fact[float]:
        """How old the oldest of the latest samples of a node's GPUs is."""
        if isinstance(self._gpus, Unread):
            return self._gpus
        samples = self._gpus.value
        indices = self._shown.of(node.name, node.gpus)
        if not indices:
            return Unread("not_found", "Prometheus has no sample of its GPUs", self._gpus.evidence)
        ages = [samples[index].at - samples[index].value for index in indices]
        return Read(max(ages), self._gpus.evidence)

    def faults_missing(self, gpus: Iterable[Gpu]) -> Fact[int]:
        """How many of the metrics that tell a sick GPU it has of no GPU at all."""
        return self._missing(gpus, gpu_metrics.FAULTS)

    def work_missing(self, gpus: Iterable[Gpu]) -> Fact[int]:
        """How many of the metrics that tell how GPUs are used it has of no GPU at all."""
        return self._missing(gpus, gpu_metrics.WORK)

    def has_host(self, node: Node) -> Fact[bool]:
        """Whether it has the metrics of node-exporter of a node."""
        return self._named("hosts", "nodename", node)

    def has_kubernetes_node(self, node: Node) -> Fact[bool]:
        """Whether it has what kube-state-metrics says of a node."""
        return self._named("kubernetes", "node", node)

    @property
    def names_pods(self) -> Fact[bool]:
        """Whether the metrics of a GPU name the pod that uses it."""
        return self._attributed("pods")

    @property
    def names_jobs(self) -> Fact[bool]:
        """Whether the metrics of a GPU name the job of Slurm that uses it."""
        return self._attributed("jobs")

    # --- queries -----------------------------------------------------------------------------------

    @cached_property
    def _gpus(self) -> Fact[list[Sample]]:
        return self._vector("gpus")

    @cached_property
    def _shown(self) -> gpu_metrics.Shown:
        return gpu_metrics.Shown(one.labels for one in self._samples)

    @property
    def _samples(self) -> list[Sample]:
        return [] if isinstance(self._gpus, Unread) else self._gpus.value

    def _missing(self, gpus: Iterable[Gpu], fields: Mapping[str, Mapping[str, str]]) -> Fact[int]:
        found = self._vector("fields")
        if isinstance(found, Unread):
            return found
        vendors = dict.fromkeys(gpu.vendor for gpu in gpus if gpu.vendor in fields)
        wanted = {field: names for vendor in vendors for field, names in fields[vendor].items()}
        if not wanted:
            return Unread("not_found", "no GPU is known whose metrics could be missed", found.evidence)
        names = {one.labels.get("__name__", "") for one in found.value}
        return gpu_metrics.missing(names, wanted, found.evidence)

    def _named(self, query: str, label: str, node: Node) -> Fact[bool]:
        if query not in self._named_by:  # once for all nodes: there may be thousands
            self._named_by[query] = mapped(
                self._vector(query),
                lambda found: frozenset(gpu_metrics.short(one.labels.get(label, "")) for one in found),
            )
        names = self._named_by[query]
        if isinstance(names, Unread):
            return names
        wanted = {gpu_metrics.short(name) for name in (node.name, *node.aliases) if name}
        known = not wanted.isdisjoint(names.value)
        return Read(known, names.evidence, "" if known else f"{len(names.value)} nodes have them")

    def _attributed(self, query: str) -> Fact[bool]:
        """Tell nothing of GPUs that nobody used: a label comes with the work."""
        named, worked = self._vector(query), self._vector("worked")
        if isinstance(named, Unread) or (named.value and named.value[0].value > 0):
            return mapped(named, lambda _: True)
        if isinstance(worked, Read) and not worked.value:
            return Unread("not_asked", _IDLE, worked.evidence)
        return mapped(worked, lambda _: False)

    def _vector(self, query: str) -> Fact[list[Sample]]:
        result = web.success(self._evidence, f"query/{query}").listed("result")
        if isinstance(result, Unread):
            return result
        samples = [_sample(record) for record in result.value]
        if None in samples:
            return Unread("garbled", f"the answer to {query} is no vector", result.evidence)
        return Read([one for one in samples if one is not None], result.evidence)


def _target(record: Record) -> Target:
    labels = record.record("labels")
    named = [labels.text(key) for key in ("job", "instance")]
    place = "/".join(fact.value if isinstance(fact, Read) else "?" for fact in named)
    health = record.text("health")
    if isinstance(health, Unread):
        return Target(f"prometheus/{place}", health)
    if health.value == "unknown":
        why = "it was not scraped yet"
        return Target(f"prometheus/{place}", Unread("not_asked", why, health.evidence))
    error = record.text("lastError")
    note = brief(error.value) if isinstance(error, Read) and health.value != "up" else ""
    return Target(f"prometheus/{place}", Read(health.value == "up", health.evidence, note))


def _sample(record: Record) -> Sample | None:
    values = record.values
    if isinstance(values, Unread):
        return None
    labels, pair = values.get("metric"), values.get("value")
    if not isinstance(labels, dict) or not isinstance(pair, list):
        return None
    try:
        at, value = (float(one) for one in pair)
    except (TypeError, ValueError, OverflowError):
        return None
    texts = {key: text for key, text in labels.items() if isinstance(text, str)}
    return Sample(texts, at, value) if math.isfinite(at) else None
