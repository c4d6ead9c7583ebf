"""File systems that hold data: which are told of, what is left out of them, and one that never answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuassay.probe import storage
from gpuassay.probe.items import QUESTIONS

QUESTION = next(one for one in QUESTIONS if one.id == "storage")
TABLE = """\
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=remount-ro
28 27 0:24 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=64k
29 27 0:31 / {at} rw,nosuid - nfs4 alice:pass@nfs1:/exp/my\\040home rw,vers=4.2,soft,nconnect=16,addr=10.0.0.7
30 27 0:32 /team /data rw - fuse.objects https://key:secret@store/bucket?token=abc rw,user_id=1000
31 27 0:33 / /lfs rw - lustre 10.0.0.9@o2ib:/lfs rw,flock,lazystatfs
32 27 0:34 / /net rw - autofs /etc/auto.net rw,fd=7,pgrp=1
33 27 0:35 / /var/lib/kubelet/pods/1/volumes rw - nfs4 nfs2:/pvc rw
34 27 0:36 / /run/user/0 rw - fuse.portal portal rw
35 27 0:37 / /proc rw - proc proc rw
36 27 0:38 / {at} ro - nfs4 nfs1:/export/home ro,vers=4.2,hard
"""

# A FUSE mount whose server never reads its first request: whoever looks at it waits for ever.
DEAD_MOUNT = """
import ctypes, os, sys
from gpuassay.probe import storage
from gpuassay.probe.items import QUESTIONS

libc = ctypes.CDLL(None, use_errno=True)
server = os.open("/dev/fuse", os.O_RDWR)
for place in sys.argv[1:]:
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"nfs1:/export/home", place.encode(), b"fuse.dead", 0, options):
        sys.exit(os.strerror(ctypes.get_errno()))
    server = os.open("/dev/fuse", os.O_RDWR)
question = next(one for one in QUESTIONS if one.id == "storage")
print(storage.ask(question, stall_s=0.2).out.decode())
"""


def told(tmp_path: Path, table: str = TABLE) -> dict[str, Any]:
    """Give what the probe tells of a machine with this table of mounts, its home at ``tmp_path``."""
    (tmp_path / "mountinfo").write_text(table.format(at=tmp_path))
    answer = storage.ask(QUESTION, table=str(tmp_path / "mountinfo"))
    assert answer.status == "ok"
    return dict(json.loads(answer.out))


def test_what_holds_data_is_told_of_and_what_the_system_mounts_is_not(tmp_path: Path) -> None:
    """The network's come first; of two on one another the newer counts."""
    found = told(tmp_path)
    assert [one["at"] for one in found["mounts"]] == ["/data", "/lfs", "/net", str(tmp_path), "/"]
    home = found["mounts"][3]
    assert (home["source"], home["options"], home["super"]) == (
        "nfs1:/export/home",
        "ro",
        "ro,vers=4.2,hard",
    )
    assert found["left_out"] == 0


def test_no_user_key_or_address_is_kept(tmp_path: Path) -> None:
    """Of a source the server and the export stay, of options the words of a list; an escape is read."""
    older = "".join(line for line in TABLE.splitlines(keepends=True) if not line.startswith("36"))
    found = {one["at"]: one for one in told(tmp_path, older)["mounts"]}
    home = found[str(tmp_path)]
    assert home["source"] == "nfs1:/exp/my home"
    assert home["super"] == "rw,vers=4.2,soft,nconnect=16"
    assert (found["/data"]["source"], found["/data"]["root"]) == ("https://store/bucket", "/team")
    assert found["/lfs"]["source"] == "10.0.0.9@o2ib:/lfs"
    for secret in ("alice", "pass", "secret", "abc", "10.0.0.7", "1000"):
        assert secret not in json.dumps(found)


def test_each_is_asked_for_its_room(tmp_path: Path) -> None:
    """One that is not there says so, one that is mounted on demand is let be, snapshots are counted."""
    (tmp_path / ".snapshot" / "daily").mkdir(parents=True)
    spaces = {one["at"]: one["space"] for one in told(tmp_path)["mounts"]}
    here = spaces[str(tmp_path)]
    assert here["bytes"] >= here["bytes_free"] > 0
    assert (here["snapshots"], here["writable_for_us"]) == (1, True)
    assert here["inode"] == tmp_path.stat().st_ino
    assert spaces["/lfs"]["unread"] == "not_found"
    assert "until somebody looks" in spaces["/net"]["why"]


def test_a_local_one_names_its_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a partition and a RAID, down to the drives; so it can be told whether they are NVMe."""
    block = tmp_path / "block"
    for disk in ("nvme0n1", "nvme1n1"):
        (block / disk / f"{disk}p1").mkdir(parents=True)
        (block / disk / f"{disk}p1" / "partition").write_text("1\n")
    (block / "md0" / "slaves").mkdir(parents=True)
    for disk in ("nvme0n1", "nvme1n1"):
        (block / "md0" / "slaves" / f"{disk}p1").symlink_to(block / disk / f"{disk}p1")
    numbers = tmp_path / "dev"
    numbers.mkdir()
    (numbers / "254:0").symlink_to(block / "md0")
    monkeypatch.setattr(storage, "_BLOCK", str(numbers))
    assert told(tmp_path)["mounts"][-1]["drives"] == ["nvme0n1", "nvme1n1"]


def test_an_nfs_file_system_has_the_number_that_its_server_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel lists it by device; it tells two file systems apart, and one of two addresses together."""
    volumes = tmp_path / "volumes"
    volumes.write_text(
        "NV SERVER   PORT DEV          FSID                              FSC\n"
        "v4 0a000007  801 0:38         5c1d6a9f3b2e4d10:0                no \n"
    )
    monkeypatch.setattr(storage, "_NFS_VOLUMES", str(volumes))
    found = {one["at"]: one for one in told(tmp_path)["mounts"]}
    assert found[str(tmp_path)]["fsid"] == "5c1d6a9f3b2e4d10:0"
    assert "fsid" not in found["/lfs"]


def test_more_mounts_than_are_told_of_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is not passed over in silence."""
    monkeypatch.setattr(storage, "MOST", 2)
    found = told(tmp_path)
    assert (len(found["mounts"]), found["left_out"]) == (2, 3)


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    """The whole item says why."""
    answer = storage.ask(QUESTION, table=str(tmp_path / "none"))
    assert (answer.status, answer.out) == ("not_found", b"")


def test_a_mount_that_never_answers_is_named_and_the_others_are_told_of(tmp_path: Path) -> None:
    """A real one, of a server that is gone: it is timed out, and its server is not asked twice."""
    unshare = ("unshare", "--user", "--map-root-user", "--mount")
    can = shutil.which("unshare") and subprocess.run([*unshare, "true"], check=False).returncode == 0
    if not (can and Path("/dev/fuse").exists() and os.access("/dev/fuse", os.W_OK)):
        pytest.skip("no user namespaces or no /dev/fuse here")
    places = [tmp_path / name for name in ("data", "home", "live")]
    for place in places:
        place.mkdir()
    command = [*unshare, sys.executable, "-c", DEAD_MOUNT, *map(str, places[:2])]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env={**os.environ, **path}, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    spaces = {one["at"]: one["space"] for one in json.loads(done.stdout)["mounts"]}
    first, second = (spaces[str(place)] for place in places[:2])
    assert first == {"unread": "timed_out", "why": "no answer within 0.2 s"}
    assert second == {"unread": "timed_out", "why": "not asked: another mount of nfs1 gave no answer"}
    assert spaces["/"]["bytes"] > 0
