"""The survey of what containers are given: one GPU where one was asked for, and none where none was.

A container toolkit that goes by the environment gives all GPUs to whoever writes
``NVIDIA_VISIBLE_DEVICES=all`` into his pod, past the scheduler and into others' jobs.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from gpuassay.evidence.item import Item
from gpuassay.facts.containers import Inside, readable
from gpuassay.facts.kube_words import text
from gpuassay.facts.record import Record
from gpuassay.facts.source import parse
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.container_look import INSIDE
from gpuassay.measure.kube_volumes import what_lacks
from gpuassay.measure.shared_claims import left_behind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services

_NODE: Final = "node/"
_REFUSAL: Final = "insufficient privileges"  # of NVIDIA's toolkit, where the environment is no way to a GPU


class Given:
    """What two containers on a node were given."""

    models: tuple[str, ...] = ()

    def __init__(self, node: str, told: Record, evidence: NodeEvidence) -> None:
        """Take what came of both, or why nothing did."""
        self.where = self.node = node
        self._told = told
        self._evidence = evidence

    @property
    def with_one(self) -> Fact[int]:
        """How many GPUs the container has that was given one."""
        return self._seen("one")

    @property
    def with_none(self) -> Fact[int]:
        """How many GPUs the container has that was given none, and names all in its environment."""
        return self._seen("none")

    @property
    def left_behind(self) -> Fact[bool]:
        """Whether something that was made for the trial could not be removed."""
        return self._told.unread or left_behind(self._evidence)

    @property
    def ready_s(self) -> Fact[float]:
        """How long it took from the place that the pod got to its container's start, in whole seconds."""
        times = self._one.record("times")
        placed, started = (_moment(times, key) for key in ("placed", "started"))
        if isinstance(placed, Unread) or isinstance(started, Unread):
            return placed if isinstance(placed, Unread) else started
        if started.value < placed.value:
            return Unread("failed", "its node's clock is behind the scheduler's", placed.evidence)
        note = (
            text(self._told.record("one"), "pulled") or "what was pulled is not told: events may not be read"
        )
        return Read(started.value - placed.value, placed.evidence, note)

    @property
    def shm_gib(self) -> Fact[float]:
        """How large /dev/shm is in a pod that asks for 1 GiB of it."""
        return Inside(self._one).shm_gib

    @property
    def locked_memory(self) -> Fact[str]:
        """How much memory may be locked there."""
        return Inside(self._one).locked_memory

    @property
    def topology_readable(self) -> Fact[bool]:
        """Whether NCCL can read there the file of topology that it is told of in the container."""
        return readable(Inside(self._one).topology)

    @property
    def _one(self) -> Record:
        """What the pod with a GPU saw, or why it saw nothing."""
        ran = self.with_one
        return Record(ran, ran.evidence) if isinstance(ran, Unread) else self._told.record("one")

    def _seen(self, which: str) -> Fact[int]:
        pod = self._told.record(which)
        if pod.unread:
            return pod.unread
        seen = pod.count("seen")
        if not isinstance(seen, Unread):
            return seen
        why = text(pod, "why") or text(pod, "state") or seen.why
        if which == "none" and _REFUSAL in why:
            return Read(0, seen.evidence, f"it was not started: {why}")
        return Unread("denied" if "Insufficient" in why else "failed", f"its container: {why}", seen.evidence)


class KubeGrants:
    """Two pods on each node; they count device files, and look at what else a container has."""

    method = 2

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Try every node; a pod may take ``seconds`` to start and end."""
        lack = what_lacks(services.reach.kubernetes)
        if lack:
            yield from (Item(f"{_NODE}{node}", 0, status="denied", why=lack) for node in nodes)
            return
        from gpuassay.target.kube_grant import GrantTrial  # noqa: PLC0415 - an extra
        from gpuassay.target.kube_trial import carry_out  # noqa: PLC0415

        seconds, program = float(args["seconds"]), (INSIDE, "/dev")
        items = carry_out(
            services.reach.kubernetes,
            deadline_s,
            lambda api, run: GrantTrial(api, run, nodes, seconds, program),
        )
        for item in items:  # what hinders all hinders each
            names = [f"{_NODE}{node}" for node in nodes] if item.id == "trial" else [item.id]
            yield from (Item(name, 0, item.status, why=item.why, out=item.out) for name in names)

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Given]:  # noqa: ARG002
        """Read what each node gave."""
        return [
            Given(item.id.removeprefix(_NODE), _record(item, evidence.ref(item)), evidence)
            for item in evidence.items
            if item.id.startswith(_NODE)
        ]


def _moment(times: Record, key: str) -> Fact[float]:
    """Read a time of the API server's, in seconds."""
    said = times.text(key)
    if isinstance(said, Unread):
        return said
    try:
        return Read(datetime.fromisoformat(said.value).timestamp(), said.evidence)
    except (ValueError, OverflowError):
        return times.garbled(key, said.value, "a time")


def _record(item: Item, ref: str) -> Record:
    if item.status != "ok":
        return Record(Unread(item.status, item.why, ref), ref)
    return Record(parse(item, ref), ref)
