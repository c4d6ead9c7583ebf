"""What ``nvidia-smi -q -x`` says of a GPU's health, written as NVML's answers are; its names changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts.smi_words import TOOL, number, said, truth, word
from gpuassay.facts.text import pci_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from xml.etree.ElementTree import Element

_MIB = 1 << 20

# Printed before or after the log; the exit status is 14 then, and all the rest of what is printed holds.
_WARNING = re.compile(
    rb"^WARNING: infoROM is corrupted at gpu ([0-9A-Fa-f:.]+)[ \t\r]*(?:\n|\Z)", re.MULTILINE
)
_INFOROM_CORRUPTED = 14

# By nvmlDeviceGpuRecoveryAction_t. A name that is not here is kept as it is: it surely asks for something.
_ACTIONS: Final = {
    "none": 0,
    "reset": 1,
    "gpu reset": 1,
    "reboot": 2,
    "node reboot": 2,
    "drain p2p": 3,
    "drain and reset": 4,
}
_REASONS: Final = {
    "gpu_idle": 0x01,
    "applications_clocks_setting": 0x02,
    "sw_power_cap": 0x04,
    "hw_slowdown": 0x08,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
_DEGREES = r"(-?\d{1,3}) C"


def told(gpu: Element) -> dict[str, Any]:
    """Write what one GPU's part of the log says of its health."""
    return {
        "mig": _mig(gpu),
        "ecc_errors": {
            "volatile_uncorrected": _errors(gpu, "volatile", "uncorrectable"),
            "volatile_corrected": _errors(gpu, "volatile", "correctable"),
            "aggregate_uncorrected": _errors(gpu, "aggregate", "uncorrectable"),
            "sram_threshold_exceeded": truth(said(gpu, "ecc_errors/aggregate/sram_threshold_exceeded")),
        },
        "repairs_pending": {
            "channel": truth(said(gpu, "ecc_errors/channel_repair_pending")),
            "tpc": truth(said(gpu, "ecc_errors/tpc_repair_pending")),
        },
        "unrepairable_memory": truth(said(gpu, "ecc_errors/unrepairable_memory")),
        "retired_pages_pending": _either(
            gpu, "retired_pages/pending_retirement", "retired_pages/pending_blacklist"
        ),
        "fields": _fields(gpu),
        "clock_event_reasons": _reasons(gpu),
        "temperature": _temperature(gpu),
        "usage": _usage(gpu),
        "addressing": word(said(gpu, "addressing_mode")),
    }


def without_warnings(printed: bytes) -> tuple[bytes, frozenset[str]]:
    """Take the warnings out of what was printed, and give the addresses of the GPUs that they name."""
    named = (pci_address(match[1].decode()) for match in _WARNING.finditer(printed))
    return _WARNING.sub(b"", printed).strip(), frozenset(address for address in named if address)


def tell_inforom(
    devices: Iterable[dict[str, Any]], corrupted: frozenset[str], status: str, exit_status: int | None
) -> None:
    """Note whether each InfoROM is valid: nvidia-smi checks them all, and warns of those that are not."""
    silent = status == "ok" or (exit_status == _INFOROM_CORRUPTED and corrupted)
    for device in devices:
        address = device.get("pci")
        if isinstance(address, str) and pci_address(address) in corrupted:
            device["inforom_valid"] = False
        elif silent:
            device["inforom_valid"] = True
        else:
            device["inforom_valid"] = {"unread": "failed", "why": f"{TOOL} ended with status {exit_status}"}


def _either(gpu: Element, *paths: str) -> Any:
    """Read a flag that was renamed."""
    here = next((path for path in paths if gpu.find(path) is not None), paths[0])
    return truth(said(gpu, here))


def _mig(gpu: Element) -> Any:
    mode = truth(said(gpu, "mig_mode/current_mig"))
    return int(mode) if isinstance(mode, bool) else mode


def _errors(gpu: Element, since: str, kind: str) -> Any:
    """Add up the errors of all kinds of memory. That there are none is known only if each kind says so."""
    part = gpu.find(f"ecc_errors/{since}")
    if part is None:
        return number(said(gpu, f"ecc_errors/{since}"))
    counts = [number(said(part, count.tag)) for count in part if _is_kind(count.tag, kind)]
    total = sum(count for count in counts if isinstance(count, int))
    unread = next((count for count in counts if isinstance(count, dict)), None)
    if total or (counts and unread is None):
        return total
    return unread or word(None)


def _is_kind(tag: str, kind: str) -> bool:
    """Tell whether ``sram_uncorrectable_parity``, ``dram_correctable`` … count errors of a kind."""
    return re.fullmatch(rf"(?:sram|dram)_{kind}(?:_\w+)?", tag) is not None


def _fields(gpu: Element) -> dict[str, Any]:
    action = word(said(gpu, "gpu_recovery_action"))
    return {
        "memory_c": number(said(gpu, "temperature/memory_temp"), _DEGREES),
        "pcie_replays": number(said(gpu, "pci/replay_counter")),
        "slowdown_tlimit_c": number(said(gpu, "temperature/gpu_temp_slow_tlimit_threshold"), _DEGREES),
        "reset_required": truth(said(gpu, "gpu_reset_status/reset_required")),
        "drain_and_reset": truth(said(gpu, "gpu_reset_status/drain_and_reset_recommended")),
        "recovery_action": _ACTIONS.get(action.lower(), action) if isinstance(action, str) else action,
    }


def _reasons(gpu: Element) -> Any:
    """Put the mask together again that the tool took apart; before R535 it called them throttle reasons."""
    for part, prefix in (
        ("clocks_event_reasons", "clocks_event_reason_"),
        ("clocks_throttle_reasons", "clocks_throttle_reason_"),
    ):
        found = gpu.find(part)
        if found is None:
            continue
        if not len(found):
            return number(said(gpu, part))
        return _mask(dict(_flags(found, prefix)))
    return word(None)


def _flags(found: Element, prefix: str) -> Iterator[tuple[int, Any]]:
    for name, bit in _REASONS.items():
        text = found.findtext(f"{prefix}{name}")
        if text is not None:
            active = {"Active": True, "Not Active": False}.get(text.strip())
            yield bit, truth(text) if active is None else active


def _mask(flags: dict[int, Any]) -> Any:
    unread = next((flag for flag in flags.values() if not isinstance(flag, bool)), None)
    if unread is not None or not flags:
        return unread or word(None)
    return sum(bit for bit, active in flags.items() if active)


def _temperature(gpu: Element) -> dict[str, Any]:
    tags = {
        "gpu_c": "gpu_temp",
        "tlimit_c": "gpu_temp_tlimit",
        "slowdown_c": "gpu_temp_slow_threshold",
        "memory_max_c": "gpu_temp_max_mem_threshold",
    }
    return {key: number(said(gpu, f"temperature/{tag}"), _DEGREES) for key, tag in tags.items()}


def _usage(gpu: Element) -> dict[str, Any]:
    used = number(said(gpu, "fb_memory_usage/used"), r"(\d{1,9}) MiB")
    return {
        "busy_percent": number(said(gpu, "utilization/gpu_util"), r"(\d{1,3}) %"),
        "power_mw": _power(gpu),
        "memory_bytes": used * _MIB if isinstance(used, int) else used,
        "processes": _processes(gpu),
    }


def _power(gpu: Element) -> Any:
    paths = (
        "gpu_power_readings/average_power_draw",
        "gpu_power_readings/instant_power_draw",
        "gpu_power_readings/power_draw",
        "power_readings/power_draw",
    )
    drawn = [word(said(gpu, path)) for path in paths if gpu.find(path) is not None]
    for text in drawn:
        match = re.fullmatch(r"(\d{1,5})\.(\d{2}) W", text, re.ASCII) if isinstance(text, str) else None
        if match:
            return int(match[1]) * 1000 + int(match[2]) * 10
    return number(drawn[0]) if drawn and isinstance(drawn[0], str) else drawn[0] if drawn else word(None)


def _processes(gpu: Element) -> Any:
    part = gpu.find("processes")
    if part is None or (not len(part) and (part.text or "").strip() not in {"", "None"}):
        return word(None if part is None else part.text)
    listed = [{"pid": number(said(user, "pid"))} for user in part.findall("process_info")]
    return {"count": len(listed), "listed": listed}
