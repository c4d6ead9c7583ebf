"""``--target=local``: this machine, asked by the probe that also goes to other nodes, as a child process."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpuassay.evidence.meta import is_node_name
from gpuassay.probe import nccl, travel
from gpuassay.probe.commands import environment
from gpuassay.probe.launch import devices
from gpuassay.target import DEADLINE_S, Bound
from gpuassay.target.answers import ask_nodes, planned
from gpuassay.target.channel import Command
from gpuassay.target.jobs import run_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuassay.target import Job, Progress, Results, Runs, Writer
    from gpuassay.watch import Eye


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
        ask_nodes([self._python], writer, progress, self.deadline_s)

    def run(self, job: Job, progress: Progress) -> Results:
        """Run a job here, through a launcher as anywhere else."""
        return run_job([self._python], job, progress, "127.0.0.1")

    def bound(self, _nodes: Sequence[str]) -> Bound:
        """Give none: on this machine nobody bounds a job."""
        return Bound()

    @contextmanager
    def hold(self, _node: str, _seconds: float) -> Iterator[Runs]:
        """Hold nothing: nobody gives out nodes here."""
        yield self.run

    def eyes(self, _node: str) -> Sequence[Eye]:
        """Give none: there is no scheduler that could take a node out of service."""
        return ()

    def plan(self) -> list[str]:
        """Say what would run where, as whom and for how long."""
        return [
            f"{self.declared()[0]}, this machine: the probe in a child process, {planned(self.deadline_s)}"
        ]

    def clean(self) -> list[str]:
        """Give what was removed: nothing, for a child process leaves nothing."""
        return []

    def end(self, _name: str) -> list[str]:
        """Give what was removed: nothing, as above."""
        return []

    @property
    def _python(self) -> Command:
        passed_on = {**environment(os.environ), **nccl.settings(os.environ), **devices(os.environ)}
        return Command(self.declared()[0], tuple(travel.argv(self.python)), passed_on)
