"""What the probe asks about the fabric: priorities by netlink, settings by name, modules, bridges."""

from __future__ import annotations

import errno
import struct
import sys
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import dcb, nccl, trees

if TYPE_CHECKING:
    from pathlib import Path


def attribute(kind: int, value: bytes) -> bytes:
    """Write an attribute of netlink, padded."""
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def reply(*attributes: bytes, kind: int = 78) -> bytes:
    """Write a message of the kernel's about one interface."""
    body = struct.pack("=BBH", 0, 21, 0) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


def test_lossless_priorities_are_bits() -> None:
    """ieee_pfc: capabilities, then one bit for each priority; attributes before it are passed over."""
    pfc = attribute(2, bytes([8, 0b00001000, 0, 0]) + bytes(132))
    assert dcb.answer(
        reply(attribute(1, b"eth0\0"), attribute(13 | 0x8000, attribute(1, bytes(8)) + pfc))
    ) == {"pfc": [3]}


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EOPNOTSUPP, "unsupported"), (errno.EPERM, "denied"), (errno.EINVAL, "failed")]
)
def test_an_interface_without_the_setting(number: int, kind: str) -> None:
    """The kernel answers with an error, and that is told from a refusal."""
    body = (-number).to_bytes(4, sys.byteorder, signed=True) + bytes(16)
    message = struct.pack("=IHHII", 16 + len(body), 2, 0, 1, 0) + body
    assert dcb.answer(message)["unread"] == kind


@pytest.mark.parametrize("cut", range(16, 60, 3))
def test_a_message_that_is_cut_is_no_answer(cut: int) -> None:
    """Nor does it make the reader raise."""
    whole = reply(attribute(13, attribute(2, bytes([8, 8, 0, 0]) + bytes(132))))
    assert "pfc" not in dcb.answer(whole[:cut])


def test_this_machine_is_asked() -> None:
    """The kernel takes the question: for each interface with a device an answer or a reason."""
    assert all("pfc" in answer or "unread" in answer for answer in dcb.dcb().values())


def test_only_listed_names_are_read_and_comments_are_not(tmp_path: Path) -> None:
    """What else is in the environment and in the files is none of our business."""
    own, system = tmp_path / ".nccl.conf", tmp_path / "nccl.conf"
    own.write_text("NCCL_ALGO=Ring\nAWS_SECRET_ACCESS_KEY=secret\n")
    system.write_text("# NCCL_PROTO=LL\n#NCCL_MIN_NCHANNELS=4\nNCCL_IB_HCA==mlx5_0\nno setting\n")
    given = {"HOME": str(tmp_path), "NCCL_DEBUG": "WARN", "HF_TOKEN": "secret", "NCCL_SECRET": "secret"}
    found = nccl.found(given, str(system))
    assert found["environment"] == {"NCCL_DEBUG": "WARN"}
    assert found["files"] == [
        {"path": str(own), "settings": [["NCCL_ALGO", "Ring"]]},
        {"path": str(system), "settings": [["NCCL_IB_HCA", "=mlx5_0"]]},
    ]
    assert "secret" not in str(found)


def test_a_file_of_ones_own_choice_takes_the_place_of_the_user_s(tmp_path: Path) -> None:
    """And one that cannot be read says so."""
    (tmp_path / ".nccl.conf").write_text("NCCL_ALGO=Ring\n")
    given = {"HOME": str(tmp_path), "NCCL_CONF_FILE": str(tmp_path)}
    (file,) = nccl.found(given, str(tmp_path / "none"))["files"]
    assert (file["path"], file["unread"]) == (str(tmp_path), "failed")


def test_a_topology_file_that_is_not_there_and_plugins(tmp_path: Path) -> None:
    """Plugins on the library path are found first."""
    (tmp_path / "libnccl-net.so").touch()
    (tmp_path / "libnccl.so").touch()
    given = {"HOME": "/none", "LD_LIBRARY_PATH": f":{tmp_path}:.", "NCCL_TOPO_FILE": "/none/topo.xml"}
    found = nccl.found(given, "/none")
    assert found["topology_file"] == {"path": "/none/topo.xml", "there": False}
    assert found["plugins"][0] == str(tmp_path / "libnccl-net.so")
    assert not any(path.endswith("libnccl.so") for path in found["plugins"])


def test_modules_are_of_a_short_list(tmp_path: Path) -> None:
    """Others are not named."""
    for name in ("nvidia_peermem", "secret_module"):
        (tmp_path / "module" / name).mkdir(parents=True)
    (tmp_path / "module/nvidia_peermem/version").write_text("580.95.05\n")
    assert trees.modules(str(tmp_path / "module")) == {"nvidia_peermem": {"version": "580.95.05"}}


@pytest.mark.parametrize(("data", "seen"), [(b"\x82\0SN:1\0V1SMDL=SW_MNG", True), (b"\x82\0SN:1", False)])
def test_a_bridge_to_nvswitches_is_told_by_its_product_data(
    tmp_path: Path, data: bytes, *, seen: bool
) -> None:
    """Only whether the mark is there is kept: product data has serial numbers."""
    adapter = tmp_path / "class/infiniband/mlx5_4"
    (adapter / "ports/1").mkdir(parents=True)
    (adapter / "device").mkdir()
    (adapter / "hca_type").write_text("MT4129\n")
    (adapter / "ports/1/link_layer").write_text("InfiniBand\n")
    (adapter / "device/vpd").write_bytes(data)
    found = trees.infiniband(str(tmp_path / "class/infiniband"))["mlx5_4"]
    assert found["manages_nvswitch"] is seen
    assert "SN" not in str(found)
