"""What came of claims for volumes that many nodes share: by what two pods on two nodes read of each other."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from gpuassay.facts import source
from gpuassay.facts.kube_words import records, text
from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact

_CLASS: Final = "class/"
_LOCAL: Final = ("hostPath", "local")
_STORAGE_WORDS: Final = ("volume", "persistentvolumeclaim", "mount", "attach")


class Outcome(NamedTuple):
    """Of one class: ``proven``, ``pending``, ``pretended`` or ``unknown``, and why in words."""

    state: str
    words: str


class SharedClaims:
    """ReadWriteMany, as it was tried in each storage class."""

    where = "ReadWriteMany"
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: NodeEvidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def proven(self) -> Fact[int]:
        """In how many classes both pods read what the other wrote."""
        found = self._outcomes
        if isinstance(found, Unread):
            return found
        count = sum(one.state == "proven" for one in found.value.values())
        if not count and (unknown := [one.words for one in found.value.values() if one.state == "unknown"]):
            return Unread("failed", "; ".join(unknown), found.evidence)
        return Read(count, found.evidence, self._words or "there is no storage class")

    @property
    def pretended(self) -> Fact[int]:
        """In how many classes the claim was granted, and the volume is not shared."""
        found = self._outcomes
        if isinstance(found, Unread):
            return found
        count = sum(one.state == "pretended" for one in found.value.values())
        return Read(count, found.evidence, self._words)

    @property
    def left_behind(self) -> Fact[bool]:
        """Whether something that was made for the trial could not be removed."""
        return self._failure or left_behind(self._evidence)

    @property
    def _words(self) -> str:
        found = self._outcomes.value if isinstance(self._outcomes, Read) else {}
        return "; ".join(f"{name}: {one.words}" for name, one in found.items() if one.state != "proven")

    @cached_property
    def _outcomes(self) -> Fact[Mapping[str, Outcome]]:
        if self._failure:
            return self._failure
        found = dict(self._read())
        evidence = next((self._evidence.ref(item) for item in self._evidence.items), "")
        return Read(found, evidence)

    @property
    def _failure(self) -> Unread | None:
        """Why nothing, or not all, could be tried."""
        for item in self._evidence.items:
            if item.status != "ok" and item.id != "removed":
                return Unread(item.status, item.why, self._evidence.ref(item))
        return None

    def _read(self) -> Iterator[tuple[str, Outcome]]:
        for item in self._evidence.items:
            if item.id.startswith(_CLASS):
                told = Record(source.parse(item, self._evidence.ref(item)))
                yield item.id.removeprefix(_CLASS), outcome(told)


def left_behind(evidence: NodeEvidence) -> Fact[bool]:
    """Read whether something that a trial made could not be removed."""
    removed = evidence.item("removed")
    if removed is None:
        return Unread("failed", "the trial was not brought to its end")
    return Read(removed.status != "ok", evidence.ref(removed), removed.why)


def outcome(told: Record) -> Outcome:
    """Read what came of one class."""
    by = text(told, "provisioner") or "of no provisioner"
    for key in ("skipped", "refused"):
        if text(told, key):
            return Outcome("unknown", f"{by}, not tried: {text(told, key)}")
    claim, pods = told.record("claim"), records(told, "pods")
    if pods and all(_is_met(pod) for pod in pods):
        nodes = {text(pod, "node") for pod in pods} - {""}
        if len(nodes) > 1:
            return Outcome("proven", by)
        return Outcome(
            "unknown", f"{by}, not told: no two nodes, only {', '.join(nodes) or 'none'}, had a pod"
        )
    stuck = [_stuck(pod) for pod in pods if not _is_met(pod)]
    told_all = pods and text(claim, "phase")
    if not told_all or any(not _is_storage(pod) for pod in pods if not _is_met(pod)):
        return Outcome("unknown", f"{by}, not told: {'; '.join(stuck) or 'no pod was made'}")
    if text(claim, "phase") != "Bound":
        said = text(claim, "said") or "; ".join(stuck)
        return Outcome("pending", f"{by}, a claim for ReadWriteMany stays {text(claim, 'phase')}: {said}")
    kind = text(claim, "volume")
    local = f"; it is a {kind} volume, local to one node" if kind in _LOCAL else ""
    return Outcome("pretended", f"{by}, bound, and not shared: {'; '.join(stuck)}{local}")


def _is_met(pod: Record) -> bool:
    return _is(pod, "wrote") and _is(pod, "read_other")


def _is(pod: Record, key: str) -> bool:
    fact = pod.flag(key)
    return isinstance(fact, Read) and fact.value


def _is_storage(pod: Record) -> bool:
    """Tell whether it is for its volume that a pod could not do its part."""
    if text(pod, "state") == "ended":
        return "wrote" in (pod.values if not isinstance(pod.values, Unread) else {})
    return any(word in text(pod, "why").lower() for word in _STORAGE_WORDS)


def _stuck(pod: Record) -> str:
    why = text(pod, "why")
    if not why and _is(pod, "wrote"):
        why = "wrote, and did not see what the other wrote"
    return f"{text(pod, 'node')}: {why or text(pod, 'state')}"
