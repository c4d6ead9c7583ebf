"""What came of containers on the nodes of a Slurm: one that pyxis started, an image that Enroot imported."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuassay.facts.containers import Inside, document_of, number, reaches, started, unstarted
from gpuassay.facts.record import Record
from gpuassay.facts.source import text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

CONTAINER, START, NODE = "container", "start", "node"
"""What is recorded of each node: a job in a container, when it got its place, and a job beside it."""

_TIME: Final = re.compile(r"[0-9]{9,11}(?:\.[0-9]{1,9})?", re.ASCII)


class SlurmContainer:
    """A container of one node, and an image that was imported there."""

    models: tuple[str, ...] = ()

    def __init__(self, node: str, evidence: Evidence) -> None:
        """Take the answers of the survey that are about this node."""
        self.where = self.node = node
        self._evidence = evidence

    @cached_property
    def starts(self) -> Fact[bool]:
        """Whether pyxis started a container of the image."""
        item = self._evidence.item(f"{CONTAINER}/{self.node}")
        if item is None:
            return Unread("not_asked", "no container was tried on this node")
        return started(item, self._evidence.ref(item), self._told(CONTAINER))

    @property
    def granted(self) -> Fact[int]:
        """How many GPUs the job was given."""
        item = self._evidence.item(f"{CONTAINER}/{self.node}")
        gpus = item.asked.get("gpus") if item else None
        if type(gpus) is not int:
            return Unread("garbled", "it was not written down how many GPUs the job was given")
        return Read(gpus, self._evidence.ref(item) if item else "")

    @property
    def gpus(self) -> Fact[int]:
        """How many GPUs can be opened in the container."""
        return self._inside.gpus

    @property
    def ready_s(self) -> Fact[float]:
        """How long it took from the place that Slurm found to the look at GPUs; two clocks."""
        at, place = self._at, text(self._evidence, f"{START}/{self.node}")
        if isinstance(at, Unread):
            return at
        if isinstance(place, Unread):
            return self._none or place
        if not _TIME.fullmatch(place.value.strip()):
            return Unread(
                "garbled", f"{brief(place.value) or 'nothing'} is no time in seconds", place.evidence
            )
        seconds = at.value - float(place.value)
        if seconds < -1:  # one of the clocks has whole seconds
            return Unread("failed", "its clock is behind that of Slurm's controller", place.evidence)
        return Read(max(0.0, seconds), at.evidence, "prolog, import and start; the image may have been there")

    @property
    def shm_gib(self) -> Fact[float]:
        """How large /dev/shm is in the container."""
        return self._inside.shm_gib

    @property
    def locked_memory(self) -> Fact[str]:
        """How much memory may be locked there."""
        return self._inside.locked_memory

    @property
    def topology_reaches(self) -> Fact[bool]:
        """Whether the container reads the file of topology that the node names."""
        topology = self._inside.topology
        return topology.unread or reaches(topology, Inside(self._told(NODE).record("node")).topology)

    @property
    def imports(self) -> Fact[bool]:
        """Whether Enroot imported the image on this node."""
        told = self._import
        if told.unread:
            return told.unread
        if isinstance(told.text("missing"), Read):
            return Read(value=False, evidence=told.evidence, note="there is no enroot")
        if isinstance(late := told.look("late"), Read):
            return Read(value=False, evidence=told.evidence, note=f"it was not done within {late.value} s")
        said, code = told.look("said"), told.count("exit", 255)
        why = brief(str(said.value)) if isinstance(said, Read) else ""
        if isinstance(code, Unread):
            return Read(value=False, evidence=told.evidence, note=why) if why else code
        size = told.count("bytes")
        done = code.value == 0 and isinstance(size, Read) and size.value > 0
        return Read(done, told.evidence, why or f"enroot ended with {code.value}")

    @property
    def import_s(self) -> Fact[float]:
        """How long the import took; the layers were all fetched."""
        done = self.imports
        if isinstance(done, Read) and not done.value:
            return Unread("failed", f"nothing was imported: {done.note}", done.evidence)
        return done if isinstance(done, Unread) else number(self._import, "seconds")

    @property
    def left_behind(self) -> Fact[bool]:
        """Whether what the import wrote is still there."""
        return self._import.flag("left")

    @property
    def _at(self) -> Fact[float]:
        return self._none or number(self._told(CONTAINER), "at")

    @property
    def _none(self) -> Unread | None:
        """Why there was no container."""
        return unstarted(self.starts)

    @property
    def _inside(self) -> Inside:
        return Inside(Record(self._none, self._none.evidence) if self._none else self._told(CONTAINER))

    @property
    def _import(self) -> Record:
        told = self._told(NODE)
        if told.unread is None and "import" not in told.values:  # type: ignore[operator]
            why = "the image is a file: there is nothing to import"
            return Record(Unread("denied", why, told.evidence), told.evidence)
        return told.record("import")

    def _told(self, what: str) -> Record:
        item = self._evidence.item(f"{what}/{self.node}")
        if item is None:
            return Record(
                self.starts if isinstance(self.starts, Unread) else Unread("not_asked", "it was not tried")
            )
        ref = self._evidence.ref(item)
        told = document_of(item, ref)
        if told.unread and item.status != "ok":
            return Record(Unread(item.status, brief(item.why), ref), ref)
        return told
