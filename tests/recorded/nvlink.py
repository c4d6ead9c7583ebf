"""NVLink and its fabric as NVML tells them of a healthy GPU, and IMEX as its tool prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorded.items import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.evidence.item import Item

LINKS = 18
SPEED = 53125  # MB/s, NVLink 5
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
RESTING = 0xFFF  # what an error rate of NVLink 5 is as long as no error was counted: 15e-255
COUNTS = ("malformed", "overrun", "receive", "remote", "integrity", "recovered", "recovery_failed")
NVLINK_4 = ("replay", "recovery", "crc_flit", "crc_data")
HEALTHY = 0xAA  # bandwidth, routes and access: "false" to each trouble


def links() -> dict[str, Any]:
    """Return the NVLinks of a Blackwell GPU: all up, and nothing counted."""
    unsupported = {"unread": "unsupported", "why": "NVML: Not Supported (3)", "code": 3}
    return {
        "active": [True] * LINKS,
        "speed_mbps": [SPEED] * LINKS,
        "counters": dict.fromkeys(NVLINK_4, unsupported)
        | {name: [0] * LINKS for name in COUNTS}
        | {name: [RESTING] * LINKS for name in ("effective_ber", "symbol_ber")},
    }


def older_links() -> dict[str, Any]:
    """Return the NVLinks of a Hopper GPU, which counts other things."""
    unsupported = {"unread": "unsupported", "why": "NVML: Invalid Argument (2)", "code": 2}
    younger = (*COUNTS, "effective_ber", "symbol_ber")
    return {
        "active": [True] * LINKS,
        "speed_mbps": [26562] * LINKS,
        "counters": {name: [0] * LINKS for name in NVLINK_4} | dict.fromkeys(younger, unsupported),
    }


def fabric(cluster: str = NO_CLUSTER, clique: int = 0) -> dict[str, Any]:
    """Return the place of a GPU in its fabric: on a board of its own, or in the domain of a rack."""
    # A board answers about access time-outs only, a rack about everything.
    mask = 0x80 if cluster == NO_CLUSTER else HEALTHY | 1 << 8
    return {
        "state": 3,
        "status": 0,
        "cluster": cluster,
        "clique": clique,
        "health_mask": mask,
        "health_summary": 1,
    }


LEGEND = """\
Connectivity Table Legend:
C - Connected - Ready for operation
"""


def imex(nodes: Sequence[str], version: str, network: int) -> Item:
    """Return what the tool prints on each of these nodes while all is well."""
    listed = [
        f"Node #{n:<3} - 10.64.{network}.{n + 1:<8} - READY                - Version: {version:<15}"
        f" - Hostname: {name}"
        for n, name in enumerate(nodes)
    ]
    head = "".join(f"{n:<4}" for n in range(len(nodes)))
    rows = [f"{n:>8}        {'C   ' * len(nodes)}".rstrip() for n in range(len(nodes))]
    table = ["", f" Nodes From\\To  {head}".rstrip(), *rows, "Domain State: UP", ""]
    lines = [LEGEND, "11/30/2026 07:59:58.101", "Nodes:", *listed, *table]
    return command("imex", ["nvidia-imex-ctl", "-N"], "\n".join(lines))
