"""What is kept of faults that were told of in the kernel log and through DCGM, where tooling reads there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorded import faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.evidence.item import Item

_BOUNDS = {"watch_s": 600, "mend_s": 240, "replace_s": 3600}
_TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "line_xid_79": ("kernel_log", {"xids": "79"}),
    "line_xid_48_95": ("kernel_log", {"xids": "48 95"}),
    "line_sxid_fatal": ("kernel_log", {"sxids": "20034"}),
    "dcgm_xid_79": ("dcgm", {"field": 230, "value": 79}),
    "dcgm_double_bit": ("dcgm", {"field": 319, "value": 1}),
}
_SPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "line_xid_13_31_43": ("kernel_log", {"xids": "13 31 43"}),
    "line_sxid_nonfatal": ("kernel_log", {"sxids": "11012"}),
}


def on_slurm(node: str) -> Iterator[Item]:
    """Yield the trials on a node that is drained for a serious fault, and for no other."""
    for name, (fault, args) in _TAKEN.items():
        yield from faults.slurm_trial(name, fault, {**args, **_BOUNDS}, node, "it was read back")
    for name, (fault, args) in _SPARED.items():
        yield from faults.spared_trial(name, fault, {**args, **_BOUNDS}, node, "it was read back")
