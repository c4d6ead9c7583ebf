"""The rules by which alerts are raised: what they watch is told from the metrics that they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import gpu_metrics
from gpuassay.facts.record import mapped
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact


_FAILED = ("err", "error")  # Prometheus' word, and Grafana's


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    alerts: bool
    asks: frozenset[str]
    error: str


class Rules:
    """All rules, recording ones too: an alert may ask for what another rule has recorded."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, where: str, answer: Record, beside: Rules | None = None) -> None:
        """Take the document with the groups of rules, and rules that are kept elsewhere ``beside`` them."""
        self.where = where
        self._answer = answer
        self._beside = beside

    @property
    def alerts(self) -> Fact[int]:
        """How many of the rules raise alerts."""
        return mapped(self._rules, lambda rules: sum(rule.alerts for rule in rules))

    @property
    def broken(self) -> Fact[int]:
        """How many rules could not be evaluated the last time."""
        if isinstance(self._rules, Unread):
            return self._rules
        failed = [f"{rule.name}: {rule.error}" for rule in self._all if rule.error]
        return Read(len(failed), self._rules.evidence, brief("; ".join(failed)))

    @property
    def faults(self) -> Fact[bool]:
        """Whether an alert watches the faults that drivers report, such as XIDs."""
        return self._watched("faults")

    @property
    def memory(self) -> Fact[bool]:
        """Whether an alert watches the memory of GPUs."""
        return self._watched("memory")

    @property
    def down(self) -> Fact[bool]:
        """Whether an alert watches for a node or an exporter that is gone."""
        return self._watched("down")

    @property
    def links(self) -> Fact[bool]:
        """Whether an alert watches the links of the network."""
        return self._watched("links")

    def _watched(self, topic: str) -> Fact[bool]:
        if isinstance(self._rules, Unread):
            return self._rules
        alerts = [rule for rule in self._all if rule.alerts]
        names = [rule.name for rule in alerts if gpu_metrics.about(topic, self._behind(rule))]
        elsewhere = self._beside.unseen if self._beside else None
        if elsewhere and not names:
            return elsewhere
        count = len(alerts)
        note = first_of(names) if names else f"none of {count} alerts asks for such a metric"
        return Read(bool(names), self._rules.evidence, note)

    @property
    def unseen(self) -> Unread | None:
        """Why it cannot be told whether there are rules; None where there are, or surely none are."""
        absent = isinstance(self._rules, Unread) and self._rules.kind not in ("not_asked", "not_found")
        return self._rules if absent and isinstance(self._rules, Unread) else None

    @property
    def _all(self) -> list[_Rule]:
        own = [] if isinstance(self._rules, Unread) else self._rules.value
        return [*own, *(self._beside._all if self._beside else ())]  # noqa: SLF001 - of the same class

    def _behind(self, rule: _Rule) -> frozenset[str]:
        """Name all that a rule asks for, also by way of other rules."""
        seen: set[str] = set()
        left = set(rule.asks)
        while left:
            name = left.pop()
            seen.add(name)
            left |= self._recorded.get(name, frozenset()) - seen
        return frozenset(seen)

    @cached_property
    def _recorded(self) -> dict[str, frozenset[str]]:
        rules = [] if isinstance(self._rules, Unread) else self._rules.value
        return {rule.name: rule.asks for rule in rules if not rule.alerts}

    @cached_property
    def _rules(self) -> Fact[list[_Rule]]:
        groups = self._answer.listed("groups")
        if isinstance(groups, Unread):
            return groups
        rules: list[_Rule] = []
        for group in groups.value:
            members = group.listed("rules")
            if isinstance(members, Unread):
                return members
            rules += _read(members.value)
        return Read(rules, groups.evidence)


def _read(records: Iterable[Record]) -> list[_Rule]:
    rules = []
    for record in records:
        said = {key: record.text(key) for key in ("name", "type", "query", "health", "lastError")}
        words = {key: fact.value if isinstance(fact, Read) else "" for key, fact in said.items()}
        # Not every server tells the health of a rule; only the word that it failed is taken for that.
        error = (words["lastError"] or "no reason given") if words["health"] in _FAILED else ""
        asks = gpu_metrics.queried(_whole(record))
        rules.append(_Rule(words["name"], words["type"] == "alerting", asks, brief(error)))
    return rules


def _whole(record: Record) -> str:
    """Give the query as it is: one over several lines is no printable text."""
    query = record.look("query")
    return query.value if isinstance(query, Read) and isinstance(query.value, str) else ""
