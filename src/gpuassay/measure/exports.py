"""To whom the storage of this cluster is exported: by its servers' own lists, as a node is shown them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import errand
from gpuassay.measure.outside import rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services

# showmount(8) prints what exports(5) has: "*", and "(everyone)" where no client is named.
_EVERYBODY = frozenset({"*", "(everyone)", "everyone", "0.0.0.0/0", "0.0.0.0/0.0.0.0", "::/0"})
_KERBEROS = "krb5"


@dataclass(frozen=True)
class Export:
    """An NFS mount of a node, and its server's list."""

    node: str
    row: Record
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: where it is mounted on the node."""
        at = self.row.text("at")
        return f"{self.node}{at.value}" if isinstance(at, Read) else self.node

    @property
    def for_everybody(self) -> Fact[bool]:
        """Whether the server gives it to whoever reaches it; with Kerberos, nobody gets in by that alone."""
        lost, path, security = self.row.text("lost"), self.row.text("export"), self.row.text("sec")
        if isinstance(lost, Read):
            why = f"{lost.value}: a server of NFS 4 alone has no list, and its provider can say"
            return Unread("denied", why, lost.evidence)
        for fact in (path, security):
            if isinstance(fact, Unread):
                return fact
        listed = self.row.record("exports")
        if listed.unread:
            return listed.unread
        clients = listed.text(_nearest(listed, path.value))  # type: ignore[union-attr]
        if isinstance(clients, Unread):
            why = "the server's list has no export that leads there"
            return Unread("denied", why, clients.evidence)
        everybody = bool(_EVERYBODY & set(clients.value.replace(",", " ").split()))
        kerberos = security.value.startswith(_KERBEROS)  # type: ignore[union-attr]
        note = f"{path.value} is exported to {clients.value}"  # type: ignore[union-attr]
        return Read(everybody and not kerberos, clients.evidence, note)


@dataclass(frozen=True)
class ExportsOfNode:
    """The NFS mounts of a node."""

    node: str
    exports: Sequence[Export]


class Exports:
    """``showmount -e`` for each server of a node's NFS mounts."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:  # noqa: ARG002 - the order has them
        """Give the command: Python, which takes the program from its standard input."""
        return errand.ALONE

    def order(self, services: Services) -> Mapping[str, Any]:  # noqa: ARG002 - nothing is declared for it
        """Give nothing: the servers are those whose storage the node has mounted."""
        return {}

    def feed(self, args: Mapping[str, Scalar], order: Mapping[str, Any], nodes: Sequence[str]) -> bytes:  # noqa: ARG002 - alike on all
        """Pack it."""
        return errand.alone("exports", {**order, **args})

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> ExportsOfNode:  # noqa: ARG002 - as all tools
        """Read the lists."""
        return ExportsOfNode(node, [Export(node, row) for row in rows(item, ref)])


def _nearest(listed: Record, path: str) -> str:
    """Name the export that a path is in: its own, or the longest above it."""
    names = listed.values if isinstance(listed.values, dict) else {}
    above = [name for name in names if f"{path.rstrip('/')}/".startswith(f"{name.rstrip('/')}/")]
    return max(above, key=len, default=path)
