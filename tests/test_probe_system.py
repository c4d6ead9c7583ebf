"""The kernel and the processor: the real ones of this machine, and made-up ones of others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import system

if TYPE_CHECKING:
    from pathlib import Path


def test_this_host() -> None:
    """The document agrees with what this process knows of its machine."""
    host = system.host()
    assert host["hostname"] == os.uname().nodename
    assert host["memory_bytes"] % host["page_size"] == 0
    assert host["memory_bytes"] > 0
    assert host["cpus"] == os.cpu_count()


def test_this_clock() -> None:
    """The kernel answers without privilege; the fields lie where linux/timex.h has them."""
    clock = system.clock()
    assert clock["state"] in range(6)
    assert 0 <= clock["status"] < 1 << 16
    assert 0 <= clock["esterror_us"] <= 1 << 32
    assert isinstance(clock["offset_us"], float)


X86 = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu {flag} sse\n\nprocessor\t: 1\nmodel name\t: X\n"
GRACE = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\nFeatures\t: fp asimd\n\n"


@pytest.mark.parametrize(("flag", "seen"), [("hypervisor", True), ("hypervisor_not", False)])
def test_a_processor_that_tells_of_a_hypervisor(tmp_path: Path, flag: str, *, seen: bool) -> None:
    """On x86 a flag says it, as a whole word; the first processor speaks for all."""
    path = tmp_path / "cpuinfo"
    path.write_text(X86.format(flag=flag))
    assert system.cpuinfo(str(path)) == {"model": "AMD EPYC", "hypervisor": seen}


def test_a_processor_that_cannot_tell(tmp_path: Path) -> None:
    """On Arm there is a part number for a name, and no word about a hypervisor."""
    path = tmp_path / "cpuinfo"
    path.write_text(GRACE)
    cpu = system.cpuinfo(str(path))
    assert cpu["model"] == "CPU implementer 0x41, CPU part 0xd4f"
    assert cpu["hypervisor"]["unread"] == "not_found"


def test_an_empty_cpuinfo(tmp_path: Path) -> None:
    """Nothing is not a name."""
    (tmp_path / "cpuinfo").touch()
    assert system.cpuinfo(str(tmp_path / "cpuinfo"))["model"]["unread"] == "not_found"


@pytest.mark.parametrize(("flag", "seen"), [("vmx", True), ("svm", True), ("vmx_not", False)])
def test_a_processor_that_can_run_virtual_machines(tmp_path: Path, flag: str, *, seen: bool) -> None:
    """Intel's flag and AMD's are whole words; a device that is there has a mode."""
    path, device = tmp_path / "cpuinfo", tmp_path / "kvm"
    path.write_text(X86.format(flag=flag))
    assert system.virtualization(str(path), str(device)) == {"extensions": seen, "device": {}}
    device.touch(0o660)
    device.chmod(0o660)
    told = system.virtualization(str(path), str(device))["device"][str(device)]
    assert told["mode"] == 0o660


def test_a_processor_without_flags_says_nothing_of_virtual_machines(tmp_path: Path) -> None:
    """On Arm there is no such flag."""
    path = tmp_path / "cpuinfo"
    path.write_text(GRACE)
    assert system.virtualization(str(path), "/none")["extensions"]["unread"] == "not_found"
