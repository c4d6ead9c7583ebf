"""How many bytes the network cards of this node have sent, by the counters of their ports."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_DEVICES = Path("/sys/class/infiniband")
# Counters and their unit: four bytes (InfiniBand specification, PortCounters), or one on Amazon's EFA.
_COUNTERS = {"counters/port_xmit_data": 4, "hw_counters/tx_bytes": 1}


def sent(devices: Path = _DEVICES) -> dict[str, int]:
    """Read the counter of each RDMA port; those that cannot be read are not there."""
    found: dict[str, int] = {}
    for port in sorted(devices.glob("*/ports/*")):
        for counter, unit in _COUNTERS.items():
            with suppress(OSError, ValueError):
                count = int((port / counter).read_text(encoding="ascii")) * unit
                found.setdefault(f"{port.parents[1].name}/{port.name}", count)
    return found


def since(before: dict[str, int]) -> dict[str, int]:
    """Give what each port has sent since; a counter that went back was reset, and tells nothing."""
    now = sent()
    return {name: now[name] - was for name, was in before.items() if now.get(name, -1) >= was}
