"""Which functions of NVML are called, where their answers go in the document, and what its refusals mean."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from gpuassay.probe.answer import unread

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Callable

LIBRARY = "libnvidia-ml.so.1"

# nvml.h, nvmlReturn_t; what is not here is an answer that went wrong: failed
KINDS = {
    3: "unsupported",
    4: "denied",
    10: "timed_out",
    12: "not_found",  # the library
    13: "not_found",  # the function: the library is older than the question
    26: "unsupported",  # deprecated: asked for in another way now
}
_PSTATE_UNKNOWN = 32
_GRAPHICS, _SM, _MEMORY = 0, 1, 2  # nvmlClockType_t


class Call(NamedTuple):
    """One function; ``key`` is the place of its answer, with dots; ``shape`` makes it plain data.

    ``ask`` calls it, given nvidia-ml-py and the GPU, where it takes more than the GPU.
    """

    key: str
    function: str
    shape: Callable[[Any], Any] = lambda value: value
    ask: Optional[Callable[[Any, Any], Any]] = None


class Refusal(Exception):  # noqa: N818 - a refusal is an answer
    """NVML refused; ``value`` stands in the document instead of the answer."""

    def __init__(self, kind: str, why: str, **more: Any) -> None:
        super().__init__(why)
        self.value = unread(kind, why, **more)


def _text(value: Any) -> str:
    """Older releases of nvidia-ml-py give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _address(info: Any) -> str:
    """Write a PCI address as /sys does: NVML has eight digits of domain, in capitals."""
    domain, _, rest = _text(info.busId).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _pstate(value: int) -> Any:
    return unread("failed", "NVML: unknown performance state") if value == _PSTATE_UNKNOWN else value


def _ecc(modes: Any) -> dict[str, bool]:
    return {"current": bool(modes[0]), "pending": bool(modes[1])}


def _remapped(rows: Any) -> dict[str, Any]:
    correctable, uncorrectable, pending, failed = rows
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failed": bool(failed),
    }


def _banks(histogram: Any) -> dict[str, int]:
    return {level: getattr(histogram, level) for level in ("max", "high", "partial", "low", "none")}


def _clock(key: str, function: str, kind: int) -> Call:
    return Call(key, function, ask=lambda nvml, gpu: getattr(nvml, function)(gpu, kind))


# Answers also where initialising failed: a library that does not fit the loaded driver says its version.
VERSION = Call("library", "nvmlSystemGetNVMLVersion", _text)
INIT = Call("", "nvmlInit")
HANDLE = Call("", "nvmlDeviceGetHandleByIndex")

SYSTEM = (
    Call("driver", "nvmlSystemGetDriverVersion", _text),
    Call("cuda", "nvmlSystemGetCudaDriverVersion_v2"),
    Call("count", "nvmlDeviceGetCount"),
)

DEVICE = (
    Call("name", "nvmlDeviceGetName", _text),
    Call("pci", "nvmlDeviceGetPciInfo", _address),
    Call("pci_device_id", "nvmlDeviceGetPciInfo", lambda info: f"0x{info.pciDeviceId:08X}"),
    Call("pci_subsystem_id", "nvmlDeviceGetPciInfo", lambda info: f"0x{info.pciSubSystemId:08X}"),
    Call("uuid", "nvmlDeviceGetUUID", _text),
    Call("serial", "nvmlDeviceGetSerial", _text),
    Call("board_part", "nvmlDeviceGetBoardPartNumber", _text),
    Call("vbios", "nvmlDeviceGetVbiosVersion", _text),
    Call("pstate", "nvmlDeviceGetPerformanceState", _pstate),
    Call("persistence", "nvmlDeviceGetPersistenceMode", bool),
    Call("mig", "nvmlDeviceGetMigMode", lambda modes: modes[0]),
    Call("mig_pending", "nvmlDeviceGetMigMode", lambda modes: modes[1]),
    Call("memory_total_bytes", "nvmlDeviceGetMemoryInfo", lambda memory: memory.total),
    Call("ecc", "nvmlDeviceGetEccMode", _ecc),
    Call("remapped_rows", "nvmlDeviceGetRemappedRows", _remapped),
    Call("remapped_rows.banks", "nvmlDeviceGetRowRemapperHistogram", _banks),
    Call("retired_pages_pending", "nvmlDeviceGetRetiredPagesPendingStatus", bool),
    Call("pcie.gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
    Call("pcie.gen_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
    Call("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth"),
    Call("pcie.width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
    Call("power.enforced_mw", "nvmlDeviceGetEnforcedPowerLimit"),
    Call("power.default_mw", "nvmlDeviceGetPowerManagementDefaultLimit"),
    _clock("clocks.applications", "nvmlDeviceGetApplicationsClock", _GRAPHICS),
    _clock("clocks.applications_default", "nvmlDeviceGetDefaultApplicationsClock", _GRAPHICS),
    _clock("clocks.memory", "nvmlDeviceGetApplicationsClock", _MEMORY),
    _clock("clocks.memory_default", "nvmlDeviceGetDefaultApplicationsClock", _MEMORY),
    _clock("clocks.max", "nvmlDeviceGetMaxClockInfo", _SM),
)


def load() -> Any:
    """Load the library, and nvidia-ml-py on top of it. Raises Refusal.

    The library is opened here first: nvidia-ml-py says of one that is broken that it is not there.
    """
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Refusal(_loading(str(error)), str(error)) from error
    try:
        import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - it travels along, and takes long to compile
    except ImportError as error:
        raise Refusal("not_found", f"nvidia-ml-py: {error}") from error
    return pynvml


def _loading(message: str) -> str:
    if "Permission denied" in message:
        return "denied"
    return "not_found" if LIBRARY in message and "No such file" in message else "failed"


def call(nvml: ModuleType, which: Call, *arguments: Any) -> Any:
    """Call one function and shape its answer. Raises Refusal, whatever goes wrong."""
    function = getattr(nvml, which.function, None)
    if function is None:
        raise Refusal("not_found", f"nvidia-ml-py has no {which.function}")
    try:
        return which.shape(which.ask(nvml, *arguments) if which.ask else function(*arguments))
    except nvml.NVMLError as error:
        code = error.value
        raise Refusal(KINDS.get(code, "failed"), f"NVML: {error} ({code})", code=code) from error
    except Exception as error:
        raise Refusal("failed", f"{which.function}: {type(error).__name__}: {error}") from error


def answer(nvml: ModuleType, which: Call, *arguments: Any) -> Any:
    """Call one function; give its shaped answer, or what stands for it in the document."""
    try:
        return call(nvml, which, *arguments)
    except Refusal as refusal:
        return refusal.value
