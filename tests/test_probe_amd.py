"""Documents from what AMD's driver shows below /sys."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import amd
from test_probe_trees import lay, refuse

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "0000:05:00.0"


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """Lay out a driver that holds one GPU, as the kernel does: links between its own files."""
    device = lay(
        tmp_path / "devices" / ADDRESS,
        unique_id="a1b2",
        current_compute_partition="SPX",
        xgmi_num_links="00 01",
        power__runtime_status="active",
        hwmon__hwmon7__power1_cap="1400000000",
        hwmon__hwmon7__temp2_label="junction",
        ras__features="feature mask: 0x1",
        ras__umc_err_count="ue: 0\nce: 1",
        ras__gpu_vram_bad_pages="0x00000001 : 0x00001000 : R",
        asic_name="not asked for",
    )
    folder = tmp_path / "drivers" / "amdgpu"
    folder.mkdir(parents=True)
    (folder / ADDRESS).symlink_to(device)
    (folder / "module").symlink_to(tmp_path)
    (folder / "new_id").write_text("")
    return folder


def test_what_the_driver_holds(held: Path) -> None:
    """A GPU is what has an address, and nothing is read that is not on the list."""
    assert amd.amdgpu(str(held)) == {
        ADDRESS: {
            "unique_id": "a1b2",
            "current_compute_partition": "SPX",
            "xgmi_num_links": "00 01",
            "sensors": {"power1_cap": "1400000000", "temp2_label": "junction"},
            "ras": {
                "features": "feature mask: 0x1",
                "umc_err_count": "ue: 0\nce: 1",
                "gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R",
            },
        }
    }


def test_no_driver_is_not_a_masked_sys(tmp_path: Path) -> None:
    """Absence is a finding only where the folder above shows that /sys is there."""
    (tmp_path / "drivers" / "nvme").mkdir(parents=True)
    assert amd.amdgpu(str(tmp_path / "drivers" / "amdgpu")) == {}
    (tmp_path / "drivers" / "nvme").rmdir()
    with pytest.raises(FileNotFoundError):
        amd.amdgpu(str(tmp_path / "drivers" / "amdgpu"))


def test_a_gpu_that_sleeps_is_not_asked_for_errors(held: Path) -> None:
    """Its counters would be those of nothing."""
    (held / ADDRESS / "power/runtime_status").write_text("suspended\n")
    assert amd.amdgpu(str(held))[ADDRESS]["ras"]["unread"] == "failed"


def test_a_sensor_that_is_not_there_is_left_out(held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not supported is absent; what is refused is said."""
    refuse(monkeypatch, "power1_cap$", errno.EOPNOTSUPP)
    assert "power1_cap" not in amd.amdgpu(str(held))[ADDRESS]["sensors"]
    refuse(monkeypatch, "bad_pages$", errno.EACCES)
    assert amd.amdgpu(str(held))[ADDRESS]["ras"]["gpu_vram_bad_pages"]["unread"] == "denied"


def test_more_pages_than_can_be_kept_are_no_list(held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a list would be read as fewer pages."""
    monkeypatch.setattr(amd, "_PAGES_CAP", 10)
    assert amd.amdgpu(str(held))[ADDRESS]["ras"]["gpu_vram_bad_pages"]["unread"] == "failed"


def test_the_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node as it is; one that a container may not read says so."""
    nodes = tmp_path / "class/kfd/kfd/topology/nodes"
    lay(
        nodes,
        **{"0__name": "", "0__properties": "simd_count 0", "1__name": "x", "1__properties": "simd_count 4"},
    )
    refuse(monkeypatch, "1/properties$", errno.EPERM)
    found = amd.kfd(str(nodes))
    assert found["0"] == {"name": "", "properties": "simd_count 0"}
    assert found["1"]["unread"] == "denied"
    assert amd.kfd(str(tmp_path / "class/none/kfd/topology/nodes")) == {}


def test_the_users_of_amd_gpus_are_counted(tmp_path: Path) -> None:
    """Each process has a folder named by its number; without that list nothing is known, not even zero."""
    for name in ("812", "90210", "stats"):
        (tmp_path / "proc" / name).mkdir(parents=True)
    assert amd.users(str(tmp_path / "proc")) == {"processes": 2}
    with pytest.raises(FileNotFoundError):
        amd.users(str(tmp_path / "none"))
