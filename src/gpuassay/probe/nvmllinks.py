"""NVLink and its fabric, as NVML tells them: what takes more than one call for one answer."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import unread
from gpuassay.probe.nvmlcalls import KINDS, Call

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Callable

# nvml.h: a link is asked by its number, and the numbers end where it is not supported or no argument
_MOST_LINKS = 36
_INVALID_ARGUMENT, _NOT_SUPPORTED = 2, 3
_ENDS = (_INVALID_ARGUMENT, _NOT_SUPPORTED)
# What older libraries say to a younger form of the question: no such function, or no such version
_UNKNOWN_FORM = (_INVALID_ARGUMENT, 13, 25)

# nvmlNvLinkErrorCounter_t, NVLink 1 to 4
_COUNTERS = {"replay": 0, "recovery": 1, "crc_flit": 2, "crc_data": 3}

# NVML_FI_DEV_NVLINK_…: asked with the link's number as scope; once there was a field for each link
_SPEED = 164
_OLD_SPEEDS = (*range(84, 90), *range(132, 138))
# NVLink 5
_COUNTS = {
    "malformed": 206,
    "overrun": 207,
    "receive": 208,
    "remote": 209,
    "integrity": 211,
    "recovered": 213,
    "recovery_failed": 214,
    "effective_ber": 220,
    "symbol_ber": 222,
}

_FORMS = (
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t"),
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
    ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
)
# nvmlValueType_t: which member of the union holds the value
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def active(nvml: ModuleType, device: Any) -> list[Any]:
    """Tell of each link whether it is up; an index that is not supported is the end of the list."""
    return _by_link(nvml, lambda link: bool(nvml.nvmlDeviceGetNvLinkState(device, link)))


def speeds(nvml: ModuleType, device: Any) -> list[Any]:
    """Tell the speed of each link, in MB/s."""
    links = len(active(nvml, device))
    told = _fields(nvml, device, [(_SPEED, link) for link in range(links)])
    older = _fields(nvml, device, [(field, 0) for field in _OLD_SPEEDS[:links]])
    for link, speed in enumerate(older):
        if isinstance(told[link], dict) and not isinstance(speed, dict):
            told[link] = speed
    return told


def counters(nvml: ModuleType, device: Any) -> dict[str, Any]:
    """Tell what each link has counted since the driver was loaded; a kind that no link has is told once."""
    links = range(len(active(nvml, device)))
    told = {
        name: [_count(nvml, device, link, counter) for link in links] for name, counter in _COUNTERS.items()
    }
    values = _fields(nvml, device, [(field, link) for field in _COUNTS.values() for link in links])
    for place, name in enumerate(_COUNTS):
        told[name] = values[place * len(links) : (place + 1) * len(links)]
    return {name: _once(list(values)) for name, values in told.items()}


def fabric(nvml: ModuleType, device: Any) -> dict[str, Any]:
    """Tell how the GPU stands in its NVLink fabric; an older driver knows an older form of the question."""
    for function, form in _FORMS[:-1]:
        try:
            return _fabric(nvml, device, function, form)
        except nvml.NVMLError as error:
            if error.value not in _UNKNOWN_FORM:
                raise
    return _fabric(nvml, device, *_FORMS[-1])


def _fabric(nvml: ModuleType, device: Any, function: str, form: str) -> dict[str, Any]:
    info = getattr(nvml, form)()
    getattr(nvml, function)(device, ctypes.byref(info))
    digits = bytes(info.clusterUuid).hex()
    old = unread("not_found", "this driver's NVML does not tell it")
    return {
        "state": info.state,
        "status": info.status,
        "cluster": "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])),
        "clique": info.cliqueId,
        "health_mask": getattr(info, "healthMask", old),
        "health_summary": getattr(info, "healthSummary", old),
    }


def _by_link(nvml: ModuleType, ask: Callable[[int], Any]) -> list[Any]:
    """Ask of each link in turn. Raises NVMLError where there is not even a first one."""
    told: list[Any] = []
    for link in range(_MOST_LINKS):
        try:
            told.append(ask(link))
        except nvml.NVMLError as error:
            if link == 0:
                raise
            if error.value in _ENDS:
                break
            told.append(_refused(error))
    return told


def _count(nvml: ModuleType, device: Any, link: int, counter: int) -> Any:
    try:
        return nvml.nvmlDeviceGetNvLinkErrorCounter(device, link, counter)
    except nvml.NVMLError as error:
        return _refused(error)


def _fields(nvml: ModuleType, device: Any, asked: list[tuple[int, int]]) -> list[Any]:
    """Ask for field values by number and scope, in one call."""
    if not asked:
        return []
    told = []
    for value in nvml.nvmlDeviceGetFieldValues(device, asked):
        if value.nvmlReturn:
            told.append(_refused(nvml.NVMLError(value.nvmlReturn)))
        elif value.valueType < len(_MEMBERS):
            told.append(getattr(value.value, _MEMBERS[value.valueType]))
        else:
            told.append(unread("garbled", f"NVML: a value of type {value.valueType}"))
    return told


def _once(told: list[Any]) -> Any:
    """Say once what was refused alike for every link."""
    first = told[0] if told else None
    return first if isinstance(first, dict) and all(one == first for one in told) else told


def _refused(error: Any) -> dict[str, Any]:
    kind = "unsupported" if error.value in _ENDS else KINDS.get(error.value, "failed")
    return unread(kind, f"NVML: {error} ({error.value})", code=error.value)


NVLINK = (
    Call("nvlink.active", "nvmlDeviceGetNvLinkState", ask=active),
    Call("nvlink.speed_mbps", "nvmlDeviceGetFieldValues", ask=speeds),
    Call("nvlink.counters", "nvmlDeviceGetNvLinkErrorCounter", ask=counters),
    Call("fabric", "nvmlDeviceGetGpuFabricInfo", ask=fabric),
)
