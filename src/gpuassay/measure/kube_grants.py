"""The survey of what containers are given: one GPU where one was asked for, and none where none was.

A container toolkit that goes by the environment gives all GPUs to whoever writes
``NVIDIA_VISIBLE_DEVICES=all`` into his pod, past the scheduler and into others' jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuassay.evidence.item import Item
from gpuassay.facts.kube_words import text
from gpuassay.facts.record import Record
from gpuassay.facts.source import parse
from gpuassay.judge.fact import Read, Unread
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
    """Two pods on each node; they count device files."""

    method = 1

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

        seconds = float(args["seconds"])
        items = carry_out(
            services.reach.kubernetes, deadline_s, lambda api, run: GrantTrial(api, run, nodes, seconds)
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


def _record(item: Item, ref: str) -> Record:
    if item.status != "ok":
        return Record(Unread(item.status, item.why, ref), ref)
    return Record(parse(item, ref), ref)
