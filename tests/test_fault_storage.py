"""A scratch that fills up, on a file system of the test's own; shared storage that hangs, by a fake nft."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.fault.node import mount_hang
from gpuassay.fault.node.disk_full import DiskFull
from gpuassay.fault.node.mount_hang import MountHang
from gpuassay.fault.node.words import Blocked, NotRestored, Refused
from nodefault import MARK, FakeNode, broken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount: run pytest as root")
_MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
10.0.0.9:/home /home nfs4 rw,vers=4.2,proto=tcp,addr=10.0.0.9 0 0
10.0.0.9:/fast /fast nfs4 rw,vers=4.2,proto=rdma,addr=10.0.0.9 0 0
mgs@tcp:/lus /lustre lustre rw 0 0
tmpfs /scratch tmpfs rw 0 0
tmpfs /var tmpfs rw 0 0
"""
# nft keeps a table in a file, and what is asked of the server hangs while there is one.
_NFT = """
echo "$*" >> "$ROOT/asked"
case "$1 $2" in
"--version ") ;;
"delete table") [ -e "$ROOT/stuck" ] || rm -f "$ROOT/table" ;;
"list table") [ -e "$ROOT/table" ] ;;
"add table"*) [ -e "$ROOT/deaf" ] || touch "$ROOT/table" ;;
*) [ -e "$ROOT/deaf" ] || touch "$ROOT/table" ;;
esac
"""
_STAT = '[ ! -e "$ROOT/table" ] || exec sleep 30'


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """Give a node with file systems of several kinds, which answer at once or not for long."""
    monkeypatch.setattr(mount_hang, "_LOOK_S", 0.3)
    monkeypatch.setattr(mount_hang, "_BACK_S", 0.3)
    node = FakeNode(tmp_path, monkeypatch)
    node.write("proc/self/mounts", _MOUNTS)
    node.tool("nft", _NFT)
    node.tool("stat", _STAT)
    for path in ("scratch/x", "var/x"):
        node.write(path, "")
    return node


@pytest.fixture
def scratch(node: FakeNode) -> Iterator[Path]:
    """Mount a small file system as the node's scratch."""
    place = node.root / "scratch"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "scratch", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def full(node: FakeNode, **args: Any) -> DiskFull:
    """Fill a file system of the node."""
    return DiskFull({"mark": MARK, **args}, str(node.root))


def hang(node: FakeNode, **args: Any) -> MountHang:
    """Hang a file system of the node."""
    return MountHang({"mark": MARK, **args}, str(node.root))


@needs_root
def test_a_scratch_is_filled_and_emptied(node: FakeNode, scratch: Path) -> None:
    """The file system itself says that it is 95 % full; afterwards what was there before is all that is."""
    (scratch / "theirs").write_bytes(bytes(1_000_000))
    ours = full(node, scratch="/scratch")
    state = broken(ours)
    room = os.statvfs(scratch)
    assert 0.94 <= 1 - room.f_bavail / room.f_blocks <= 0.951
    with pytest.raises(NotRestored, match="still there"):
        ours.verify_undone(state)
    ours.undo(state)
    ours.undo(state)
    assert "nothing of ours is there" in ours.verify_undone(state)
    assert [path.name for path in scratch.iterdir()] == ["theirs"]


@needs_root
def test_a_scratch_without_room_is_left_alone(node: FakeNode, scratch: Path) -> None:
    """One that is nearly full already is not filled further."""
    (scratch / "theirs").write_bytes(bytes(8_000_000))
    with pytest.raises(Refused, match="full already"):
        full(node, path="/scratch").plan()


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({}, "declares no storage of each node's own"),
        ({"path": "/"}, "/ is no file system of its own"),
        ({"path": "/data"}, "/data is no file system of its own"),
        ({"path": "/var"}, "without which the node is lost"),
    ],
)
def test_what_is_never_filled(node: FakeNode, args: dict[str, Any], why: str) -> None:
    """The root file system, whatever its name, and what is no file system of its own, are refused."""
    with pytest.raises(Refused, match=why):
        full(node, **args).plan()


def test_shared_storage_hangs_until_the_rule_is_gone(node: FakeNode) -> None:
    """A rule in a table of our own drops what goes to the server; it has a time of its own, too."""
    ours = hang(node, shared="/home")
    state = broken(ours)
    rules = node.read("asked").splitlines()[1]
    assert f"add element inet gpuassay_{MARK} servers {{ 10.0.0.9 timeout 900s }}" in rules
    assert f"add rule inet gpuassay_{MARK} out ip daddr @servers tcp dport 2049 drop" in rules
    ours.undo(state)
    ours.undo(state)
    assert "/home answers, and nothing of ours holds it up" in ours.verify_undone(state)


def test_a_rule_that_does_not_hold_or_stays(node: FakeNode) -> None:
    """Storage that answers all the same blocks; a table that cannot be taken away is not restored."""
    node.write("deaf", "")
    with pytest.raises(Blocked, match="/home answers all the same"):
        broken(hang(node, path="/home"))
    (node.root / "deaf").unlink()
    ours = hang(node, path="/home")
    state = broken(ours)
    node.write("stuck", "")
    ours.undo(state)
    with pytest.raises(NotRestored, match="is still there"):
        ours.verify_undone(state)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({}, "declares no storage that all nodes share"),
        ({"path": "/nowhere"}, "is not mounted: only NFS and FUSE"),
        ({"path": "/lustre"}, "is lustre: only NFS and FUSE"),
        ({"path": "/fast"}, "mounted over RDMA"),
    ],
)
def test_what_cannot_be_hung(node: FakeNode, args: dict[str, Any], why: str) -> None:
    """What no rule could hold up is refused before nft is asked for anything."""
    with pytest.raises(Refused, match=why):
        hang(node, **args).plan()
    assert not (node.root / "asked").exists()
