"""What the probe reads of a host's processors, IOMMU, PCI bridges and memory controllers."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import hosttrees
from test_probe_trees import lay, refuse

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("numbers", "written"), [([], ""), ([3], "3"), ([3, 1, 2, 8], "1-3,8"), ([0, 2, 4], "0,2,4")]
)
def test_processors_are_listed_as_the_kernel_does(numbers: list[int], written: str) -> None:
    """Ranges, in order."""
    assert hosttrees.ranges(numbers) == written


def processors(root: Path, count: int = 4) -> str:
    """Lay out processors of which the last has another governor, and may not sleep deeply."""
    for number in range(count):
        last = number == count - 1
        lay(
            root / f"cpufreq/policy{number}",
            scaling_driver="intel_pstate",
            scaling_governor="powersave" if last else "performance",
            affected_cpus=str(number),
        )
        lay(root / f"cpu{number}/cpuidle/state0", name="POLL", latency="0", disable="0")
        lay(root / f"cpu{number}/cpuidle/state1", name="C6", latency="290", disable=str(int(last)))
    return str(root)


def test_equal_processors_are_put_together(tmp_path: Path) -> None:
    """Hundreds of processors take a line for each way in which they are set up."""
    found = hosttrees.cpu(processors(tmp_path))
    assert [(group["cpus"], group["scaling_governor"]) for group in found["frequency"]] == [
        ("0-2", "performance"),
        ("3", "powersave"),
    ]
    assert [(group["cpus"], group["state"], group["disable"]) for group in found["idle"]] == [
        ("0-3", "state0", "0"),
        ("0-2", "state1", "0"),
        ("3", "state1", "1"),
    ]


def test_a_refusal_of_a_processor_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read is not left out as if the firmware kept it."""
    root = processors(tmp_path)
    refuse(monkeypatch, "affected_cpus|disable", errno.EACCES)
    found = hosttrees.cpu(root)
    assert found["frequency"]["unread"] == found["idle"]["unread"] == "denied"


def test_a_guest_has_no_frequencies(tmp_path: Path) -> None:
    """No cpufreq is an empty list; no processors at all is an error."""
    lay(tmp_path / "cpu0", online="1")
    assert hosttrees.cpu(str(tmp_path)) == {"frequency": [], "idle": []}
    with pytest.raises(FileNotFoundError):
        hosttrees.cpu(str(tmp_path / "none"))


def test_iommu_groups(tmp_path: Path) -> None:
    """Each group with its type and its devices; a kernel without groups has none."""
    groups = lay(tmp_path / "iommu_groups", **{"7__type": "DMA-FQ", "7__devices__0000:18:00.0": ""})
    assert hosttrees.iommu(str(groups)) == {"7": {"type": "DMA-FQ", "devices": ["0000:18:00.0"]}}
    assert hosttrees.iommu(str(tmp_path / "iommu_groups_of_none")) == {}


def config(*capabilities: tuple[int, int], size: int = 4096, control: int = 0x1D) -> bytes:
    """Make a configuration space with these extended capabilities, each (identity, offset of the next)."""
    space = bytearray(size)
    place = 0x100
    for identity, following in capabilities:
        struct.pack_into("<I", space, place, identity | 1 << 16 | following << 20)
        if identity == 0x0D:
            struct.pack_into("<HH", space, place + 4, 0x005F, control)
        place = following
    return bytes(space[:size])


@pytest.mark.parametrize(
    ("space", "control"),
    [
        (config((0x0D, 0)), "0x001d"),
        (config((0x01, 0x148), (0x0D, 0x200)), "0x001d"),
        (config((0x01, 0x148), (0x0B, 0)), "none"),
        (bytes(4096), "none"),
        (b"\xff" * 4096, "failed"),
        (config((0x01, 0x100)), "failed"),
        (bytes(64), "denied"),
    ],
    ids=["first", "second", "others only", "no capability", "fallen off", "a circle", "without root"],
)
def test_access_control_services_of_a_bridge(tmp_path: Path, space: bytes, control: str) -> None:
    """The chain of capabilities is followed to its end, and not for ever; a short file needs root."""
    devices = tmp_path / "bus/pci/devices"
    lay(devices / "0000:17:00.0", **{"class": "0x060400"})
    lay(devices / "0000:18:00.0", **{"class": "0x030200"})
    (devices / "0000:17:00.0/config").write_bytes(space)
    (found,) = hosttrees.acs(str(devices)).values()
    assert (found["control"]["unread"] if isinstance(found["control"], dict) else found["control"]) == control


def test_memory_controllers(tmp_path: Path) -> None:
    """Each controller's counts; a host without such a driver has none."""
    root = tmp_path / "edac/mc"
    lay(root / "mc0", ce_count="3", ue_count="0", seconds_since_reset="100", mc_name="i10nm")
    lay(root, power="")
    assert hosttrees.edac(str(root)) == {
        "mc0": {"mc_name": "i10nm", "ce_count": "3", "ue_count": "0", "seconds_since_reset": "100"}
    }
    assert hosttrees.edac(str(tmp_path / "other/mc")) == {}
