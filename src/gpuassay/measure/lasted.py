"""All that is recorded of a load that lasts, as it is handed to who reads it, and one that is of a mount."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.mounted import Mounted, chosen
from gpuassay.measure.paces import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Mount
    from gpuassay.measure.journals import Journal

_MINUTE_S = 60.0
_WHOLE = 0.99
M = TypeVar("M", bound="MountLoad")


@dataclass(frozen=True)
class Lasted:
    """The journals of each node; ``after`` are the nodes when it was over, if they were asked."""

    nodes: Sequence[Node]
    args: Mapping[str, Scalar]
    mounts: Sequence[Mount]
    told: Mapping[str, Sequence[Journal]]
    asked_s: float
    after: tuple[Node, ...] = ()


@dataclass(frozen=True)
class MountLoad(Mounted):
    """A mount as one node loaded it for long, and the journal that it kept."""

    journal: Journal | None = None
    asked_s: float = 0.0

    @property
    def minutes(self) -> Fact[float]:
        """For how long it was under load."""
        if not self._beats:
            return self._nothing
        note = f"of {self.asked_s / _MINUTE_S:.3g} that were asked for"
        return Read(round(self._lasted_s / _MINUTE_S, 2), self.row.evidence, note)

    @property
    def whole(self) -> Fact[bool]:
        """Whether that is as long as was asked for."""
        if not self._beats:
            return self._nothing
        whole = self._lasted_s >= _WHOLE * self.asked_s
        return Read(whole, self.row.evidence, "" if whole else self._nothing.why)

    @property
    def _beats(self) -> Sequence[Record]:
        return self.journal.beats if self.journal else ()

    @property
    def _lasted_s(self) -> float:
        return sum(number(one, "span") or 0.0 for one in self._beats)

    @property
    def _nothing(self) -> Unread:
        """Say why there is nothing to tell of it, or no more."""
        return _nothing(self.mount, self.journal)


class EachMount:
    """What loads of storage have in common: one mount after the other, on all nodes at once."""

    unbroken: ClassVar[bool] = True
    """A load that was cut is made anew, whole: what went on after a rest would show no loss."""

    in_step: ClassVar[bool] = False
    looks_again: ClassVar[bool] = False

    def parts(self, args: Mapping[str, Scalar], mounts: Sequence[Mount]) -> list[str]:
        """Give the paths that are loaded, each for the whole time."""
        return [mount.path for mount in chosen(args, mounts)]


def of_mounts(kind: type[M], lasted: Lasted) -> list[M]:
    """Give a subject for each mount on each node, by the last journal that was kept of it."""
    made: list[M] = []
    args = lasted.args
    for mount in chosen(args, lasted.mounts):
        for node in lasted.nodes:
            own = [one for one in lasted.told[node.name] if one.asked.get("part") == mount.path]
            journal = own[-1] if own else None
            row = journal.begin if journal and journal.begin else Record(_nothing(mount, journal))
            made.append(kind(node.name, mount, node.models, row, row, args, made, journal, lasted.asked_s))
    return made


def _nothing(mount: Mount, journal: Journal | None) -> Unread:
    if journal is None:
        return Unread("not_asked", f"{mount.path} was not loaded")
    why = journal.stopped or (journal.last_words if journal.end is None else "it ended before its time")
    return Unread("failed", f"{mount.path}: {why}", journal.evidence)
