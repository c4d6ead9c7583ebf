"""The pages that exporters on nodes serve, in Prometheus' text format: their names and labels are read."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import gpu_metrics
from gpuassay.facts.source import take
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts.node import Node
    from gpuassay.judge.fact import Fact

# Nothing is given back once it was taken, so that no line, however odd, takes long.
_SERIES = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)(?:[ \t]*+\{(?P<labels>.*)\})?[ \t]++(?P<value>\S++)"
    r"(?:[ \t]++-?\d++)?[ \t]*+"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:\\.|[^"\\])*)"[ \t]*,?[ \t]*')
_ABSENT = ("timed_out", "failed", "not_found")
_NOT_ASKED = Unread("not_asked", "its exporters were not asked")


def series(page: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Give name and labels of each series of a page; a line that is none is passed over."""
    for line in page.splitlines():
        if found := _SERIES.fullmatch(line):
            yield found["name"], dict(_LABEL.findall(found["labels"] or ""))


class Exporters:
    """What the exporters of all nodes answered."""

    def __init__(self, evidence: NodeEvidence) -> None:
        """Take what the survey brought."""
        self._evidence = evidence
        self._read: dict[str, Fact[list[tuple[str, Mapping[str, str]]]]] = {}

    def answered(self, node: Node) -> Fact[bool]:
        """Whether all exporters of a node answered in time; the note names those that did not.

        A host that has no address here says something of this seat and nothing of the exporter.
        """
        items = self._of(node)
        if not items:
            return _NOT_ASKED
        unseen = next((item for item in items if item.status not in ("ok", *_ABSENT)), None)
        nameless = next((item for item in items if "Name or service not known" in item.why), None)
        if odd := unseen or nameless:
            return Unread(odd.status if odd.status != "ok" else "failed", odd.why, self._evidence.ref(odd))
        silent = [f"{item.id.removeprefix(node.name)}: {item.why}" for item in items if item.status != "ok"]
        return Read(not silent, self._evidence.ref(items[0]), "; ".join(silent))

    def seconds(self, node: Node) -> Fact[float]:
        """How long the slowest of those that answered took."""
        took = [item.seconds for item in self._of(node) if item.status == "ok" and item.seconds is not None]
        why = [fact for item in self._of(node) if isinstance(fact := take(self._evidence, item.id), Unread)]
        return Read(max(took)) if took else (why or [_NOT_ASKED])[0]

    def gpus_missing(self, node: Node) -> Fact[int]:
        """How many GPUs of a node its exporters do not show."""
        found = self._series(node)
        if isinstance(found, Unread):
            return found
        shown = gpu_metrics.Shown(labels for name, labels in found.value if name in gpu_metrics.TEMPERATURES)
        return gpu_metrics.counted(shown, node, found.evidence)

    def faults_missing(self, node: Node) -> Fact[int]:
        """How many of the metrics that tell a sick GPU its exporters do not have."""
        return self._missing(node, gpu_metrics.FAULTS)

    def work_missing(self, node: Node) -> Fact[int]:
        """How many of the metrics that tell how GPUs are used its exporters do not have."""
        return self._missing(node, gpu_metrics.WORK)

    def _missing(self, node: Node, fields: Mapping[str, Mapping[str, str]]) -> Fact[int]:
        found = self._series(node)
        if isinstance(found, Unread):
            return found
        vendors = dict.fromkeys(gpu.vendor for gpu in node.gpus if gpu.vendor in fields)
        wanted = {field: names for vendor in vendors for field, names in fields[vendor].items()}
        if not wanted:
            return Unread("not_found", "no GPU is known whose metrics could be missed", found.evidence)
        return gpu_metrics.missing({name for name, _ in found.value}, wanted, found.evidence)

    @cached_property
    def _items(self) -> Mapping[str, list[Item]]:
        by_node: dict[str, list[Item]] = {}
        for item in self._evidence.items:
            by_node.setdefault(item.id.partition(":")[0], []).append(item)
        return by_node

    def _of(self, node: Node) -> list[Item]:
        return self._items.get(node.name, [])

    def _series(self, node: Node) -> Fact[list[tuple[str, Mapping[str, str]]]]:
        """Give what all pages of a node hold together."""
        if node.name not in self._read:
            self._read[node.name] = self._parse(node)
        return self._read[node.name]

    def _parse(self, node: Node) -> Fact[list[tuple[str, Mapping[str, str]]]]:
        found: list[tuple[str, Mapping[str, str]]] = []
        unread: Unread | None = None
        ref = ""
        for item in self._of(node):
            fact = take(self._evidence, item.id)
            if isinstance(fact, Unread):
                unread = unread or fact
                continue
            page = list(series(fact.value.out.decode(errors="replace")))
            if not page:
                unread = unread or Unread("garbled", f"{item.id} is no page of metrics", fact.evidence)
            found += page
            ref = ref or fact.evidence
        if found:
            return Read(found, ref)
        return unread or _NOT_ASKED
