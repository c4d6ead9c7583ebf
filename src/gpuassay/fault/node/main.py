"""One act on a node: takes its order, and prints one JSON document."""

from __future__ import annotations

import base64
import os
import socket
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import deadman
from gpuassay.fault.node.amd_ras import AmdRas
from gpuassay.fault.node.bridge_reset import BridgeReset
from gpuassay.fault.node.dcgm import Dcgm
from gpuassay.fault.node.disk_full import DiskFull
from gpuassay.fault.node.gpu_reset import GpuReset
from gpuassay.fault.node.kernel_log import KernelLog
from gpuassay.fault.node.link_down import LinkDown
from gpuassay.fault.node.machine import machine
from gpuassay.fault.node.mount_hang import MountHang
from gpuassay.fault.node.rank_signal import RankSignal
from gpuassay.fault.node.service import Service
from gpuassay.fault.node.vital import refuse_vital
from gpuassay.fault.node.words import Fault, NotRestored, Refused, answer, boot_id

if TYPE_CHECKING:
    from collections.abc import Mapping

FAULTS: Mapping[str, type[Fault]] = {
    "amd_ras": AmdRas,
    "bridge_reset": BridgeReset,
    "dcgm": Dcgm,
    "disk_full": DiskFull,
    "gpu_reset": GpuReset,
    "kernel_log": KernelLog,
    "link_down": LinkDown,
    "mount_hang": MountHang,
    "rank_signal": RankSignal,
    "service": Service,
}
"""Every fault by the name that ``[measure.X] fault`` gives."""


def main(order: dict[str, Any]) -> int:
    """Do what ``order["verb"]`` says. What goes wrong is said in the document, so the status is 0."""
    return answer(order["verb"], lambda: _VERBS[order["verb"]](order, FAULTS[order["fault"]](order["args"])))


def _plan(_order: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    standing = deadman.others()
    if standing:
        raise Refused(f"a fault of ours is here already, or was not cleared away: {', '.join(standing)}")
    refuse_vital()
    plan = fault.plan()
    return {
        **plan._asdict(),
        "host": socket.gethostname(),
        "boot": boot_id(),
        "user": os.geteuid(),
        "machine": machine(),
    }


def _arm(order: Mapping[str, Any], _fault: Fault) -> dict[str, Any]:
    return {"by": deadman.arm(order["mark"], order["hold_s"], base64.b64decode(order["undo"]))}


def _inject(order: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    by = deadman.alive(order["mark"])
    fault.inject(order["state"])
    return {"by": by, "proof": fault.verify_injected(order["state"])}


def _fire(order: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    """Undo at the dead-man's time, unless somebody has already, or has told it to stand down."""
    with deadman.alone(order["mark"]):
        if not deadman.is_armed(order["mark"]):
            return {"stood_down": True}
        fault.undo(order["state"])
        proof = fault.verify_undone(order["state"])
        deadman.claim(order["mark"])
    return {"proof": proof, "fired": True}


def _undo(order: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    """Undo, also where the dead-man has: it does no harm twice. Only then does he stand down."""
    with deadman.alone(order["mark"]):
        fault.undo(order["state"])
        proof = fault.verify_undone(order["state"])
        ours = deadman.claim(order["mark"])
        deadman.clear(order["mark"])
    return {"proof": proof, "fired": not ours}


def _stand_down(order: Mapping[str, Any], _fault: Fault) -> dict[str, Any]:
    """Leave it as it is: the provider has taken the node."""
    with deadman.alone(order["mark"]):
        ours = deadman.claim(order["mark"])
        deadman.clear(order["mark"])
    return {"stood_down": ours}


def _look(order: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    """Look whether a node that serves now is well; one that has booted since needs no undo any more."""
    now, before = machine(), order["before"]
    if now["boot"] == before["boot"]:
        return {"machine": now, "proof": fault.verify_undone(order["state"])}
    if len(now["gpus"]) < len(before["gpus"]):
        raise NotRestored(f"{len(now['gpus'])} GPUs are on its bus, expected {len(before['gpus'])}")
    return {"machine": now, "proof": f"booted since, with {len(now['gpus'])} GPUs on its bus"}


_VERBS = {
    "plan": _plan,
    "arm": _arm,
    "inject": _inject,
    "fire": _fire,
    "undo": _undo,
    "stand_down": _stand_down,
    "look": _look,
}
