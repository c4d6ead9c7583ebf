"""What a host says of itself: limits, clock, uptime, and whether it is a virtual machine."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from gpuassay.facts.record import mapped
from gpuassay.facts.source import document, take, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_MEMLOCK = re.compile(
    r"^Max locked memory +(unlimited|\d{1,20}) +(unlimited|\d{1,20}) +bytes *$", re.MULTILINE
)

# adjtimex(2), linux/timex.h.
_TIME_ERROR = 5  # the clock state that means "not synchronized"
_STA_UNSYNC = 0x0040

# What systemd-detect-virt prints on a virtual machine (its manual page). Inside a container it names the
# container, which says nothing of the machine below.
_MACHINES = re.compile(
    "acrn|amazon|apple|bhyve|bochs|google|kvm|microsoft|oracle|parallels|powervm|qemu|qnx|sre|uml|vm-other|vmware"
    "|xen|zvm"
)
# What it prints inside a container (the same page).
_CONTAINERS = re.compile(
    "container-other|docker|lxc|lxc-libvirt|openvz|podman|pouch|proot|rkt|systemd-nspawn|wsl"
)
# Where no tool and no processor tells, the firmware may: makers as in systemd's own list (src/basic/virt.c),
# and the kinds of chassis in which servers come (SMBIOS 7.4.1: rack mount, server, multi-system, blade and
# its enclosure, tray). Virtual machines say "other" (1) or, on Azure, "desktop" (3).
_VIRTUAL_MAKERS = re.compile(
    "Amazon EC2|Google.*|KVM.*|QEMU.*|KubeVirt.*|OpenStack.*|VMware.*|innotek.*|VirtualBox.*|Xen.*|Bochs.*"
    "|Parallels.*|BHYVE.*|Hyper-V.*|Apple Virtualization.*|Virtual Machine|Alibaba Cloud.*"
)
_SERVER_CHASSIS = frozenset({"17", "23", "25", "28", "29", "30"})
_OUR_PODS = "gpuassay-"  # what the kubernetes target calls what it makes
_ADDRESS = frozenset("0123456789.")
_LONGEST_UPTIME = 100 * 365.25 * 86400  # seconds


def memlock(evidence: Evidence) -> Fact[str]:
    """Read how much memory a process may lock: ``unlimited``, or its soft limit such as ``64 KiB``.

    The soft limit counts: it is what a job has that asks for nothing.
    """
    limits = text(evidence, "limits")
    if isinstance(limits, Unread):
        return limits
    match = _MEMLOCK.search(limits.value)
    if match is None:
        return Unread("garbled", "no line 'Max locked memory' in the process limits", limits.evidence)
    soft, hard = match.groups()
    value = soft if soft == "unlimited" else binary_size(int(soft))
    return Read(value, limits.evidence, f"RLIMIT_MEMLOCK in bytes: soft {soft}, hard {hard}")


def binary_size(count: int) -> str:
    """Write a number of bytes exactly, in the largest binary unit that divides it."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        whole, rest = divmod(count, 1024**power)
        if whole and not rest:
            return f"{whole} {unit}"
    return f"{count} bytes"


def clock_synchronized(evidence: Evidence) -> Fact[bool]:
    """Read whether the kernel holds its clock for synchronized, as adjtimex(2) tells."""
    clock = document(evidence, "clock")
    state, status = clock.count("state", most=_TIME_ERROR), clock.count("status", most=0xFFFF)
    if isinstance(state, Unread):
        return state
    if isinstance(status, Unread):
        return status
    unset = state.value == _TIME_ERROR or bool(status.value & _STA_UNSYNC)
    return Read(not unset, state.evidence, f"adjtimex: state {state.value}, status {status.value:#06x}")


def clock_max_error_ms(evidence: Evidence) -> Fact[float]:
    """Read the largest error that the kernel allows for in its clock, in milliseconds."""
    return mapped(document(evidence, "clock").count("maxerror_us"), lambda us: us / 1000)


def uptime_hours(evidence: Evidence) -> Fact[float]:
    """Read for how many hours the kernel has been up."""
    uptime = text(evidence, "uptime")
    if isinstance(uptime, Unread):
        return uptime
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?) \d+(?:\.\d+)?\s*", uptime.value, re.ASCII)
    seconds = float(match[1]) if match else math.inf
    if seconds > _LONGEST_UPTIME:
        return Unread("garbled", f"uptime is '{brief(uptime.value)}'", uptime.evidence)
    return Read(seconds / 3600, uptime.evidence)


def boot_id(evidence: Evidence) -> Fact[str]:
    """Read what the kernel calls this boot; another one has another name."""
    told = text(evidence, "boot-id")
    if isinstance(told, Unread):
        return told
    found = told.value.strip()
    if not re.fullmatch(r"[0-9a-f-]{36}", found):
        return Unread("garbled", f"boot_id is '{brief(found)}'", told.evidence)
    return Read(found, told.evidence)


def is_called(evidence: Evidence, names: Iterable[str], scheduled_boot: str = "") -> Fact[bool]:
    """Read whether the host calls itself by one of these names; domains are left aside, and large letters.

    Inside a container, which has a name of its own, the boot counts that the scheduler has of the node.
    """
    told, boot = document(evidence, "host").text("hostname"), boot_id(evidence)
    if isinstance(told, Unread):
        return told
    found, wanted = _short(told.value), {_short(name) for name in names}
    inside = container(evidence) or ("a pod of ours" if found.startswith(_OUR_PODS) else "")
    if found in wanted or not inside:
        if found not in wanted and any(map(_ADDRESS.issuperset, wanted)):
            return Unread("denied", f"it was asked for by its address; it calls itself {brief(told.value)}")
        return Read(found in wanted, told.evidence, f"it calls itself {brief(told.value)}")
    if isinstance(boot, Unread) or not scheduled_boot:
        return Unread("denied", f"seen from inside a container ({inside}), which has a name of its own")
    return Read(
        boot.value == scheduled_boot, boot.evidence, f"the scheduler has its boot as {scheduled_boot}"
    )


def _short(name: str) -> str:
    return name.lower() if _ADDRESS.issuperset(name) else name.partition(".")[0].lower()


def is_virtual(evidence: Evidence) -> Fact[bool]:
    """Read whether this is a virtual machine: by systemd-detect-virt, else processor or firmware."""
    item = evidence.item("virt")
    word = (
        brief(item.out.decode(errors="replace")) if item else ""
    )  # also of exit status 1, which means "none"
    if item and (word == "none" or _MACHINES.fullmatch(word)):
        return Read(word != "none", evidence.ref(item), f"systemd-detect-virt: {word}")
    hypervisor = document(evidence, "cpuinfo").flag("hypervisor")
    # Only x86 has a bit for it that is clear on real hardware.
    clear_means_none = document(evidence, "host").text("machine", r"x86_64")
    if isinstance(hypervisor, Read) and (hypervisor.value or isinstance(clear_means_none, Read)):
        return hypervisor
    firmware = _virtual_by_firmware(evidence)
    if firmware is not None:
        return firmware
    asked = take(evidence, "virt")
    return (
        asked
        if isinstance(asked, Unread)
        else Unread("not_found", f"systemd-detect-virt: {word or 'nothing'}")
    )


def container(evidence: Evidence) -> str:
    """Name the container runtime that the probe ran under; empty if none is known of."""
    item = evidence.item("virt")
    word = brief(item.out.decode(errors="replace")) if item else ""
    return word if _CONTAINERS.fullmatch(word) else ""


def _virtual_by_firmware(evidence: Evidence) -> Read[bool] | None:
    """Judge by the maker and the chassis that the firmware names; None where that tells nothing."""
    dmi = document(evidence, "dmi")
    chassis, words = dmi.text("chassis_type"), []
    for key in ("sys_vendor", "product_name"):
        word = dmi.text(key)
        if isinstance(word, Unread):
            return None
        words.append(word.value)
    metal = isinstance(chassis, Read) and chassis.value in _SERVER_CHASSIS
    if not metal and any(map(_VIRTUAL_MAKERS.fullmatch, words)):
        return Read(value=True, evidence=dmi.evidence, note=f"firmware: {brief(' '.join(words))}")
    if metal and not any(map(_VIRTUAL_MAKERS.fullmatch, words)):
        return Read(value=False, evidence=dmi.evidence, note=f"firmware: {brief(' '.join(words))}")
    return None
