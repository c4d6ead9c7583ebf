"""What a container that was really started has: GPUs, shared memory, locked memory, NCCL's topology file."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuassay.facts.host import binary_size
from gpuassay.facts.record import Record, mapped
from gpuassay.facts.source import parse
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact

_GIB: Final = 1 << 30
# What speaks of the image, or of who may have it, is the site file's matter and says nothing of the cluster.
_IMAGE: Final = re.compile(
    r"\b(?:401|403|404)\b|unauthorized|manifest unknown|pull access denied|invalid image reference"
    r"|invalid reference format|No such file or directory: \S+\.sqsh",
    re.IGNORECASE,
)
_NO_PYTHON: Final = re.compile(r"python3\W+(?:\w+ ){0,4}(?:not found|no such file)", re.IGNORECASE)
_COMPLAINT: Final = re.compile(
    r"\bERROR\b|error|denied|unrecogni[sz]ed|unknown|python3|cannot|could not", re.IGNORECASE
)
_AFTERMATH: Final = re.compile(
    r"task \d+: Exited|failed with error code|couldn't start container|spank: required"
)


class Inside:
    """What our program saw in one container, or why it saw nothing."""

    def __init__(self, told: Record) -> None:
        """Take what it printed."""
        self._told = told

    @property
    def gpus(self) -> Fact[int]:
        """How many device files of GPUs are there and can be opened."""
        return self._told.count("opens")

    @property
    def shm_gib(self) -> Fact[float]:
        """How large /dev/shm is."""
        return mapped(self._told.count("shm_bytes"), lambda size: size / _GIB)

    @property
    def locked_memory(self) -> Fact[str]:
        """How much memory a process may lock: ``unlimited``, or its soft limit such as ``64 KiB``."""
        said = self._told.text("memlock", "unlimited|[0-9]{1,20}")
        return mapped(said, lambda size: size if size == "unlimited" else binary_size(int(size)))

    @property
    def topology(self) -> Record:
        """Which file of topology NCCL would read, and what came of reading it; empty where none is named."""
        return self._told.record("topology")


def reaches(topology: Record, of_node: Record) -> Fact[bool]:
    """Tell whether NCCL reads in a container the file of topology that it reads on the node.

    Where neither names one, NCCL asks the system in both alike.
    """
    for one in (topology, of_node):
        if one.unread:
            return one.unread
    there, inside = of_node.values, topology.values
    if not there and not inside:
        return Read(value=True, evidence=topology.evidence, note="neither node nor container names a file")
    if not inside:
        note = f"the node names {_named(of_node)}, the container none"
        return Read(value=False, evidence=topology.evidence, note=note)
    seen, held, own = readable(topology), of_node.text("sha256"), topology.text("sha256")
    if isinstance(seen, Unread) or not seen.value:
        return seen
    if isinstance(held, Read) and isinstance(own, Read) and held.value != own.value:
        note = f"{_named(topology)} in the container is another file than the node's {_named(of_node)}"
        return Read(value=False, evidence=topology.evidence, note=note)
    return seen


def readable(topology: Record) -> Fact[bool]:
    """Tell whether the file of topology that NCCL is told of can be read, and is one."""
    if topology.unread:
        return topology.unread
    if not topology.values:
        note = "the container names no file: NCCL asks the system"
        return Read(value=True, evidence=topology.evidence, note=note)
    digest, xml, why = topology.text("sha256", "[0-9a-f]{64}"), topology.flag("xml"), topology.text("why")
    if isinstance(digest, Unread):
        note = f"{_named(topology)} in the container: {why.value if isinstance(why, Read) else digest.why}"
        return Read(value=False, evidence=topology.evidence, note=note)
    good = isinstance(xml, Read) and xml.value
    note = _named(topology) if good else f"{_named(topology)} holds no topology of NCCL's"
    return Read(good, topology.evidence, note)


def _named(topology: Record) -> str:
    path, source = topology.text("path"), topology.text("from")
    words = [brief(fact.value) if isinstance(fact, Read) else "?" for fact in (path, source)]
    return f"{words[0]} (from {words[1]})"


def document_of(item: Item, ref: str = "") -> Record:
    """Read what our program printed last: the entry point of an image may print before it."""
    lines = [line for line in item.out.split(b"\n") if line.lstrip().startswith(b"{")]
    told = (
        parse(replace(item, out=lines[-1]), ref)
        if lines
        else Unread("failed", f"{item.id} said nothing", ref)
    )
    return Record(told, ref)


def number(told: Record, key: str) -> Fact[float]:
    """Read a finite number."""
    found = told.look(key)
    if isinstance(found, Unread) or (type(found.value) in (int, float) and math.isfinite(found.value)):
        return found
    return told.garbled(key, found.value, "a number")


def unstarted(starts: Fact[bool]) -> Unread | None:
    """Say why nothing inside can be told: no container was started; None where one was."""
    if isinstance(starts, Unread) or starts.value:
        return starts if isinstance(starts, Unread) else None
    return Unread("failed", f"no container started: {starts.note}", starts.evidence)


def started(item: Item, ref: str, told: Record) -> Fact[bool]:
    """Tell whether a container was started; where the image or a right is at fault it was not tried."""
    if told.unread is None:
        return Read(value=True, evidence=ref)
    if item.status in ("denied", "not_found"):
        return Unread(item.status, brief(item.why), ref)
    if item.status == "timed_out":
        return Read(value=False, evidence=ref, note=f"it hung: {brief(item.why)}")
    said = complaint(item) or item.why or told.unread.why
    if _NO_PYTHON.search(said):
        return Unread("failed", f"the image has no python3, with which it is looked at: {brief(said)}", ref)
    if _IMAGE.search(said):
        return Unread(
            "failed", f"the image could not be had; is it right, and may it be pulled? {brief(said)}", ref
        )
    return Read(value=False, evidence=ref, note=brief(said))


def complaint(item: Item) -> str:
    """Find the line in which a runtime says what went wrong: the first that is no mere consequence."""
    lines = [line.strip() for line in item.err.splitlines() if _COMPLAINT.search(line)]
    causes = [line for line in lines if "[ERROR]" in line or not _AFTERMATH.search(line)]
    exact = [line for line in causes if "[ERROR]" in line]
    return next(iter([*exact, *causes, *lines]), "")
