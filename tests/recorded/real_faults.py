"""What is kept of faults that were real, on clusters whose provider sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.fault.rank import NAME
from recorded import faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.evidence.item import Item

_BOUNDS = {"watch_s": 600, "mend_s": 240, "replace_s": 3600}
_MANAGER = {"service": "nv-fabricmanager", "unit": "nvidia-fabricmanager", "how": "freeze"}
_TAKEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "real_xid_79": ("bridge_reset", {"gpu": 0}, "the kernel wrote Xid 79"),
    "downed_port": ("link_down", {"nic": ""}, "rail0 is down"),
    "frozen_fabric_manager": ("service", _MANAGER, "nv-fabricmanager (1201) is stopped"),
    "full_scratch": ("disk_full", {"path": ""}, "/scratch is 95% full"),
    "hung_storage": ("mount_hang", {"path": "", "hold_s": 900}, "/home did not answer for 5 s"),
}


def on_slurm(node: str) -> Iterator[Item]:
    """Yield the trials on a node that is drained for each, but for a GPU that was reset and came back."""
    for name, (fault, args, proof) in _TAKEN.items():
        yield from faults.slurm_trial(name, fault, {**args, **_BOUNDS}, node, proof)
    reset = {"gpu": 0, **_BOUNDS}
    yield from faults.spared_trial("reset_gpu", "gpu_reset", reset, node, "GPU was successfully reset.")
    for name, how, proof in (("killed_rank", "kill", "gone"), ("frozen_rank", "stop", "stopped")):
        rank = {"process": NAME, "how": how, **_BOUNDS}
        yield from faults.spared_trial(name, "rank_signal", rank, node, f"{NAME} (4711) is {proof}")


def on_amd(node: str) -> list[Item]:
    """Return the trial on a node with GPUs of AMD."""
    args = {"block": "gfx", "card": 0, **_BOUNDS}
    proof = "card 0 counts 1 uncorrectable errors of gfx"
    return faults.slurm_trial("amd_uncorrected", "amd_ras", args, node, proof)
