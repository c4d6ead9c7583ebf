"""A file system on one node as a workload found it: which it is, how full, and why it gave nothing."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Absence, Fact, Scalar
    from gpuassay.judge.services import Mount

_TB = 1e12
_STATES: Mapping[str, Absence] = {"not_found": "not_found", "unsupported": "not_asked"}


@dataclass(frozen=True)
class Tier:
    """One file system on one node, and the row that the workload printed of it."""

    node: str
    path: str
    role: str
    row: Record
    args: Mapping[str, Scalar]
    models: tuple[str, ...] = field(default=(), repr=False)
    tiny: bool = False  # without accelerators: only shown, and what is only shown may be noisy

    @property
    def where(self) -> str:
        """Its place, e.g. ``gpu003/scratch``."""
        return f"{self.node}{self.path}" if self.path.strip("/") else f"{self.node}/({self.role})"

    @property
    def at(self) -> Mapping[str, str]:
        """The coordinate by which it is compared with its like on other nodes."""
        return {"tier": f"{self.path} ({self.role})" if self.path else self.role}

    @property
    def lack(self) -> Unread | None:
        """Why nothing was measured on it; None if something was."""
        return lack(self.row)

    @property
    def about(self) -> str:
        """Say how large it is and how full: no figure of storage means anything without."""
        size, free, kind = self.row.count("bytes"), self.row.count("bytes_free"), self.row.text("type")
        if isinstance(size, Unread) or isinstance(free, Unread) or not size.value:
            return "of unknown size"
        named = f"{kind.value} of " if isinstance(kind, Read) else ""
        return f"{named}{size.value / _TB:.3g} TB, {1 - free.value / size.value:.0%} full"

    def median(self, record: Record, key: str, noise: float) -> Fact[float]:
        """Give the median of repeats; those that lie too far apart are no figure."""
        told = record.look(key)
        if isinstance(told, Unread):
            return told
        times = figures.times(told.value)
        if times is None:
            return record.garbled(key, told.value, "three positive numbers")
        middle = statistics.median(times)
        apart = (max(times) - min(times)) / middle
        if apart > noise and not self.tiny:
            why = f"inconclusive: its repeats lie {apart:.0%} apart, more than {noise:.0%}"
            return Unread("failed", f"{why}; {self.about}", record.evidence)
        return Read(middle, record.evidence, f"{self.about}; repeats {apart:.0%} apart")


def lack(row: Record) -> Unread | None:
    """Tell why a row has no figures; None if it has."""
    return figures.lack(row, kinds=_STATES)


def declared(node: Node) -> list[dict[str, Any]]:
    """List the mounts of a node as a workload is told them."""
    return [told(mount) for mount in node.declared_mounts]


def told(mount: Mount) -> dict[str, Any]:
    """Give a mount as a workload is told it."""
    return {"path": mount.path, "role": mount.role, "shared": mount.shared}


def for_checkpoints(mounts: Sequence[Mount]) -> list[Mount]:
    """Choose where checkpoints go: not to homes, unless nodes share nothing else."""
    work = [mount for mount in mounts if mount.role != "home"]
    return work if any(mount.shared for mount in work) else list(mounts)
