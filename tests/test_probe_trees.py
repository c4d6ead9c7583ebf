"""Documents from folders of /sys: what is there, what is rightly absent, and what was refused."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import files, trees

if TYPE_CHECKING:
    from pathlib import Path


def lay(folder: Path, **contents: str) -> Path:
    """Lay out a folder of one-line attributes; two underscores stand for a slash."""
    for name, text in contents.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return folder


def refuse(monkeypatch: pytest.MonkeyPatch, pattern: str, number: int) -> None:
    """Let the system refuse to read the files that match, with this error number."""
    read = files.contents

    def reading(path: str, size: int) -> bytes:
        if re.search(pattern, path):
            raise OSError(number, "", path)
        return read(path, size)

    monkeypatch.setattr(files, "contents", reading)


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    """Lay out a /sys with one GPU behind a bridge, as the kernel does: devices, and links to them."""
    bridge = tmp_path / "devices/pci0000:17/0000:17:01.0"
    gpu = lay(
        bridge / "0000:18:00.0",
        vendor="0x10de",
        device="0x2901",
        current_link_width="8",
        numa_node="0",
        serial="secret",
    )
    lay(bridge, vendor="0x8086")
    (tmp_path / "drivers/nvidia").mkdir(parents=True)
    (gpu / "driver").symlink_to(tmp_path / "drivers/nvidia")
    listed = tmp_path / "bus/pci/devices"
    listed.mkdir(parents=True)
    for device in (bridge, gpu):
        (listed / device.name).symlink_to(device)
    return tmp_path


def test_pci_devices(sys: Path) -> None:
    """Each device with its attributes, its driver and the bridge above it; and nothing more."""
    assert trees.pci(str(sys / "bus/pci/devices")) == {
        "0000:17:01.0": {"vendor": "0x8086"},
        "0000:18:00.0": {
            "vendor": "0x10de",
            "device": "0x2901",
            "current_link_width": "8",
            "numa_node": "0",
            "driver": "nvidia",
            "parent": "0000:17:01.0",
        },
    }


def test_a_refused_attribute_says_why(sys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link width that the device does not give is not the same as one that it does not have."""
    refuse(monkeypatch, "current_link_width", errno.EINVAL)
    gpu = trees.pci(str(sys / "bus/pci/devices"))["0000:18:00.0"]
    assert gpu["current_link_width"]["unread"] == "failed"
    assert gpu["current_link_width"]["why"].endswith("current_link_width: Invalid argument")
    assert "max_link_width" not in gpu


def test_no_pci_bus(tmp_path: Path) -> None:
    """A machine with other buses and no PCI has no devices: that is a reading."""
    (tmp_path / "bus/virtio").mkdir(parents=True)
    assert trees.pci(str(tmp_path / "bus/pci/devices")) == {}


@pytest.mark.parametrize("there", ["bus", "."], ids=["empty", "absent"])
def test_a_masked_sys_proves_nothing(tmp_path: Path, there: str) -> None:
    """Where /sys itself is hidden, as some containers do, no device is not a reading."""
    (tmp_path / there).mkdir(exist_ok=True)
    with pytest.raises(FileNotFoundError):
        trees.pci(str(tmp_path / "bus/pci/devices"))


GLOBAL = "0000:0000:0000:0000:0000:ffff:0a00:0001"
LOCAL = "fe80:0000:0000:0000:0a0b:0cff:fe0d:0e0f"
GIDS = {0: LOCAL, 3: GLOBAL, 200: GLOBAL}
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"


@pytest.fixture
def port(tmp_path: Path) -> Path:
    """Lay out the RoCE port of an adapter whose GID table of 255 slots has three entries."""
    adapter = lay(
        tmp_path / "devices/pci0000:16/0000:1a:00.0/infiniband/mlx5_0",
        fw_ver="28.41.1000",
        node_guid="0a0b:0c03:000d:0e0f",
        ports__1__state="4: ACTIVE",
        ports__1__link_layer="Ethernet",
        ports__1__counters__link_downed="1",
        ports__1__counters__port_xmit_data="230442669431839",
        ports__1__hw_counters__out_of_sequence="7",
        ports__1__pkeys__0="0xffff",
        ports__1__pkeys__1="0x0000",
    )
    lay(adapter / "ports/1/gids", **{str(slot): GIDS.get(slot, ZERO) for slot in range(255)})
    lay(adapter / "ports/1/gid_attrs/types", **{str(slot): f"RoCE v{2 if slot else 1}" for slot in GIDS})
    lay(adapter / "ports/1/gid_attrs/ndevs", **{str(slot): "eth0" for slot in GIDS})
    (adapter / "device").symlink_to(tmp_path / "devices/pci0000:16/0000:1a:00.0")
    (tmp_path / "class/infiniband").mkdir(parents=True)
    (tmp_path / "class/infiniband/mlx5_0").symlink_to(adapter)
    return tmp_path / "class/infiniband"


def test_rdma_devices(port: Path) -> None:
    """A sparse GID table comes without its empty slots, the other tables for the same slots."""
    assert trees.infiniband(str(port)) == {
        "mlx5_0": {
            "fw_ver": "28.41.1000",
            "node_guid": "0a0b:0c03:000d:0e0f",
            "pci": "0000:1a:00.0",
            "ports": {
                "1": {
                    "state": "4: ACTIVE",
                    "link_layer": "Ethernet",
                    "counters": {"link_downed": "1"},
                    "hw_counters": {"out_of_sequence": "7"},
                    "pkeys": {"0": "0xffff"},
                    "gids": {"0": LOCAL, "3": GLOBAL, "200": GLOBAL},
                    "types": {"0": "RoCE v1", "3": "RoCE v2", "200": "RoCE v2"},
                    "ndevs": {"0": "eth0", "3": "eth0", "200": "eth0"},
                }
            },
        }
    }


def test_slots_of_another_network_namespace(port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that answer EINVAL are empty from here; one that is denied is not."""
    refuse(monkeypatch, r"types/3$|ndevs/", errno.EINVAL)
    refuse(monkeypatch, r"types/200$", errno.EACCES)
    found = trees.infiniband(str(port))["mlx5_0"]["ports"]["1"]
    assert found["types"]["0"] == "RoCE v1"
    assert "3" not in found["types"]
    assert found["types"]["200"]["unread"] == "denied"
    assert found["ndevs"] == {}


def test_no_rdma_class(tmp_path: Path) -> None:
    """A kernel without RDMA has no devices, while /sys/class is there."""
    (tmp_path / "class/net").mkdir(parents=True)
    assert trees.infiniband(str(tmp_path / "class/infiniband")) == {}


def test_a_device_without_ports(port: Path) -> None:
    """Ports that cannot be listed are unread, not none."""
    (port / "mlx5_1").mkdir()
    assert trees.infiniband(str(port))["mlx5_1"]["ports"]["unread"] == "not_found"


def test_network_interfaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interfaces with the PCI device behind them, also through virtio; one without a speed has none."""
    virtio = tmp_path / "devices/pci0000:00/0000:00:03.0/virtio0"
    lay(virtio / "net/eth0", operstate="up", mtu="9000", speed="-1")
    lay(tmp_path / "devices/virtual/net/lo", operstate="unknown", mtu="65536", speed="")
    listed = tmp_path / "class/net"
    lay(listed, bonding_masters="")
    (virtio / "net/eth0/device").symlink_to(virtio)
    (listed / "eth0").symlink_to(virtio / "net/eth0")
    (listed / "lo").symlink_to(tmp_path / "devices/virtual/net/lo")
    refuse(monkeypatch, "lo/speed", errno.EINVAL)
    assert trees.net(str(listed)) == {
        "eth0": {"operstate": "up", "mtu": "9000", "speed": "-1", "pci": "0000:00:03.0"},
        "lo": {"operstate": "unknown", "mtu": "65536"},
    }


def test_firmware_without_serial_numbers(tmp_path: Path) -> None:
    """The maker and the product are read; serial numbers are not even asked for."""
    lay(tmp_path, sys_vendor="Example", product_name="Node", product_serial="S1", chassis_type="23")
    assert trees.dmi(str(tmp_path)) == {"sys_vendor": "Example", "product_name": "Node", "chassis_type": "23"}
    with pytest.raises(FileNotFoundError):
        trees.dmi(str(tmp_path / "none"))


def test_counts_of_pci_errors(sys: Path) -> None:
    """Totals and what is not zero, of what carries traffic; nothing of a function that counts none."""
    gpu = sys / "devices/pci0000:17/0000:17:01.0/0000:18:00.0"
    lay(gpu, **{"class": "0x030200", "aer_dev_correctable": "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3"})
    lay(gpu.parent, **{"class": "0x060400"})
    devices = trees.pci(str(sys / "bus/pci/devices"))
    assert devices["0000:18:00.0"]["aer"] == {"aer_dev_correctable": "RxErr 3\nTOTAL_ERR_COR 3"}
    assert devices["0000:17:01.0"]["aer"] == {}
    totals = ("aer_dev_correctable", "COR"), ("aer_dev_nonfatal", "NONFATAL"), ("aer_dev_fatal", "FATAL")
    lay(gpu.parent, **{name: f"DLP 0\nTOTAL_ERR_{total} 0" for name, total in totals})
    assert trees.pci(str(sys / "bus/pci/devices"))["0000:17:01.0"]["aer"] == 0
    lay(gpu.parent, **{"class": "0x060000"})
    assert "aer" not in trees.pci(str(sys / "bus/pci/devices"))["0000:17:01.0"]
