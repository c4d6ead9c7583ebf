"""ssh from node to node without a password, tried as launchers do it."""

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

_UNKNOWN_NAME = "Could not resolve hostname"
_ALIAS = "a name of your own ~/.ssh/config means nothing there: name the nodes as they call each other"


@dataclass(frozen=True)
class Way:
    """The way from one node to another."""

    node: str
    row: Record
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: where it begins and leads."""
        to = self.row.text("to")
        return f"{self.node}/to {to.value}" if isinstance(to, Read) else self.node

    @property
    def open(self) -> Fact[bool]:
        """Whether a command ran at its end, and nobody was asked for a password."""
        absent, late = self.row.text("absent"), self.row.flag("late")
        if isinstance(absent, Read):
            return Unread("not_found", absent.value, absent.evidence)
        if isinstance(late, Read):
            return Read(value=False, evidence=late.evidence, note="ssh did not end in time")
        code = self.row.count("exit")
        if isinstance(code, Unread):
            return code
        words = self.row.text("said")
        said = words.value if isinstance(words, Read) else f"ssh ended with {code.value}"
        if code.value and _UNKNOWN_NAME in said:
            return Unread("failed", f"{said} ({_ALIAS})", code.evidence)
        return Read(not code.value, code.evidence, said if code.value else "")


@dataclass(frozen=True)
class WaysOfNode:
    """The ways that begin on a node."""

    node: str
    ways: Sequence[Way]


class SshWays:
    """``ssh NODE true`` from each node to the next in a ring, to the one after it, and across."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:  # noqa: ARG002 - the order has them
        """Give the command: Python, which takes the program from its standard input."""
        return errand.ALONE

    def order(self, services: Services) -> Mapping[str, Any]:  # noqa: ARG002 - nothing is declared for it
        """Give nothing: the nodes are those that run it."""
        return {}

    def feed(self, args: Mapping[str, Scalar], order: Mapping[str, Any], nodes: Sequence[str]) -> bytes:
        """Pack it with the nodes, in the order of their places."""
        return errand.alone("ways", {**order, **args, "nodes": list(nodes)})

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> WaysOfNode:  # noqa: ARG002 - as all tools
        """Read the ways."""
        return WaysOfNode(node, [Way(node, row) for row in rows(item, ref)])
