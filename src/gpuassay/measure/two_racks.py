"""A job over two racks, as a tenant's who knows nothing of racks: it runs, or is refused, and never hangs.

Libraries group ranks by NVLink domain and set up each group by IMEX. On Kubernetes a pod has that through a
ComputeDomain alone, and jobs without one were seen to hang where they spanned two racks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import folded, natural
from gpuassay.measure.collectives import Collectives, ranks_of
from gpuassay.measure.work.board import HUNG, MEETING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.measure.exchanged import RankOfJob

_RACKS = 2
_OF_EACH = 2  # with one of each, no NVLink group would have two nodes to set up
_NONE = Unread("denied", "there are not two NVLink domains with idle nodes of as many GPUs for a job to span")
# What a target says of a pod that a policy of the cluster denied. Rights, quotas, images and nodes that are
# out stop a job as well, and are no answer to what this one lacks.
_REFUSAL = ("could not be started", "denied")
_SILENT = "the launcher"  # of a node from which nothing came: whether its ranks hung is not known


class TwoRacks(Collectives):
    """``[measure.X] workload = "two_racks"``: collectives between nodes of two NVLink domains."""

    name = "two_racks"
    together: ClassVar[bool] = False  # its nodes are one job, whatever pools they are declared in

    def choose(self, nodes: Sequence[Node]) -> list[Node]:
        """Take some idle nodes of each of two domains, with as many GPUs; none where there are not two."""
        racks: dict[int, dict[str, list[Node]]] = defaultdict(lambda: defaultdict(list))
        for node in sorted(nodes, key=lambda one: natural(one.name)):
            domain = node.rack.domain if node.gpus and not node.busy else None
            if isinstance(domain, Read) and domain.value:
                racks[len(node.gpus)][domain.value].append(node)
        for alike in racks.values():
            largest = sorted(alike.values(), key=len, reverse=True)[:_RACKS]
            if len(largest) == _RACKS:
                taken = min(_OF_EACH, *map(len, largest))
                return [node for members in largest for node in members[:taken]]
        return []

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:
        """Give what a rank is told to do: collectives, as ever."""
        return {**super().order(args, nodes), "workload": Collectives.name}

    def subjects(
        self, nodes: Sequence[Node], args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
    ) -> list[Any]:
        """Give what came of the one job."""
        return [AcrossRacks(folded([node.name for node in nodes]), tuple(ranks_of(nodes, args, told)))]


@dataclass(frozen=True)
class AcrossRacks:
    """The ranks of one job over two racks."""

    where: str
    ranks: Sequence[RankOfJob]
    node: str = ""
    models: tuple[str, ...] = ()

    @property
    def outcome(self) -> Fact[str]:
        """What came of it: ``ran``, ``refused``, ``broke`` or ``hung``; the note has the words of a rank."""
        if not self.ranks:
            return _NONE
        told = list(self._told())
        for worst in ("hung", "broke"):
            found = next((one for one in told if isinstance(one, Read) and one.value == worst), None)
            if found:
                return found
        unread = next((one for one in told if isinstance(one, Unread)), None)
        if unread:
            return unread
        outcomes = {one.value for one in told if isinstance(one, Read)}
        if len(outcomes) > 1:
            return Unread("failed", "some ranks were refused, and the others ran without them")
        return told[0]

    def _told(self) -> Iterator[Fact[str]]:
        return (_outcome(rank) for rank in self.ranks)


def _outcome(rank: RankOfJob) -> Fact[str]:
    """Tell what came of one rank."""
    if rank.told.unread:
        return _unstarted(rank.where, rank.told.unread)
    broken = rank.broken
    if isinstance(broken, Unread):
        return broken
    note = f"{rank.where}: {broken.note}" if broken.note else ""
    if not broken.value:
        ways = rank.ways
        return Read("ran", broken.evidence, ways.value.words if isinstance(ways, Read) else "")
    if broken.note.startswith(MEETING):
        return Unread("failed", f"{note}: the ranks did not meet", broken.evidence)
    return Read("hung" if HUNG in broken.note else "broke", broken.evidence, note)


def _unstarted(where: str, unread: Unread) -> Fact[str]:
    """Tell a part that was refused from one that never ended, and from one that nothing is known of."""
    note = f"{where}: {brief(unread.why)}"
    if unread.kind == "timed_out" and _SILENT not in unread.why:
        return Read("hung", unread.evidence, note)
    if all(words in unread.why for words in _REFUSAL):
        return Read("refused", unread.evidence, note)
    return unread
