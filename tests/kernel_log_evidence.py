"""Evidence of a node as the kernel log's reader needs it, made from lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts import kernel_log
from gpuassay.judge.fact import Read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts.kernel_log import KernelLog
    from gpuassay.judge.fact import Fact

HOUR = 3600.0


@dataclass(frozen=True)
class Node:
    """A node that answered with these items."""

    items: Mapping[str, Item]
    problems: Sequence[str] = field(default=())

    def item(self, item_id: str, /) -> Item | None:
        """Give an item by its id."""
        return self.items.get(item_id)

    def ref(self, item: Item, /) -> str:
        """Refer to an item as recordings do."""
        return f"nodes/gpu001#{item.seq}"


def record(message: str, hours: float = 1.0, *, sequence: int = 5, priority: int = 4) -> str:
    """Write one record of /dev/kmsg, written so many hours after the boot."""
    return f"{priority},{sequence},{round(hours * HOUR * 1e6)},-;{message}"


BOOT = record("Linux version 6.8.0-71-generic", 0.0, sequence=0, priority=5)


def kmsg(*lines: str) -> Item:
    """Make the item of a log that came whole."""
    return Item("kmsg", 9, out="\n".join(lines).encode())


def read(*messages: str, hours: float = 1.0, uptime_hours: float = 100.0) -> KernelLog:
    """Read a log that begins at the boot and has these messages of the kernel, all at one time."""
    lines = [record(message, hours, sequence=number) for number, message in enumerate(messages, 1)]
    uptime = Item("uptime", 3, out=f"{uptime_hours * HOUR:.2f} 1.00\n".encode())
    gpus = [{"index": 0, "pci": "0000:18:00.0"}, {"index": 1, "pci": "0000:2A:00.0"}]
    nvml = Item("nvml", 4, out=json.dumps({"count": 2, "devices": gpus}).encode())
    return kernel_log.read(Node({"kmsg": kmsg(BOOT, *lines), "uptime": uptime, "nvml": nvml}))


def counts(log: KernelLog) -> dict[str, int]:
    """Give the counts that are not zero; fails where one is unread."""
    return {name: value for name in _COUNTS if (value := value_of(getattr(log, name)))}


def value_of(fact: Fact[int]) -> int:
    """Give the value of a fact that was read."""
    assert isinstance(fact, Read), fact
    return fact.value


def note(fact: Fact[int]) -> str:
    """Give what a fact says beside its value."""
    assert isinstance(fact, Read), fact
    return fact.note


_COUNTS = (
    "serious_xids",
    "application_xids",
    "unknown_xids",
    "fatal_sxids",
    "nonfatal_sxids",
    "written_by_user",
)
