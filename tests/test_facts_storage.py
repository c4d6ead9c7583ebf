"""File systems as facts: which one a path is on, whether it answers, whether many nodes have the same."""

from __future__ import annotations

from typing import Any

import pytest

from facts_evidence import evidence, unread, value
from gpuassay.facts.mounts import Mounts, Volume
from gpuassay.facts.volumes import AllShared, DeclaredVolume, ObjectStore
from gpuassay.judge.fact import Read
from gpuassay.judge.services import S3, Mount

TB = 10**12
HOME = Mount("/home", "home", shared=True, capacity_tb=10)
SPACE = {"bytes": 10 * TB, "bytes_free": 4 * TB, "inodes": 0, "inodes_free": 0, "inode": 128}


def entry(at: str = "/home", source: str = "nfs1:/export/home", **more: Any) -> dict[str, Any]:
    """Give what the probe tells of a mount by NFS."""
    told = {"at": at, "type": "nfs4", "source": source, "options": "rw", "super": "rw,hard", "local": False}
    return {**told, "space": SPACE, **more}


ROOT = entry("/", "/dev/sda1", type="ext4", local=True, drives=["sda"])


def mounts(*entries: dict[str, Any], node: str = "gpu001", **more: Any) -> Mounts:
    """Give the file systems of a node that has these mounts, and a disk."""
    told = {"mounts": [*entries, ROOT], "links": {}, "left_out": 0, **more}
    return Mounts(node, evidence({"storage": told}))


def home(*entries: dict[str, Any], mount: Mount = HOME) -> DeclaredVolume:
    """Give the home of a cluster of which each node has one of these entries; None has a folder."""
    nodes = (mounts(*([one] if one else []), node=f"gpu{number:03}") for number, one in enumerate(entries, 1))
    return DeclaredVolume(mount, (each.at(mount.path) for each in nodes))


def lack(fact: Any) -> tuple[str, str]:
    """Give the kind and the words of what was not read."""
    return unread(fact).kind, unread(fact).why


def test_a_path_is_on_the_longest_mount_that_leads_to_it() -> None:
    """Not on one whose name only begins alike; a link in / is followed."""
    node = mounts(entry("/home"), entry("/home/team", "nfs1:/team"), entry("/mnt/data", "nfs1:/data"))
    assert value(node.at("/home/team/a").source) == "nfs1:/team"
    assert value(node.at("/home/teams").source) == "nfs1:/export/home"
    assert value(node.at("/homeless").shared) is False
    linked = mounts(entry("/mnt/data", "nfs1:/data"), links={"/data": "/mnt/data"})
    assert value(linked.at("/data").source) == "nfs1:/data"
    assert linked.at("/data").where == "gpu001/data"


def test_a_folder_of_the_nodes_own_is_no_shared_storage() -> None:
    """The reason names what is there instead; an automounter hides it, which is not the same."""
    assert value(mounts().at("/home").shared) is False
    assert "/home is on / (ext4)" in mounts().at("/home").shared.note  # type: ignore[union-attr]
    kind, why = lack(mounts(entry(type="autofs")).at("/home").shared)
    assert (kind, "automounter" in why) == ("denied", True)
    assert value(mounts().at("/scratch").own) is False


def test_mounts_that_were_not_told_of_leave_a_doubt() -> None:
    """With one left out, the nearest mount of a path may be that one; its own place leaves none."""
    node = mounts(entry(), left_out=1)
    assert lack(node.at("/data").shared)[0] == "failed"
    assert value(node.at("/home").shared) is True


@pytest.mark.parametrize("kind", ["timed_out", "failed"])
def test_a_mount_that_gives_no_answer_is_a_fault_and_not_unknown(kind: str) -> None:
    """It is named with its reason; its room is unread; one that may not be asked is another matter."""
    volume = mounts(entry(space={"unread": kind, "why": "no answer within 5 s"})).at("/home")
    assert volume.answers == Read(value=False, evidence="nodes/n1#1", note="no answer within 5 s")
    assert lack(volume.amount("bytes"))[0] == kind
    denied = mounts(entry(space={"unread": "denied", "why": "/home: Permission denied"})).at("/home")
    assert lack(denied.answers)[0] == "denied"


def test_how_it_is_mounted() -> None:
    """Soft, read-only and local locks are told from the options, by whole words."""
    options = "rw,vers=4.2,softerr,local_lock=flock,nconnect=8,timeo=600"
    volume = mounts(entry(super=options, options="ro,nosuid")).at("/home")
    assert (value(volume.soft), value(volume.local_locks), value(volume.read_only)) == (True, True, True)
    assert value(volume.mounted_as) == "nfs4 vers=4.2,softerr,local_lock=flock,nconnect=8"
    other = mounts(entry(super="rw,hard,local_lock=none,errors=softly", options="rw")).at("/home")
    assert (value(other.soft), value(other.local_locks), value(other.read_only)) == (False, False, False)


def test_scratch_is_on_nvme_only_if_every_disk_below_it_is() -> None:
    """One slow disk makes a slow RAID; no disk at all proves nothing."""

    def scratch(*drives: str) -> Volume:
        return mounts(entry("/scratch", "/dev/md0", type="xfs", local=True, drives=[*drives])).at("/scratch")

    assert value(scratch("nvme0n1", "nvme1n1").on_nvme) is True
    assert value(scratch("nvme0n1", "sda").on_nvme) is False
    assert value(scratch().on_nvme) is False


def test_one_file_system_by_several_addresses() -> None:
    """The server's number for it decides, whatever the address; without it a doubt is said."""
    addresses = [entry(source=f"10.0.0.{n}:/export/home") for n in (1, 2, 3)]
    numbered = home(*({**one, "fsid": "5c1d:0"} for one in addresses))
    assert (value(numbered.file_systems), value(numbered.unproven)) == (1, 0)
    assert (value(home(*addresses).file_systems), value(home(*addresses).unproven)) == (1, 2)


@pytest.mark.parametrize(
    "other",
    [
        entry(source="nfs1:/export/other"),
        entry(type="lustre"),
        entry(root="/team"),
        entry(space={**SPACE, "inode": 2}),
    ],
)
def test_another_file_system_on_one_node(other: dict[str, Any]) -> None:
    """Another export, type, part or top folder: two file systems, and the nodes of each are named."""
    found = home(entry(), entry(), other).file_systems
    assert value(found) == 2
    assert "on gpu001, gpu002" in found.note  # type: ignore[union-attr]


def test_the_ages_of_nfs_are_one_family_and_another_number_is_another_file_system() -> None:
    """NFS 3 and 4 of one export lead to the same files."""
    assert value(home(entry(), entry(type="nfs")).file_systems) == 1
    assert value(home(entry(fsid="5c1d:0"), entry(fsid="5c1e:0")).file_systems) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[fd00::1]:/export", "[fd00::2]:/export"),
        ("10.0.0.1@o2ib:10.0.0.2@o2ib:/lfs", "10.0.0.3@o2ib:/lfs"),
        ("a:6789,b:6789:/", "a:6789:/"),
        ("server1:volume", "server2:volume"),
        ("//smb1/share", "//smb2/share"),
        ("backend1/fs", "backend2/fs"),
    ],
)
def test_the_server_of_a_source_is_no_part_of_what_is_exported(one: str, other: str) -> None:
    """In each way in which file systems write their sources."""
    volume = home(entry(source=one, type="fuse.any"), entry(source=other, type="fuse.any"))
    assert (value(volume.file_systems), value(volume.unproven)) == (1, 1)


def test_a_node_that_cannot_say_leaves_it_unknown_unless_two_are_seen() -> None:
    """What others show is a fault whatever it would say."""
    silent = Mounts("gpu009", evidence({})).at("/home")
    seen = [mounts(entry(), node="gpu001").at("/home")]
    assert lack(DeclaredVolume(HOME, [*seen, silent]).file_systems)[1].startswith("gpu009: ")
    two = [*seen, mounts(entry(source="nfs1:/other"), node="gpu002").at("/home"), silent]
    assert value(DeclaredVolume(HOME, two).file_systems) == 2


def test_room_is_the_least_that_a_node_sees() -> None:
    """And a node on which it hangs does not hide it; without limits of its own all inodes are free."""
    half = entry(space={**SPACE, "bytes": 5 * TB, "bytes_free": TB})
    hung = entry(space={"unread": "timed_out", "why": "no answer within 5 s"})
    volume = home(entry(), half, hung)
    assert (value(volume.capacity_tb), value(volume.free_share), value(volume.free_inodes)) == (5, 0.2, 1)
    assert value(volume.size_spread) == 0.5
    assert lack(home(hung).capacity_tb)[0] == "timed_out"
    assert lack(home({}).capacity_tb) == ("not_found", "no node has /home mounted")


def test_more_free_than_there_is_makes_no_sense() -> None:
    """It is garbled, and no full file system."""
    assert lack(home(entry(space={**SPACE, "bytes_free": 11 * TB})).free_share)[0] == "garbled"


def test_snapshots() -> None:
    """Seen, seen to be none, and not to be seen are three answers."""
    assert value(home(entry(space={**SPACE, "snapshots": 3})).snapshots) is True
    assert value(home(entry(space={**SPACE, "snapshots": 0})).snapshots) is False
    assert lack(home(entry()).snapshots)[0] == "denied"


def test_what_two_mounts_have_of_one_file_system_is_counted_once() -> None:
    """Two of one server and one size are one; a third of another size is not."""
    first = home(entry(fsid="5c1d:0"))
    data = Mount("/data", "data", shared=True)
    second = home(entry("/data", "nfs1:/export/data", fsid="5c1d:0"), mount=data)
    third = home(entry("/data", "nfs1:/big", space={**SPACE, "bytes": 30 * TB}), mount=data)
    assert value(AllShared([first, second]).capacity_tb) == 10
    assert value(AllShared([first, third]).capacity_tb) == 40
    assert lack(AllShared([first, home({})]).capacity_tb)[1].startswith("mount:/home: ")


def test_of_object_storage_only_what_was_sold_is_known() -> None:
    """The room in it is unseen, and so is a capacity that nobody wrote down."""
    assert value(ObjectStore(S3("https://s3", capacity_tb=10)).sold_tb) == 10
    assert lack(ObjectStore(S3("https://s3")).sold_tb)[0] == "denied"
    assert lack(ObjectStore(S3("https://s3", capacity_tb=10)).capacity_tb)[0] == "denied"


def test_the_quota_of_the_user_who_asks() -> None:
    """It is the least that a node tells, or the size; where no tool tells, it is unseen."""
    told = {"tool": "lfs", "exit": 0, "err": "", "out": "/home 5 0 1953125000 - 7 0 0 -\n"}
    limited = entry(space={**SPACE, "quota": told})
    assert value(home(limited, entry()).quota_tb) == 2
    unlimited = entry(space={**SPACE, "quota": {**told, "out": "/home 5 0 0 - 7 0 0 -\n"}})
    assert value(home(unlimited).quota_tb) == 10
    assert lack(home(entry()).quota_tb)[0] == "denied"
