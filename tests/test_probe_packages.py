"""Packages: the few that are asked for are read from dpkg's file, and nothing else of it leaves the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.probe.packages import NAMES, RPM, boot, installed

if TYPE_CHECKING:
    from pathlib import Path

STATUS = """\
Package: runc
Status: install ok installed
Maintainer: somebody <somebody@example.org>
Source: runc-app
Version: 1.3.3-0ubuntu1~24.04.2
Description: Open Container Project - runtime
 a longer text

Package: secret-tool
Status: install ok installed
Version: 1.0

Package: linux-image-6.8.0-137-generic
Status: install ok installed
Version: 6.8.0-137.137

Package: docker-ce
Status: deinstall ok config-files
Version: 5:27.0.0-1

Package: nvidia-fabricmanager-580
Status: hold ok installed
Version: 580.159.03-1
"""


def test_only_what_is_asked_for_and_installed(tmp_path: Path) -> None:
    """Version and source of the listed packages; a removed one and all others stay out of it."""
    path = tmp_path / "status"
    path.write_text(STATUS)
    assert installed(str(path)) == {
        "runc": {"version": "1.3.3-0ubuntu1~24.04.2", "source": "runc-app"},
        "linux-image-6.8.0-137-generic": {"version": "6.8.0-137.137"},
        "nvidia-fabricmanager-580": {"version": "580.159.03-1"},
    }


def test_noise_lists_nothing(tmp_path: Path) -> None:
    """Bytes that are no such file give no package."""
    path = tmp_path / "status"
    path.write_bytes(bytes(range(256)) * 4)
    assert installed(str(path)) == {}


def test_rpm_is_asked_for_the_same_names() -> None:
    """The command names every package, and prints one line for each."""
    assert RPM[-len(NAMES) :] == NAMES


def test_kernels_that_can_be_started(tmp_path: Path) -> None:
    """Names that begin with vmlinuz-, and no other."""
    for name in ("vmlinuz-6.8.0-137-generic", "initrd.img-6.8.0-137-generic", "vmlinuz", "grub"):
        (tmp_path / name).touch()
    assert boot(str(tmp_path)) == {"kernels": ["vmlinuz-6.8.0-137-generic"]}
