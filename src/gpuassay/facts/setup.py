"""What a GPU is and how it is set: memory, identity, modes, power and clocks, as its driver says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.nvidia import Device
    from gpuassay.facts.pci import Function
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

MIB = 1 << 20
_MOST_MEMORY = 1 << 50  # bytes
_MOST_POWER_MW = 100_000_000
_MOST_CLOCK_MHZ = 100_000
_WHOLE, _MIG = "whole", "mig"


class Setup:
    """The part of a GPU that a contract names, and that its driver can change."""

    _function: Function
    _device: Device

    @property
    def memory_mib(self) -> Fact[int]:
        """Its memory in MiB, as the driver counts it."""
        return mapped(self._said.count("memory_total_bytes", most=_MOST_MEMORY), lambda size: size // MIB)

    @property
    def uuid(self) -> Fact[str]:
        """The driver's identity of this GPU."""
        return self._device.entry.text("uuid", r"GPU-([0-9a-fA-F-]{36}|[0-9a-f]{16})", "a GPU's UUID")

    @property
    def serial(self) -> Fact[str]:
        """The serial number of its board."""
        return self._device.entry.text("serial", r"[0-9A-Za-z-]{1,32}", "a serial number")

    @property
    def identity(self) -> Fact[str]:
        """What tells it from every other GPU: its UUID."""
        return self.uuid

    @property
    def told(self) -> str:
        """Its board's serial number and its UUID in words."""
        serial, uuid = self.serial, self.uuid
        words = [f"serial {serial.value}"] if isinstance(serial, Read) else []
        return ", ".join([*words, uuid.value if isinstance(uuid, Read) else "a GPU without a UUID"])

    @property
    def board_part(self) -> Fact[str]:
        """The part number of its board."""
        return self._said.text("board_part", r"[0-9A-Za-z._/ -]{1,48}", "a part number")

    @property
    def vbios(self) -> Fact[str]:
        """The version of its firmware on the board."""
        return self._said.text("vbios", r"[0-9A-Za-z._-]{1,48}", "a version")

    @property
    def firmware_version(self) -> Fact[str]:
        """The same, by the name that it has on any part."""
        return self.vbios

    @property
    def partition_mode(self) -> Fact[str]:
        """Whether it is one GPU, ``whole``, or cut into instances, ``mig``."""
        return mapped(self._said.count("mig", most=1), _mode)

    @property
    def partition_mode_after_reset(self) -> Fact[str]:
        """The same after the next reset."""
        return mapped(self._said.count("mig_pending", most=1), _mode)

    @property
    def persistence(self) -> Fact[bool]:
        """Whether the driver stays loaded while nobody uses the GPU."""
        return self._said.flag("persistence")

    @property
    def power_limit_w(self) -> Fact[float]:
        """The power that it may draw now, the lowest of all limits in force."""
        return self._watts("enforced_mw")

    @property
    def power_default_w(self) -> Fact[float]:
        """The power that the product may draw as it leaves the factory."""
        return self._watts("default_mw")

    @property
    def clock_limit_mhz(self) -> Fact[int]:
        """The clock that programs are given at most."""
        return self._setting("applications")

    @property
    def clock_default_mhz(self) -> Fact[int]:
        """The same as the product leaves the factory."""
        return self._setting("applications_default")

    @property
    def memory_clock_limit_mhz(self) -> Fact[int]:
        """The clock of its memory that programs are given at most."""
        return self._setting("memory")

    @property
    def memory_clock_default_mhz(self) -> Fact[int]:
        """The same as the product leaves the factory."""
        return self._setting("memory_default")

    @property
    def clock_max_mhz(self) -> Fact[int]:
        """The highest clock that this part can reach."""
        return self._clock("max")

    @property
    def pcie_gen_max(self) -> Fact[int]:
        """The PCIe generation that it and the machine can reach together; the bus knows only its own."""
        fallen = self._function.fallen
        driver = self._said.record("pcie").count("gen_max", most=9)
        if fallen or isinstance(driver, Read):
            return fallen or driver
        bus = self._function.generation_max()
        return bus if isinstance(bus, Read) and driver.kind == "not_asked" else driver

    @property
    def numa_node(self) -> Fact[int]:
        """The NUMA node that it is attached to; -1 where the firmware names none."""
        return self._function.numa_node()

    @property
    def _said(self) -> Record:
        # What an older probe did not ask for is not there, and is no fault of the answer.
        return replace(self._device.entry, missing="not_asked")

    def _watts(self, key: str) -> Fact[float]:
        return mapped(self._said.record("power").count(key, most=_MOST_POWER_MW), lambda mw: mw / 1000)

    def _setting(self, key: str) -> Fact[int]:
        """Read a clock that newer drivers have no setting for, and newer libraries no function."""
        clock = self._clock(key)
        if isinstance(clock, Unread) and clock.kind == "not_found":
            return Unread("unsupported", clock.why, clock.evidence)
        return clock

    def _clock(self, key: str) -> Fact[int]:
        return self._said.record("clocks").count(key, most=_MOST_CLOCK_MHZ)


def _mode(mig: int) -> str:
    return _MIG if mig else _WHOLE
