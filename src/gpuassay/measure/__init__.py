"""Measurements: what is run on a cluster with the user's consent, and then read like any evidence.

To a check, a workload of ours and a well-known tool are the same: ``measure("dcgm_diag")`` gives one
subject for each node, with facts. A tool is a module with the ``Tool`` of that name in ``TOOLS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gpuassay.measure.dcgm_diag import DcgmDiag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Scalar, Unread


class Tool(Protocol):
    """One tool: how it is started, and how its answer is read."""

    @property
    def method(self) -> int:
        """Raised whenever measuring changes: older measurements are not read as this one."""

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command, for the arguments of its ``[measure.X]`` table."""

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> Any:
        """Read what came back from a node, or why nothing did, into a subject; ``ref`` refers to it."""


TOOLS: Mapping[str, Tool] = {"dcgm_diag": DcgmDiag()}
