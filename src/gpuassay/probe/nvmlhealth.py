"""What NVML is asked about the health of a GPU: errors, repairs, heat, clocks, and what it is doing."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import unread
from gpuassay.probe.nvmlcalls import KINDS, Call

if TYPE_CHECKING:
    from types import ModuleType

_CORRECTED, _UNCORRECTED = 0, 1  # nvmlMemoryErrorType_t
_VOLATILE, _AGGREGATE = 0, 1  # nvmlEccCounterType_t
_GPU_DIE = 0  # nvmlTemperatureSensors_t
_SLOWDOWN, _MEMORY_MAX = 1, 2  # nvmlTemperatureThresholds_t
_MEMORY_V2 = 0x02000028  # its "used" does not hold what the driver keeps for itself
_SRAM_V1 = 0x1000068
_MOST_PROCESSES = 64

# Field values that kept their number since they were introduced; those that count throttling did not.
FIELDS = {
    "memory_c": 82,
    "pcie_replays": 94,
    "slowdown_tlimit_c": 194,
    "reset_required": 226,
    "drain_and_reset": 227,
    "recovery_action": 230,
}
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t
_UNKNOWN_FIELD = 2  # invalid argument: the library is older than the field


def _errors(nvml: ModuleType, gpu: Any, kind: int, since: int) -> Any:
    return nvml.nvmlDeviceGetTotalEccErrors(gpu, kind, since)


def _sram(nvml: ModuleType, gpu: Any) -> bool:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = _SRAM_V1
    nvml.nvmlDeviceGetSramEccErrorStatus(gpu, ctypes.byref(status))
    return bool(status.bThresholdExceeded)


def _repairs(pending: Any) -> dict[str, bool]:
    return {"channel": bool(pending[0]), "tpc": bool(pending[1])}


def _fields(nvml: ModuleType, gpu: Any) -> dict[str, Any]:
    """Read all field values with one call; each has a return code of its own."""
    values = nvml.nvmlDeviceGetFieldValues(gpu, list(FIELDS.values()))
    return {name: _field(value) for name, value in zip(FIELDS, values)}  # noqa: B905 - Python 3.9 runs this


def _field(value: Any) -> Any:
    code = value.nvmlReturn
    if code:
        kind = "not_found" if code == _UNKNOWN_FIELD else KINDS.get(code, "failed")
        return unread(kind, f"NVML: no value for field {value.fieldId} ({code})", code=code)
    if not 0 <= value.valueType < len(_MEMBERS):
        return unread("failed", f"NVML: field {value.fieldId} is of unknown type {value.valueType}")
    return getattr(value.value, _MEMBERS[value.valueType])


def _mended(fields: dict[str, Any]) -> dict[str, Any]:
    """Give a margin, which is zero or less, its sign back; leave out fields that a newer one has replaced."""
    margin = fields["slowdown_tlimit_c"]
    if isinstance(margin, int) and margin >> 31 == 1:
        fields["slowdown_tlimit_c"] = margin - (1 << 32)
    old = () if isinstance(fields["recovery_action"], dict) else ("reset_required", "drain_and_reset")
    return {name: value for name, value in fields.items() if name not in old}


def _reasons(nvml: ModuleType, gpu: Any) -> Any:
    """Read why clocks are held down; R535 gave the function another name."""
    try:
        return nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
    except nvml.NVMLError_FunctionNotFound:
        return nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)


def _processes(nvml: ModuleType, gpu: Any) -> dict[str, Any]:
    """List who uses a GPU: process ids and bytes, no names and no arguments.

    Beside them stands the namespace that these processes were looked up in: from inside a container's own,
    nothing outside is seen.
    """
    users = [
        *nvml.nvmlDeviceGetComputeRunningProcesses(gpu),
        *nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu),
    ]
    return {
        "count": len(users),
        "listed": [{"pid": user.pid, "bytes": user.usedGpuMemory} for user in users[:_MOST_PROCESSES]],
        "namespace": os.readlink("/proc/self/ns/pid"),  # noqa: PTH115 - pathlib is slow to import
    }


HEALTH = (
    Call(
        "ecc_errors.volatile_uncorrected",
        "nvmlDeviceGetTotalEccErrors",
        ask=lambda nvml, gpu: _errors(nvml, gpu, _UNCORRECTED, _VOLATILE),
    ),
    Call(
        "ecc_errors.volatile_corrected",
        "nvmlDeviceGetTotalEccErrors",
        ask=lambda nvml, gpu: _errors(nvml, gpu, _CORRECTED, _VOLATILE),
    ),
    Call(
        "ecc_errors.aggregate_uncorrected",
        "nvmlDeviceGetTotalEccErrors",
        ask=lambda nvml, gpu: _errors(nvml, gpu, _UNCORRECTED, _AGGREGATE),
    ),
    Call("ecc_errors.sram_threshold_exceeded", "nvmlDeviceGetSramEccErrorStatus", ask=_sram),
    Call("repairs_pending", "nvmlDeviceGetRepairStatus", _repairs),
    Call("unrepairable_memory", "nvmlDeviceGetUnrepairableMemoryFlag_v1", bool),
    Call("fields", "nvmlDeviceGetFieldValues", _mended, ask=_fields),
    Call("clock_event_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", ask=_reasons),
    Call(
        "temperature.gpu_c",
        "nvmlDeviceGetTemperature",
        ask=lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, _GPU_DIE),
    ),
    Call("temperature.tlimit_c", "nvmlDeviceGetMarginTemperature"),
    Call(
        "temperature.slowdown_c",
        "nvmlDeviceGetTemperatureThreshold",
        ask=lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(gpu, _SLOWDOWN),
    ),
    Call(
        "temperature.memory_max_c",
        "nvmlDeviceGetTemperatureThreshold",
        ask=lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(gpu, _MEMORY_MAX),
    ),
    Call("usage.busy_percent", "nvmlDeviceGetUtilizationRates", lambda rates: rates.gpu),
    Call("usage.power_mw", "nvmlDeviceGetPowerUsage"),
    Call(
        "usage.memory_bytes",
        "nvmlDeviceGetMemoryInfo",
        lambda memory: memory.used,
        ask=lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu, version=_MEMORY_V2),
    ),
    Call("usage.processes", "nvmlDeviceGetComputeRunningProcesses", ask=_processes),
    Call("addressing", "nvmlDeviceGetAddressingMode", lambda mode: ("None", "HMM", "ATS")[mode]),
    # Reads and checks a small flash memory, so it comes last.
    Call("inforom_valid", "nvmlDeviceValidateInforom", lambda _: True),
)
