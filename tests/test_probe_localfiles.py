"""Mounts, the node's own name and the kernel's command line: what is kept of them, and what is not."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import localfiles

if TYPE_CHECKING:
    from pathlib import Path

SHM, TMP = "/dev/shm", "/tmp"  # noqa: S108 - names in a table
TABLE = """\
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
24 27 0:24 / /dev/shm rw,nosuid shared:4 master:2 - tmpfs tmpfs rw,size=64k,secret=abc
30 27 0:25 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw,size=65536k
31 27 0:50 / /tmp rw - nfs4 server:/scratch rw,vers=4.2,addr=10.0.0.7
40 27 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate
41 27 0:29 / /var/lib/odd
"""


def test_a_place_is_on_the_mount_that_leads_to_it(tmp_path: Path) -> None:
    """The longest, and of two on one another the newer; options that hold names or secrets are left out."""
    (tmp_path / "mountinfo").write_text(TABLE)
    found = localfiles.mounts(str(tmp_path / "mountinfo"))
    places = found["places"]
    assert (places["/"]["mount"], places["/"]["super"]) == ("/", "rw,errors=remount-ro")
    assert (places["/var/log"]["mount"], places["/var/log"]["type"]) == ("/", "ext4")
    assert (places[SHM]["options"], places[SHM]["super"]) == (
        "rw,nosuid,nodev",
        "rw,size=65536k",
    )
    assert places["/"]["bytes"] >= places["/"]["bytes_free"]
    assert found["cgroups"] == [{"at": "/sys/fs/cgroup", "type": "cgroup2"}]
    for secret in ("abc", "server", "10.0.0.7", "sda2"):
        assert secret not in repr(found)


def test_a_file_system_on_a_network_is_not_asked_for_its_space(tmp_path: Path) -> None:
    """It might never answer."""
    (tmp_path / "mountinfo").write_text(TABLE)
    assert "bytes" not in localfiles.mounts(str(tmp_path / "mountinfo"))["places"][TMP]


@pytest.mark.parametrize("table", ["", "no mounts\n", " - \n", "1 2 3 / / rw - ext4\n"])
def test_an_odd_table_of_mounts_has_no_places(tmp_path: Path, table: str) -> None:
    """What is no line of mountinfo is no mount."""
    (tmp_path / "mountinfo").write_text(table)
    assert localfiles.mounts(str(tmp_path / "mountinfo"))["places"]["/"]["unread"] == "not_found"


def test_only_known_words_of_the_command_line_are_kept(tmp_path: Path) -> None:
    """Addresses, tokens and passwords stay on the node; how many words were left out is said."""
    line = "root=UUID=1 iommu=pt intel_iommu=on,sm_on pci=disable_acs_redir=pci:8086:352a ds=nocloud;s=http://x/t0k"
    (tmp_path / "cmdline").write_text(f"{line} iommu.passthrough=1 pcie_aspm=off\n")
    found = localfiles.cmdline(str(tmp_path / "cmdline"))
    assert found["words"] == ["iommu=pt", "intel_iommu=on,sm_on", "iommu.passthrough=1", "pcie_aspm=off"]
    assert found["others"] == 3


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[int, str]) -> None:
    """Let the node's own name lead to these addresses."""
    found = [
        (family, socket.SOCK_DGRAM, 17, "", (address, 0) if family == socket.AF_INET else (address, 0, 0, 0))
        for family, address in addresses
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_the_own_name_and_whose_its_addresses_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is the node's own; 192.0.2.1 (RFC 5737) is nobody's; no address itself is kept."""
    answers(
        monkeypatch,
        (socket.AF_INET, "127.0.1.1"),
        (socket.AF_INET, "127.0.1.1"),
        (socket.AF_INET, "192.0.2.1"),
        (socket.AF_INET, "169.254.1.1"),
    )
    found = localfiles.own_name()
    assert [(one["kind"], one["own"]) for one in found["addresses"]] == [
        ("loopback", True),
        ("other", False),
        ("link-local", False),
    ]
    assert "192.0.2.1" not in repr(found)


def test_a_name_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is an answer, with the resolver's reason."""

    def refuse(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert localfiles.own_name() == {"addresses": [], "why": "Name or service not known"}
