"""Processors, NUMA nodes and drives as /sys lays them out, and the health log of a drive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import machine, nvme

if TYPE_CHECKING:
    from pathlib import Path


def lay(folder: Path, **contents: str) -> None:
    """Lay out files; two underscores stand for a slash."""
    for name, text in contents.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_processors_share_packages_and_cores(tmp_path: Path) -> None:
    """Each list comes once, under its old name too; a processor that is offline has none."""
    lay(tmp_path, online="0-2", present="0-3", cpu3__online="0", cpufreq__boost="1")
    for number, core in ((0, "0,2"), (1, "1,3"), (2, "0,2")):
        old = number == 2
        package_name, core_name = (
            ("core_siblings_list", "thread_siblings_list") if old else ("package_cpus_list", "core_cpus_list")
        )
        lay(tmp_path / f"cpu{number}/topology", **{package_name: "0-2", core_name: core})

    assert machine.processors(str(tmp_path)) == {
        "online": "0-2",
        "present": "0-3",
        "packages": ["0-2"],
        "cores": ["0,2", "1,3"],
    }


def test_numa_nodes_with_and_without_processors(tmp_path: Path) -> None:
    """The memory of a node is on one of the first lines of its meminfo."""
    meminfo = "Node 0 MemTotal:       32768 kB\nNode 0 MemFree:        1024 kB"
    lay(tmp_path / "node", node0__cpulist="0-2", node0__distance="10 20", node0__meminfo=meminfo)
    lay(tmp_path / "node", node1__cpulist="", node1__meminfo="Node 1 MemTotal:       0 kB", possible="0-1")

    assert machine.numa(str(tmp_path / "node")) == {
        "node0": {"cpulist": "0-2", "distance": "10 20", "memory": "32768 kB"},
        "node1": {"cpulist": "", "memory": "0 kB"},
    }
    assert machine.numa(str(tmp_path / "nothing")) == {}


def test_drives_with_their_sizes_and_without_serial_numbers(tmp_path: Path) -> None:
    """Namespaces are found below the controller, also by the name that multipath gives them."""
    drive = {"model": "EXAMPLE SSD", "serial": "secret", "transport": "pcie", "state": "live"}
    lay(tmp_path / "nvme/nvme0", **drive, nvme0n1__size="100", nvme0n1__nvme0n1p1__size="7")
    lay(tmp_path / "nvme/nvme10", **drive, nvme0c10n1__size="200")

    assert machine.nvme(str(tmp_path / "nvme")) == {
        "nvme0": {
            "model": "EXAMPLE SSD",
            "transport": "pcie",
            "state": "live",
            "sectors": {"nvme0n1": "100"},
        },
        "nvme10": {
            "model": "EXAMPLE SSD",
            "transport": "pcie",
            "state": "live",
            "sectors": {"nvme0c10n1": "200"},
        },
    }
    assert machine.nvme(str(tmp_path / "none")) == {}


def test_the_health_log_is_taken_apart_by_its_places() -> None:
    """NVM Express Base Specification 2.0, figure 207: bytes 0, 3, 4, 5, and 160 to 175."""
    log = bytearray(512)
    log[0], log[3], log[4], log[5], log[161] = 0x05, 97, 10, 103, 2

    assert nvme.fields(bytes(log)) == {
        "critical_warning": 5,
        "spare_percent": 97,
        "spare_threshold_percent": 10,
        "used_percent": 103,
        "media_errors": 512,
    }


@pytest.mark.parametrize(("made", "kind"), [(False, "not_found"), (True, "failed")])
def test_a_drive_that_cannot_be_asked_says_why(tmp_path: Path, made: bool, kind: str) -> None:  # noqa: FBT001
    """No device, or one that knows no such command; neither spoils the others."""
    (tmp_path / "nvme/nvme0").mkdir(parents=True)
    if made:
        (tmp_path / "nvme0").write_bytes(b"")
    answer = nvme.health(str(tmp_path / "nvme"), str(tmp_path))

    assert answer["nvme0"]["unread"] == kind
    assert str(tmp_path / "nvme0") in answer["nvme0"]["why"]
    assert nvme.health(str(tmp_path / "none"), str(tmp_path)) == {}
