"""``--target=local``: this machine, asked by the probe that also goes to other nodes, as a child process."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpuassay.evidence.item import Item
from gpuassay.evidence.meta import is_node_name
from gpuassay.probe import nccl, travel
from gpuassay.probe.commands import environment, run
from gpuassay.probe.items import MIB, Question
from gpuassay.target import DEADLINE_S
from gpuassay.target.answers import ask_nodes
from gpuassay.target.channel import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.target import Progress, Writer

_MEASURED_BYTES = 16 * MIB


@dataclass(frozen=True, slots=True)
class Local:
    """A fleet of one. ``python`` runs the probe; ``deadline_s`` bounds all of it, in seconds."""

    name: ClassVar[str] = "local"
    python: str = sys.executable
    deadline_s: float = DEADLINE_S

    def declared(self) -> tuple[str, ...]:
        """Name this machine, without its domain."""
        name = socket.gethostname().partition(".")[0]
        return (name if is_node_name(name) else "localhost",)

    def gather(self, writer: Writer, progress: Progress) -> None:
        """Ask this machine. What the probe could not ask is written down too, with the reason."""
        passed_on = {**environment(os.environ), **nccl.settings(os.environ)}
        probe = Command(self.declared()[0], tuple(travel.argv(self.python)), passed_on)
        ask_nodes([probe], writer, progress, self.deadline_s)

    def run(self, node: str, argv: Sequence[str], deadline_s: float) -> Item:
        """Run a command here and give what it printed, also of one that failed or ran past its deadline."""
        question = Question(node, "command", tuple(argv), "", deadline_s=deadline_s, cap=_MEASURED_BYTES)
        answer = run(question)._asdict()
        return Item(id=node, seq=1, **answer)
