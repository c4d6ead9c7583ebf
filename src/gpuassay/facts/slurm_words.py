"""What Slurm says of nodes that no job can have, and whether it says anything that helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuassay.facts.slurm_state import Standing
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gpuassay.facts.slurm import Slurm, SlurmNode
    from gpuassay.judge.fact import Fact

_NAMED = 5
_WORD = re.compile(r"[^\W\d_]{2,}")
# Slurm's own words where processes did not die within UnkillableStepTimeout (src/slurmd/slurmstepd).
_UNKILLABLE = re.compile(r"Kill task failed", re.IGNORECASE)
# 126 and 127 are the shell's: what was to be run could not be, or is not there. It says nothing of the node.
_NO_TOOL = re.compile(
    r"returned 12[67]\b|command not found|No such file or directory|could ?n.t (?:be )?(?:run|execute)",
    re.IGNORECASE,
)


class Reasons:
    """The states and reasons of some nodes, those out of service too."""

    def __init__(self, slurm: Slurm, names: Collection[str]) -> None:
        """Take the names of the nodes that are this cluster's."""
        self._slurm = slurm
        self._names = sorted(names, key=natural)

    @property
    def wordless(self) -> Fact[int]:
        """How many nodes are drained, failing or down by somebody's hand, and no words say why."""
        return self._count(lambda node: node.state.standing is Standing.OUT and not _WORD.search(node.reason))

    @property
    def unkillable(self) -> Fact[int]:
        """How many nodes were taken out because processes of a job did not die."""
        return self._count(lambda node: bool(_UNKILLABLE.search(node.reason)))

    @property
    def not_as_configured(self) -> Fact[int]:
        """How many nodes have less than Slurm was told, so that it does not use them: INVALID_REG."""
        return self._count(lambda node: "INVALID_REG" in node.state.words)

    @property
    def tool_missing(self) -> Fact[int]:
        """How many nodes are out because a check could not run, which says nothing of their hardware."""
        return self._count(lambda node: bool(_NO_TOOL.search(node.reason)))

    def _count(self, fits: Callable[[SlurmNode], bool]) -> Fact[int]:
        nodes = self._slurm.nodes
        if isinstance(nodes, Unread):
            return nodes
        known = [node for name in self._names if (node := self._slurm.find(name)) is not None]
        if not known:
            return Unread("not_found", "Slurm lists none of the nodes of this cluster", nodes.evidence)
        found = [node for node in known if fits(node)]
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        note = "; ".join(f"{node.name}: {brief(node.says)}" for node in found[:_NAMED]) + more
        return Read(len(found), nodes.evidence, note)
