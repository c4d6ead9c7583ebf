"""What ``nvidia-smi -q -x`` says of a GPU's NVLink fabric, written as NVML's answers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts import nvlink_fabric
from gpuassay.facts.smi_words import TOOL, number, said, word
from gpuassay.facts.text import brief, no_value

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_STATES: Final = {"not started": 1, "in progress": 2, "completed": 3}
_HEALTH: Final = {
    "bandwidth": nvlink_fabric.DEGRADED,
    "route_recovery_in_progress": nvlink_fabric.RECOVERING,
    "route_unhealthy": nvlink_fabric.UNHEALTHY,
    "access_timeout_recovery": nvlink_fabric.TIMED_OUT,
    "partition_assigned": nvlink_fabric.PARTITION,
}
_BITS: Final = {"Degraded": 1, "True": 1, "Full": 2, "False": 2}
_SUMMARIES: Final = {"Healthy": 1, "Unhealthy": 2, "Limited Capacity": 3}


def told(gpu: Element) -> dict[str, Any]:
    """Give numbers where NVML has numbers, else the tool's words."""
    state = word(said(gpu, "fabric/state"))
    if isinstance(state, dict):
        return state
    odd = {"unread": "garbled", "why": f"{TOOL} says '{brief(state)}'"}
    parts = {shift: said(gpu, f"fabric/health/{tag}") for tag, shift in _HEALTH.items()}
    fabric = {
        "state": _STATES.get(state.casefold(), odd),
        "status": word(said(gpu, "fabric/status")),
        "cluster": word(said(gpu, "fabric/clusterUuid")),
        "clique": number(said(gpu, "fabric/cliqueId")),
        "health_mask": sum(_BITS.get(part or "", 0) << shift for shift, part in parts.items()),
        "health_summary": _SUMMARIES.get(said(gpu, "fabric/health/summary") or "", 0),
    }
    configuration = said(gpu, "fabric/health/incorrect_configuration")
    if configuration and configuration != "None" and not no_value(configuration):
        fabric["configuration"] = configuration
    return fabric
