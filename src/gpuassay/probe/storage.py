"""File systems that hold people's data: those on a network or of a cluster, and local ones beside the system.

Each is asked for its room in a child process that tells one answer after the other. A server that is gone
lets a question hang for ever: the child is then ended, that mount is said to be timed out, and a fresh child
goes on with the next one. Other mounts of a server that gave no answer are not asked.
"""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH110, PTH112, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120, PTH208
from __future__ import annotations

import os
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import Answer, document, unread, unread_because
from gpuassay.probe.children import Child, Lost, send
from gpuassay.probe.files import entries, head
from gpuassay.probe.localfiles import space
from gpuassay.probe.mountinfo import LOCAL, TABLE, Mount, mounted
from gpuassay.probe.quotas import quota

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from gpuassay.probe.items import Question

STALL_S = 5.0
"""How long one file system may take to answer: a healthy one takes milliseconds, under load up to seconds."""

MOST = 200
"""How many mounts are told of: a node of a container platform may have thousands, one for each volume."""

_NETWORK = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "orangefs",
        "panfs", "pvfs2", "quobyte", "smb3", "virtiofs", "wekafs",
    )
)  # fmt: skip
# Programs of the system that offer files through FUSE, and no storage.
_NO_STORAGE = ("fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse", "fuse.fuse-overlayfs")
_AUTOMOUNTED = "autofs"
# What the system and its containers mount for themselves.
_SYSTEM = re.compile(
    r"/(?:boot|dev|etc|proc|run|snap|sys|var/lib/(?:containers|containerd|docker|kubelet)|var/snap)(?:/|$)"
)
# Options that say how, and name no place, no person and no key.
_SAID = re.compile(
    r"(?:vers|minorversion|proto|nconnect|max_connect|rsize|wsize|timeo|retrans|sec|local_lock|lookupcache"
    r"|actimeo|ac(?:reg|dir)(?:min|max)|cache|size|nr_inodes|errors)=[\w.]*|[a-z][a-z0-9_]*"
)
_SNAPSHOTS = (".snapshot", ".snapshots", ".zfs/snapshot", ".snap")
_NFS_VOLUMES = "/proc/fs/nfsfs/volumes"
_BLOCK = "/sys/dev/block"
_CLASS = "/sys/class/block"
_DEEPEST = 8  # RAID of LVM of encrypted partitions


def ask(question: Question, stall_s: float = STALL_S, table: str = TABLE) -> Answer:
    """Ask every file system; one that did not answer is in the document, as unread. Raises Stop."""
    until = time.monotonic() + question.deadline_s
    sight = _Sight()
    while not sight.whole and time.monotonic() < until:
        with Child(partial(_tell, table, [*sight.spaces], sight.dead)) as child:
            lost = sight.follow(child, stall_s, until)
        if lost and child.left_behind:
            lost["why"] += f"; {child.ending}"
    return sight.answer(unread("timed_out", f"not reached within {question.deadline_s:g} s"))


def _tell(table: str, told: Collection[str], dead: Collection[str], news: int) -> None:
    """Tell, in the child, which mounts there are, and then the room of each that was not told of before."""
    try:
        found = mounted(table)
    except OSError as error:
        send(news, {"refused": unread_because(error)})
        return
    chosen = _chosen(found)
    listed = chosen[:MOST]
    servers = _nfs_volumes()
    send(
        news,
        {
            "mounts": [_described(mount, servers) for mount in listed],
            "links": _links(),
            "left_out": len(chosen) - len(listed),
        },
    )
    for mount in listed:
        if mount.place not in told:
            send(news, {"at": mount.place, "space": _asked(mount, dead)})
    send(news, {"end": True})


def _chosen(found: list[Mount]) -> list[Mount]:
    """Choose the mounts that hold data, of those on one another the newest; the network's come first."""
    newest = {one.place: one for one in found}
    kept = [one for one in newest.values() if _holds_data(one)]
    return sorted(kept, key=lambda one: (one.type in LOCAL, one.place))


def _holds_data(mount: Mount) -> bool:
    if _SYSTEM.match(mount.place):
        return False
    known = mount.type in _NETWORK or mount.type in LOCAL or mount.type == _AUTOMOUNTED
    return known or (mount.type.startswith("fuse.") and mount.type not in _NO_STORAGE)


def _described(mount: Mount, fsids: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "at": mount.place,
        "type": mount.type,
        "source": _source(mount),
        "options": _plain(mount.options),
        "super": _plain(mount.super),
        "local": mount.type in LOCAL,
    }
    if mount.root != "/":
        found["root"] = mount.root
    if mount.device in fsids:
        found["fsid"] = fsids[mount.device]
    if mount.type in LOCAL:
        found["drives"] = sorted(_drives(mount))
    return found


def _plain(options: str) -> str:
    return ",".join(word for word in options.split(",") if _SAID.fullmatch(word))


def _source(mount: Mount) -> str:
    """Name the server and what it exports, without a user's name, a password or a query."""
    if mount.type == "lustre":  # an @ belongs to the address of a network there
        return mount.source
    return re.sub(r"^((?:[a-z][a-z0-9+]*:)?//)?[^/]*@", r"\1", mount.source).partition("?")[0]


def _server(source: str) -> str:
    """Name what answers for a mount: the server of NFS or SMB, else the whole source."""
    return source.lstrip("/").partition("/")[0] if source.startswith("//") else source.partition(":/")[0]


def _nfs_volumes() -> dict[str, str]:
    """Give the number that an NFS server has for a file system, by device; the kernel keeps it."""
    try:
        lines = head(_NFS_VOLUMES, 1 << 20).splitlines()[1:]
    except OSError:
        return {}
    fields = (line.split() for line in lines)
    return {words[3]: words[4] for words in fields if len(words) > 4}  # noqa: PLR2004 - NV SERVER PORT DEV FSID


def _links() -> dict[str, str]:
    """Give where links in / lead, such as /home to /mnt/home; those into the system itself are left out."""
    try:
        places = [f"/{name}" for name in sorted(os.listdir("/")) if os.path.islink(f"/{name}")]
        leads = {place: os.path.join("/", os.readlink(place)) for place in places}
    except OSError:
        return {}
    return {place: to for place, to in leads.items() if not to.startswith(("/usr/", "/run/", "/var/run"))}


def _drives(mount: Mount) -> Iterator[str]:
    """Name the disks below a local file system, through partitions, RAID and LVM."""
    folder = os.path.realpath(f"{_BLOCK}/{mount.device}")
    if not os.path.isdir(folder):  # btrfs has a device of its own; its source is a disk
        folder = os.path.realpath(f"{_CLASS}/{os.path.basename(mount.source)}")
    if mount.source.startswith("/dev/") and os.path.isdir(folder):
        yield from _below(folder, _DEEPEST)


def _below(folder: str, deepest: int) -> Iterator[str]:
    if os.path.exists(f"{folder}/partition"):
        folder = os.path.dirname(folder)
    parts = entries(f"{folder}/slaves", folder) if deepest else []
    if not parts:
        yield os.path.basename(folder)
    for part in parts:
        yield from _below(os.path.realpath(f"{folder}/slaves/{part}"), deepest - 1)


def _asked(mount: Mount, dead: Collection[str]) -> dict[str, Any]:
    """Ask one file system for its room; this is what may hang."""
    if mount.type == _AUTOMOUNTED:
        return unread("not_found", "nothing is mounted until somebody looks into it, and the probe does not")
    server = _server(_source(mount))
    if mount.type not in LOCAL and server in dead:
        return unread("timed_out", f"not asked: another mount of {server} gave no answer")
    try:
        return {
            **space(mount.place),
            "inode": os.stat(mount.place).st_ino,
            "writable_for_us": os.access(mount.place, os.W_OK),
            **({} if mount.type in LOCAL else {**_snapshots(mount.place), **quota(mount.type, mount.place)}),
        }
    except OSError as error:
        return unread_because(error)


def _snapshots(place: str) -> dict[str, int]:
    """Count the snapshots that users can see; none of the usual folders may be there."""
    for name in _SNAPSHOTS:
        try:
            return {"snapshots": len(os.listdir(f"{place}/{name}"))}
        except OSError:
            continue
    return {}


class _Sight:
    """What has been told so far, and what is still to come."""

    def __init__(self) -> None:
        self.spaces: dict[str, Any] = {}
        self.dead: set[str] = set()
        self._refusal: dict[str, Any] = {}
        self._document: dict[str, Any] = {}

    @property
    def whole(self) -> bool:
        """Tell whether nothing more is to come."""
        return bool(self._refusal) or (bool(self._document) and not self._to_come)

    @property
    def _to_come(self) -> list[dict[str, Any]]:
        return [mount for mount in self._document.get("mounts", ()) if mount["at"] not in self.spaces]

    def follow(self, child: Child, stall_s: float, until: float) -> dict[str, Any]:
        """Take what a child tells until all is told; give what stands for an answer that did not come."""
        while not self.whole:
            message = child.next(min(stall_s, until - time.monotonic()))
            if isinstance(message, Lost):
                return self._lose(unread(message.kind, message.why))
            self._note(message)
        return {}

    def _note(self, message: dict[str, Any]) -> None:
        if "refused" in message:
            self._refusal = message["refused"]
        elif "mounts" in message:
            self._document = self._document or message
        elif "at" in message:
            self.spaces[message["at"]] = message["space"]
        else:  # the table has changed since: what is gone was not lost
            for mount in self._to_come:
                self.spaces[mount["at"]] = unread("not_found", "it was unmounted while the probe looked")

    def _lose(self, value: dict[str, Any]) -> dict[str, Any]:
        if not self._document:
            self._refusal = value
            return value
        silent = self._to_come[0]
        self.spaces[silent["at"]] = value
        if not silent["local"]:
            self.dead.add(_server(silent["source"]))
        return value

    def answer(self, unreached: dict[str, Any]) -> Answer:
        """Give the document; what was not reached says so."""
        if self._refusal:
            return Answer(status=self._refusal["unread"], why=self._refusal["why"])
        mounts = [
            {**mount, "space": self.spaces.get(mount["at"], unreached)}
            for mount in self._document.get("mounts", ())
        ]
        return Answer(out=document({**self._document, "mounts": mounts}))
