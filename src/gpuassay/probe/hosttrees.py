"""Folders of /sys that tell how a host is set up: processors, IOMMU, PCI bridges, memory controllers."""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH120, PTH208
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import unread, unread_because
from gpuassay.probe.files import attribute, attributes, entries

if TYPE_CHECKING:
    from collections.abc import Iterable

_FREQUENCY = (
    "scaling_driver",
    "scaling_governor",
    "energy_performance_preference",
    "scaling_max_freq",
    "cpuinfo_max_freq",
)
_MEMORY = ("mc_name", "ce_count", "ue_count", "seconds_since_reset")
_CPU = re.compile(r"cpu([0-9]{1,6})")
_POLICY = re.compile(r"policy[0-9]{1,6}")
_STATE = re.compile(r"state[0-9]{1,3}")

# PCI Express Base Specification, 7.7.2 (extended capabilities) and 7.7.11 (Access Control Services).
_BRIDGE = "0x0604"
_EXTENDED = 0x100
_ACS = 0x000D
_ACS_CONTROL = 6  # its control register, from the beginning of the capability
_ALL_ONES = 0xFFFFFFFF  # what a device reads as that has fallen off the bus
_LONGEST_CHAIN = 96  # capabilities; one of them has 4 KiB and the smallest takes 8 bytes


def cpu(root: str) -> dict[str, Any]:
    """Read how processors change their frequency and how deep they sleep; equal ones are put together.

    Raises OSError.
    """
    names = os.listdir(root)
    numbers = sorted(int(found[1]) for found in map(_CPU.fullmatch, names) if found)
    return {"frequency": _frequency(f"{root}/cpufreq"), "idle": _idle(root, numbers)}


def _frequency(folder: str) -> Any:
    """Read the policies; there are none where firmware or hypervisor keeps the frequency to itself."""
    alike: dict[str, tuple[dict[str, Any], list[int]]] = {}
    try:
        for name in filter(_POLICY.fullmatch, entries(folder, os.path.dirname(folder))):
            policy = attributes(f"{folder}/{name}", _FREQUENCY)
            _, cpus = alike.setdefault(repr(policy), (policy, []))
            cpus.extend(int(number) for number in attribute(f"{folder}/{name}/affected_cpus").split())
    except OSError as error:
        return unread_because(error)
    return [{"cpus": ranges(cpus), **policy} for policy, cpus in alike.values()]


def _idle(root: str, numbers: Iterable[int]) -> Any:
    """Read the sleeping states: name and latency of each once, and for which processors it is off."""
    states: dict[str, dict[str, Any]] = {}
    disabled: dict[tuple[str, str], list[int]] = {}
    try:
        for number in numbers:
            folder = f"{root}/cpu{number}/cpuidle"
            for state in filter(_STATE.fullmatch, entries(folder, os.path.dirname(folder))):
                if state not in states:
                    states[state] = attributes(f"{folder}/{state}", ("name", "latency"))
                disabled.setdefault((state, attribute(f"{folder}/{state}/disable")), []).append(number)
    except OSError as error:
        return unread_because(error)
    return [
        {"cpus": ranges(cpus), "state": state, **states[state], "disable": word}
        for (state, word), cpus in sorted(disabled.items())
    ]


def ranges(numbers: Iterable[int]) -> str:
    """Write numbers the way the kernel lists processors: ``0-3,8``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def iommu(root: str) -> dict[str, Any]:
    """Read the IOMMU's groups: how each is translated, and what is in it. None at all: no IOMMU is on.

    Raises OSError.
    """
    return {name: _group(f"{root}/{name}") for name in entries(root, os.path.dirname(root))}


def _group(folder: str) -> dict[str, Any]:
    group = attributes(folder, ("type",))
    try:
        return {**group, "devices": sorted(os.listdir(f"{folder}/devices"))}
    except OSError as error:
        return {**group, "devices": unread_because(error)}


def acs(root: str) -> dict[str, Any]:
    """Read from each PCI bridge the Access Control Services that are on. Raises OSError."""
    bus = os.path.dirname(os.path.dirname(root))
    found = {}
    for address in entries(root, bus):
        try:
            if attribute(f"{root}/{address}/class").startswith(_BRIDGE):
                found[address] = {"control": _acs(f"{root}/{address}/config")}
        except OSError as error:
            found[address] = {"control": unread_because(error)}
    return found


def _acs(path: str) -> Any:
    """Read the control register, e.g. ``0x001d``; ``none`` where the bridge has no such services."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        place = _EXTENDED
        for _ in range(_LONGEST_CHAIN):
            head = os.pread(descriptor, 4, place)
            if len(head) < 4:  # noqa: PLR2004 - the four bytes that were asked for
                return unread("denied", f"{path}: only root may read beyond the first 64 bytes")
            capability = int.from_bytes(head, "little")
            if capability == _ALL_ONES:
                return unread("failed", f"{path}: reads as all ones")
            if capability & 0xFFFF == _ACS:
                control = os.pread(descriptor, 2, place + _ACS_CONTROL)
                return f"0x{int.from_bytes(control, 'little'):04x}"
            place = capability >> 20
            if place < _EXTENDED:
                return "none"
    finally:
        os.close(descriptor)
    return unread("failed", f"{path}: its capabilities have no end")


def edac(root: str) -> dict[str, Any]:
    """Read the error counts of the memory controllers; none where no driver counts them. Raises OSError."""
    names = [name for name in entries(root, os.path.dirname(os.path.dirname(root))) if name.startswith("mc")]
    return {name: attributes(f"{root}/{name}", _MEMORY) for name in names if name != "mc"}
