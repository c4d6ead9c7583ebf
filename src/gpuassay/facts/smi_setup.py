"""What ``nvidia-smi -q -x`` says of how a GPU is made and set, written as NVML's answers are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gpuassay.facts.smi_words import odd, said, truth, word

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_MIB = 1 << 20


def told(gpu: Element) -> dict[str, Any]:
    """Write what one GPU's part of the log says of memory, identity, modes, power and clocks."""
    return {
        "board_part": word(said(gpu, "board_part_number")),
        "vbios": word(said(gpu, "vbios_version")),
        "persistence": truth(said(gpu, "persistence_mode")),
        "mig_pending": _switch(said(gpu, "mig_mode/pending_mig")),
        "memory_total_bytes": _scaled(said(gpu, "fb_memory_usage/total"), "MiB", _MIB),
        "power": _power(gpu),
        "clocks": _clocks(gpu),
    }


def _power(gpu: Element) -> dict[str, Any]:
    """Read the limits; drivers before R525 have them under another name."""
    now, enforced = "gpu_power_readings", "current_power_limit"
    if gpu.find(now) is None and gpu.find("power_readings") is not None:
        now, enforced = "power_readings", "enforced_power_limit"
    return {
        "enforced_mw": _scaled(said(gpu, f"{now}/{enforced}"), "W", 1000),
        "default_mw": _scaled(said(gpu, f"{now}/default_power_limit"), "W", 1000),
    }


def _clocks(gpu: Element) -> dict[str, Any]:
    paths = {
        "applications": "applications_clocks/graphics_clock",
        "applications_default": "default_applications_clocks/graphics_clock",
        "memory": "applications_clocks/mem_clock",
        "memory_default": "default_applications_clocks/mem_clock",
        "max": "max_clocks/sm_clock",
    }
    return {key: _scaled(said(gpu, path), "MHz", 1) for key, path in paths.items()}


def _switch(text: str | None) -> Any:
    on = truth(text)
    return int(on) if isinstance(on, bool) else on


def _scaled(text: str | None, unit: str, scale: int) -> Any:
    """Read ``1000.00 W`` as a whole number of the smaller unit."""
    found = word(text)
    if not isinstance(found, str):
        return found
    match = re.fullmatch(rf"(\d{{1,9}}(?:\.\d{{1,3}})?) {unit}", found, re.ASCII)
    return round(float(match[1]) * scale) if match else odd(found)
