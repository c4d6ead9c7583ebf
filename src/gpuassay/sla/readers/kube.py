"""What the API of Kubernetes says of its nodes, once or again and again: ``kubectl get nodes --output=json``.

A Node tells how it is, and since when; nobody keeps what was before. So each answer makes a stretch known:
from the last change of *Ready* to the latest time that the answer itself names, which is not after it was
given. Between such stretches nothing is known. Several answers may stand in one file, also those of
``--watch``, and each may be a list or one node.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.sla import moments
from gpuassay.sla.outages import Actor, History, Outage
from gpuassay.sla.readers import ReadError
from gpuassay.sla.spans import union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.sla.outages import State
    from gpuassay.sla.readers import Reading
    from gpuassay.sla.spans import Span

# Conditions that are bad when true, of Kubernetes, of node-problem-detector and of NVSentinel. Those that are
# good when true end with Ready.
_BAD = frozenset(
    {
        *("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "FrequentKubeletRestart"),
        *("FrequentContainerdRestart", "FrequentDockerRestart", "FrequentUnregisterNetDevice"),
        *(
            f"Gpu{part}Watch"
            for part in ("Mem", "Thermal", "Pcie", "Power", "Inforom", "Nvlink", "Sm", "Driver")
        ),
        *("SysLogsXIDError", "SysLogsSXIDError", "SysLogsGPUFallenOff", "NVSwitchFatalError", "NVSwitchDown"),
        *("DCGMError", "GpuDcgmUnresponsive"),
    }
)
_CORDON = "node.kubernetes.io/unschedulable"


def is_it(text: str) -> bool:
    """Tell whether a text is of this kind, from its first document."""
    try:
        first, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return False
    return isinstance(first, dict) and ("kind" in first or "items" in first or "object" in first)


def read(text: str, name: str, how: Reading, taken: int | None = None) -> History:
    """Read it; ``taken`` is when the answer was given, if that is known. Raises ReadError."""
    outages: list[Outage] = []
    known: dict[str, list[Span]] = defaultdict(list)
    notes: dict[str, None] = {}
    for number, document in enumerate(_documents(text, name), start=1):
        answer = _Answer(document, f"{name}, answer {number}", how, taken)
        for node in answer.nodes:
            outages += answer.outages(node)
            known[answer.name(node)] += answer.known(node)
        notes |= answer.notes
    return History(
        outages=tuple(outages),
        known={node: union(spans) for node, spans in known.items()},
        notes=tuple(notes),
    )


def _documents(text: str, name: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while rest := text[at:].lstrip():
        at = len(text) - len(rest)
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise ReadError(f"{name}: not JSON: {error}") from error
        yield document


class _Answer:
    """One answer of the API: some nodes, as they were at one time."""

    def __init__(self, document: object, place: str, how: Reading, taken: int | None) -> None:
        """Find its nodes, and the latest time that it names itself."""
        self._place = place
        self._how = how
        self.notes: dict[str, None] = {}
        self.nodes = list(self._nodes(document))
        told = [
            self._moment(condition[key])
            for node in self.nodes
            for condition in _conditions(node)
            for key in ("lastTransitionTime", "lastHeartbeatTime")
            if condition.get(key)
        ]
        if taken is None and not told:
            raise ReadError(f"{place}: no condition says a time, so nobody can tell when it was given")
        self._seen = max(told) if taken is None else taken

    def name(self, node: Mapping[str, Any]) -> str:
        """Name a node."""
        name = _mapping(node.get("metadata")).get("name")
        if not isinstance(name, str) or not name:
            raise ReadError(f"{self._place}: a node has no name")
        return name

    def known(self, node: Mapping[str, Any]) -> Iterator[Span]:
        """Say since when a node is as it is said to be."""
        for condition in _conditions(node):
            if condition.get("type") == "Ready":
                yield self._moment(condition.get("lastTransitionTime")), self._seen

    def outages(self, node: Mapping[str, Any]) -> Iterator[Outage]:
        """Find what is wrong with a node, each since its own time."""
        for condition in _conditions(node):
            if self._is_bad(condition, self.name(node)):
                state: State = "down" if condition["type"] == "Ready" else "degraded"
                words = (condition.get(key) for key in ("type", "status", "reason", "message"))
                since = self._moment(condition.get("lastTransitionTime"))
                yield self._outage(node, state, since, Actor.PROVIDER, ": ".join(str(w) for w in words if w))
        spec = _mapping(node.get("spec"))
        if spec.get("unschedulable") is True:
            taints = (taint for taint in spec.get("taints") or () if _mapping(taint).get("key") == _CORDON)
            added = next((taint.get("timeAdded") for taint in taints), None)
            if added is None:
                self._note(f"{self.name(node)} is cordoned, and nothing says since when: not counted")
            else:
                by = self._how.cordons or Actor.UNSAID
                yield self._outage(node, "down", self._moment(added), by, "cordoned")

    def _is_bad(self, condition: Mapping[str, Any], node: str) -> bool:
        kind, status = str(condition.get("type")), condition.get("status")
        if kind.endswith("Ready"):
            return status != "True"
        if kind not in _BAD and status == "True":
            self._note(
                f"{node}: whether the condition {brief(kind)} is good or bad is not known: not counted"
            )
        return kind in _BAD and status == "True"

    def _outage(self, node: Mapping[str, Any], state: State, since: int, by: Actor, words: str) -> Outage:
        return Outage(self.name(node), state, since, max(since, self._seen), by, brief(words), self._place)

    def _nodes(self, document: object) -> Iterator[Mapping[str, Any]]:
        """Find the nodes in a list, in an event of a watch, or the one that a document is."""
        inner = _mapping(_mapping(document).get("object", document))
        found = inner.get("items", [inner])
        if not isinstance(found, list):
            raise ReadError(f"{self._place}: items: expected a list of nodes")
        for node in found:
            if _mapping(node).get("kind", "Node") != "Node" or not _mapping(node).get("metadata"):
                raise ReadError(
                    f"{self._place}: expected nodes as the API writes them, found {brief(str(node))}"
                )
            yield node

    def _moment(self, text: object) -> int:
        try:
            return moments.read(str(text), self._how.zone).late
        except ValueError as error:
            raise ReadError(f"{self._place}: {error}") from error

    def _note(self, words: str) -> None:
        self.notes[f"{self._place}: {words}"] = None


def _conditions(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = _mapping(node.get("status")).get("conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
