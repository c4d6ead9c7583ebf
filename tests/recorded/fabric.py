"""The fabric of a recorded node beside what its sysfs lists: errors, PFC, GPUDirect, NCCL's settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recorded.items import NO_FILE, absent, command, library, tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.evidence.item import Item

LLDP = ("lldpcli", "-f", "json0", "show", "neighbors", "details")
COUNTERS = (
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
)
HW_COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "implied_nak_seq_err",
    "duplicate_request",
    "rx_icrc_encapsulated",
)


def counts(**some: int) -> dict[str, Any]:
    """Return the counters of a healthy port: a few that real healthy ports have, and none that matters."""
    values = (
        dict.fromkeys(COUNTERS, 0) | {"port_rcv_errors": 14, "excessive_buffer_overrun_errors": 15} | some
    )
    return {
        "counters": {name: str(value) for name, value in values.items()},
        "hw_counters": dict.fromkeys(HW_COUNTERS, "0"),
    }


def pkeys(*keys: str) -> dict[str, dict[str, str]]:
    """Return a table of partitions."""
    return {"pkeys": {str(slot): key for slot, key in enumerate(keys)}}


def lldp(leaves: Mapping[str, tuple[str, str]], frame: int = 9216) -> Item:
    """Return what lldpd says (``json0``) of switch and port by interface; without any it is not there."""
    if not leaves:
        return absent("lldp", {"command": list(LLDP)}, f"lldpcli: {NO_FILE}")
    interfaces = [
        {
            "name": netdev,
            "via": "LLDP",
            "chassis": [{"id": [{"type": "mac", "value": ""}], "name": [{"value": switch}]}],
            "port": [{"id": [{"type": "ifname", "value": port}], "mfs": [{"value": str(frame)}]}],
        }
        for netdev, (switch, port) in leaves.items()
    ]
    return command("lldp", LLDP, json.dumps({"lldp": [{"interface": interfaces}]}, indent=1) + "\n")


def items(
    lossless: Mapping[str, list[int]] | None = None,
    settings: Mapping[str, str] | None = None,
    modules: Iterable[str] = (),
    leaves: Mapping[str, tuple[str, str]] | None = None,
) -> list[Item]:
    """Return the items of a node's fabric: PFC and switches by interface, /etc/nccl.conf, loaded modules."""
    pairs = [[name, value] for name, value in (settings or {}).items()]
    nccl = {
        "environment": {},
        "files": [{"path": "/etc/nccl.conf", "settings": pairs}] if pairs else [],
        "plugins": [],
    }
    return [
        library(
            "dcb", "netlink", {name: {"pfc": priorities} for name, priorities in (lossless or {}).items()}
        ),
        lldp(leaves or {}),
        tree("gpudirect", "/sys/module", {name: {"version": "2.5"} for name in modules}),
        library("nccl", "nccl", nccl),
    ]
