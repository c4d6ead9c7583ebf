"""What is measured in the storage that was bought: a tool runs on a node, in each mount of the site file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Mount

ONE = "one"
"""In ``args.nodes``: a single node, the others idle, as far as we are concerned."""

_ROLES: Mapping[str, Callable[[Mount], bool]] = {
    "shared": lambda mount: mount.shared,
    "local": lambda mount: not mount.shared,
    "all": lambda _: True,
}


def chosen(args: Mapping[str, Scalar], declared: Sequence[Mount]) -> list[Mount]:
    """Choose among the declared mounts by ``args.mounts``: shared ones, local ones, or all."""
    fits = _ROLES[str(args["mounts"])]
    return [mount for mount in declared if fits(mount)]


@dataclass(frozen=True)
class Mounted:
    """A mount as one node measured it; ``row`` is what the tool told of it."""

    node: str
    mount: Mount
    models: tuple[str, ...]
    document: Record
    row: Record
    args: Mapping[str, Scalar]
    beside: Sequence[Mounted] = field(
        default=(), repr=False, compare=False
    )  # all that were measured, itself too

    @property
    def where(self) -> str:
        """Its place: the node and the path there."""
        return f"{self.node}{self.mount.path}" if self.mount.path != "/" else f"{self.node}/(root)"

    @property
    def at(self) -> Mapping[str, str]:
        """The mount, how large it is and how full: no figure holds for another volume."""
        return {"mount": self.mount.path, "volume": self.volume}

    @property
    def unpromised(self) -> Sequence[Self]:
        """Itself, if the contract promises no speed of it, and public figures are all there is."""
        return () if self.mount.speeds else (self,)

    @property
    def shared_unpromised(self) -> Sequence[Self]:
        """Itself, if it is shared, and the contract promises no speed of it."""
        return self.unpromised if self.mount.shared else ()

    @property
    def alike(self) -> list[Self]:
        """The same mount on all nodes that were measured, this one too."""
        return [
            one for one in self.beside if isinstance(one, type(self)) and one.mount.path == self.mount.path
        ]

    def beside_fastest(self, figure: Callable[[Self], Fact[float]]) -> Fact[float]:
        """Give a figure beside that of the node which is fastest at the same mount."""
        own = figure(self)
        if isinstance(own, Unread):
            return own
        most, node = max(
            (fact.value, one.node) for one in self.alike if isinstance(fact := figure(one), Read)
        )
        note = f"{own.value:.4g}, and {most:.4g} on {node}; {own.note}"
        return Read(own.value / most, own.evidence, note)

    @property
    def failed(self) -> Unread | None:
        """Why nothing was measured; None if something was."""
        return figures.lack(self.row, self.mount.path)

    @property
    def volume(self) -> str:
        """Say how large the volume is, and how full."""
        fs = self.row.record("fs")
        size, free, kind = fs.count("bytes"), fs.count("free"), fs.text("type")
        if isinstance(size, Unread) or isinstance(free, Unread) or not size.value:
            return "of unknown size"
        named = f"{kind.value}, " if isinstance(kind, Read) else ""
        return f"{named}{size.value / 1e12:.3g} TB, {1 - free.value / size.value:.0%} full"

    @property
    def version(self) -> str:
        """Name the tool's version as it said it."""
        told = self.document.text("version")
        return told.value if isinstance(told, Read) else "a version that it did not tell"

    def of(self, value: float, note: str) -> Fact[float]:
        """Give a figure with what it depends on."""
        return Read(value, self.row.evidence, f"{note}; {self.volume}; {self.version}")


@dataclass(frozen=True)
class MountTool:
    """A tool by name: the module that runs it on a node, how to get it, and what a check can observe.

    ``method`` is raised when measuring changes; ``plan`` makes what the module is told of the arguments.
    """

    name: str
    module: str
    method: int
    get: str
    plan: Callable[[Mapping[str, Scalar]], Mapping[str, Any]]
    subject: type[Mounted]

    def mounts(self, args: Mapping[str, Scalar], declared: Sequence[Mount]) -> list[Mount]:
        """Choose the mounts that it works in."""
        return chosen(args, declared)

    def order(self, args: Mapping[str, Scalar], mounts: Sequence[Mount]) -> dict[str, Any]:
        """Give what a node is told to do."""
        return {
            "tool": self.name,
            "module": self.module,
            "method": self.method,
            "get": self.get,
            "mounts": [mount.path for mount in mounts],
            **self.plan(args),
        }

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded; in which mounts, the answer says."""
        return {"tool": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self,
        nodes: Sequence[Node],
        args: Mapping[str, Scalar],
        mounts: Sequence[Mount],
        told: Mapping[str, Record],
    ) -> list[Mounted]:
        """Read what the nodes printed: a subject for each mount on each of them."""
        made: list[Mounted] = []
        for node in nodes:
            made += self._on(node, args, mounts, told[node.name], made)
        return made

    def _on(
        self,
        node: Node,
        args: Mapping[str, Scalar],
        mounts: Sequence[Mount],
        told: Record,
        beside: Sequence[Mounted],
    ) -> list[Mounted]:
        """Give a subject for each mount, also for one that the node did not try."""
        listed = told.listed("rows")
        rows: dict[str, Record] = {}
        if isinstance(listed, Read):
            for row in listed.value:
                named = row.text("mount")
                if isinstance(named, Read):
                    rows[named.value] = row
        why = (
            listed
            if isinstance(listed, Unread)
            else Unread("not_asked", "this mount was not tried", told.evidence)
        )
        lost = Record(why, told.evidence)
        return [
            self.subject(node.name, mount, node.models, told, rows.get(mount.path, lost), args, beside)
            for mount in mounts
        ]
