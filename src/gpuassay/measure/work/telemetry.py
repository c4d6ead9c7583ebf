"""What the device says of itself while it works: clocks, power, temperature, and what holds it down.

A thread of its own asks; the calls into NVIDIA's library leave Python's lock alone, and AMD's driver
answers in files. Where neither answers there are no samples, and the reason is said.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuassay.measure.work.device import Device

    Ask = Callable[[], dict[str, float]]

_PERIOD_S = 1.0
_PCI = Path("/sys/bus/pci/devices")
# File of AMD's driver, our name, and its unit in ours.
_HWMON = (
    ("power1_average", "power_w", 1e-6),
    ("power1_input", "power_w", 1e-6),
    ("power1_cap", "power_limit_w", 1e-6),
    ("temp2_input", "celsius", 1e-3),
    ("freq1_input", "sm_mhz", 1e-6),
    ("freq2_input", "memory_mhz", 1e-6),
)


class Samples(list[dict[str, float]]):
    """Samples in the order in which they were taken; ``why`` there are none, if so."""

    why: str = ""


@contextmanager
def watching(device: Device, period_s: float = _PERIOD_S) -> Iterator[Samples]:
    """Sample the device while the block runs."""
    samples, done = Samples(), threading.Event()
    ask = _asker(device, samples)
    begin = time.monotonic()

    def watch() -> None:
        while ask:
            try:
                samples.append({"at": round(time.monotonic() - begin, 2), **ask()})
            except Exception as error:  # noqa: BLE001 - whatever the library raises costs only the samples
                samples.why = f"{type(error).__name__}: {error}"
                return
            if done.wait(period_s):
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join(timeout=period_s)  # one that hangs in the driver is left behind


def _asker(device: Device, samples: Samples) -> Ask | None:
    if device.kind == "cuda":
        try:
            return _nvml(device.address)
        except Exception as error:  # noqa: BLE001 - no library, no permission: all the same here
            samples.why = f"NVML does not answer: {type(error).__name__}: {error}"
    elif device.kind == "rocm":
        for folder in (_PCI / device.address / "hwmon").glob("hwmon*"):
            return lambda: _hwmon(folder)
        samples.why = f"{_PCI / device.address / 'hwmon'} is not there"
    else:
        samples.why = "a processor has no telemetry of this kind"
    return None


def _nvml(address: str) -> Ask:
    import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - it travels along

    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByPciBusId(address.encode())

    def ask() -> dict[str, float]:
        return {
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            "memory_mhz": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
            "power_w": pynvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
            "power_limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1e3,
            "celsius": pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
            "held_by": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
        }

    return ask


def _hwmon(folder: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for file, name, unit in _HWMON:
        with suppress(OSError, ValueError):
            found.setdefault(name, round(int((folder / file).read_text(encoding="ascii")) * unit, 3))
    return found
