"""Evidence of a node made from plain documents, for the tests of facts."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from gpuassay.evidence.item import Item
from gpuassay.facts.node import Node
from gpuassay.judge.fact import Read, Unread
from recorded import health

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.evidence.item import Status
    from gpuassay.judge.fact import Fact

BUSES = (0x1A, 0x2A)
"""The PCI buses of the two GPUs of the small node."""


@dataclass(frozen=True)
class Evidence:
    """What a node answered, by item; ``seq`` counts from 1 in the order given."""

    items: Mapping[str, Item]
    problems: Sequence[str] = field(default=())

    def item(self, item_id: str, /) -> Item | None:
        """Give an item by its id."""
        return self.items.get(item_id)

    def ref(self, item: Item, /) -> str:
        """Refer to an item as recordings do."""
        return f"nodes/n1#{item.seq}"


def evidence(contents: Mapping[str, Any], problems: Iterable[str] = ()) -> Evidence:
    """Make evidence of contents: an Item as it is, text and bytes as output, anything else as JSON."""
    items = {}
    for seq, (item_id, content) in enumerate(contents.items(), 1):
        if isinstance(content, Item):
            items[item_id] = replace(content, id=item_id, seq=seq)
        else:
            items[item_id] = Item(item_id, seq, out=_bytes(content))
    return Evidence(items, tuple(problems))


def _bytes(content: object) -> bytes:
    if isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content)).encode()


def absent(status: str, why: str = "", out: bytes = b"") -> Item:
    """Make an item that did not come."""
    return Item("", 0, status=cast("Status", status), why=why, out=out)


def node(contents: Mapping[str, Any], *, fabric: Iterable[str] = (), problems: Iterable[str] = ()) -> Node:
    """Make a node that answered with these contents."""
    return Node("n1", evidence(contents, problems), fabric)


def function(**changes: str) -> dict[str, Any]:
    """Make what sysfs shows of a healthy B200; a change to an empty text leaves the file out."""
    healthy = {
        "vendor": "0x10de",
        "device": "0x2901",
        "class": "0x030200",
        "revision": "0xa1",
        "current_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "16",
        "max_link_width": "16",
        "power_state": "D0",
        "driver": "nvidia",
        "numa_node": "0",
    }
    return {key: value for key, value in (healthy | changes).items() if value} | {"aer": health.NO_PCI_ERRORS}


def device(index: int, bus: int, **changes: Any) -> dict[str, Any]:
    """Make what NVML says of a healthy B200."""
    return {
        "index": index,
        "name": "NVIDIA B200",
        "uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
        "serial": f"165000000000{index}",
        "pci": f"0000:{bus:02x}:00.0",
        "pci_device_id": "0x290110DE",
        "board_part": "692-2G525-0220-500",
        "vbios": "97.00.FA.00.09",
        "pstate": 0,
        "mig": 0,
        "mig_pending": 0,
        "persistence": True,
        "memory_total_bytes": 183359 << 20,
        "power": {"enforced_mw": 1_000_000, "default_mw": 1_000_000},
        "clocks": {
            "applications": 1965,
            "applications_default": 1965,
            "memory": 3996,
            "memory_default": 3996,
            "max": 1965,
        },
        "ecc": {"current": True, "pending": True},
        "remapped_rows": {
            "uncorrectable": 0,
            "pending": False,
            "failed": False,
            "banks": {"max": 3840, "high": 0, "partial": 0, "low": 0, "none": 0},
        },
        "pcie": {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16},
        "nvlink": nvlink(),
        "fabric": fabric(),
        **health.gpu(power_mw=195_680, degrees=39),
        **changes,
    }


def nvlink(links: int = 18, **changes: Any) -> dict[str, Any]:
    """Make what NVML says of the NVLinks of a healthy Blackwell GPU."""
    counts = ("malformed", "overrun", "receive", "remote", "integrity", "recovered", "recovery_failed")
    older = mark("unsupported", "NVML: Not Supported (3)")
    counters = dict.fromkeys(("replay", "recovery", "crc_flit", "crc_data"), older)
    rates = {name: [4095] * links for name in ("effective_ber", "symbol_ber")}
    return {
        "active": [True] * links,
        "speed_mbps": [53125] * links,
        "counters": {**counters, **{name: [0] * links for name in counts}, **rates},
        **changes,
    }


def fabric(**changes: Any) -> dict[str, Any]:
    """Make what NVML says of the fabric of a healthy GPU on an HGX board."""
    return {
        "state": 3,
        "status": 0,
        "cluster": "00000000-0000-0000-0000-000000000000",
        "clique": 0,
        "health_mask": 0x80,
        "health_summary": 1,
        **changes,
    }


def mark(kind: str, why: str) -> dict[str, str]:
    """Make what stands in a document for a value that could not be read."""
    return {"unread": kind, "why": why}


def small(**changes: Any) -> dict[str, Any]:
    """Make the contents of a healthy node of two GPUs; ``changes`` replace whole items."""
    devices = [device(index, bus) for index, bus in enumerate(BUSES)]
    healthy = {
        "pci": {f"0000:{bus:02x}:00.0": function() for bus in BUSES},
        "nvml": {"driver": "580.95.05", "library": "13.580.95.05", "count": 2, "devices": devices},
        "nvidia-module": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
        "infiniband": {},
        "net": {},
    }
    return copy.deepcopy(healthy) | changes


def value(fact: Fact[Any]) -> Any:
    """Take the value of a fact that must have been read."""
    assert isinstance(fact, Read), fact
    return fact.value


def unread(fact: Fact[Any]) -> Unread:
    """Take the reason of a fact that must not have been read."""
    assert isinstance(fact, Unread), fact
    return fact
