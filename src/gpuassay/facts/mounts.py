"""The file systems that a node has mounted: which there are, how, and whether they answer."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.quota import limit_bytes
from gpuassay.facts.record import Record, mapped
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_PATH = r"/.{0,1024}"
_AUTOMOUNTER = "autofs"
_NVME = re.compile(r"nvme\d+(?:c\d+)?n\d+", re.ASCII)
_SOFT = frozenset({"soft", "softerr"})  # nfs(5)
# Locks that other nodes do not see: nfs(5); mount.lustre(8).
_LOCAL_LOCKS = re.compile(r"nolock|local_lock=(?:all|flock|posix)|localflock|noflock")
# What two nodes may mount differently, and then one of them is slower, or sees other data.
_TELLING = re.compile(
    r"(?:vers|proto|nconnect|rsize|wsize|sec|local_lock|lookupcache|actimeo|cache)=.*"
    r"|hard|soft|softerr|nolock|noac|sync|flock|localflock|noflock"
)


class Volume:
    """A file system on one node; ``path`` is where it is mounted, or where the contract has it."""

    models: tuple[str, ...] = ()

    def __init__(self, node: str, path: str, entry: Record) -> None:
        """Take what the probe told of the mount that the path is on."""
        self.node = node
        self.path = path
        self._entry = entry
        self._space = entry.record("space")

    @property
    def where(self) -> str:
        """Its place, e.g. ``gpu003/home``."""
        return f"{self.node}{self.path}" if self.path != "/" else f"{self.node}/(root)"

    @property
    def at(self) -> Mapping[str, str]:
        """The coordinate by which it is compared with its like on other nodes."""
        return {"mount": self.path}

    @property
    def kind(self) -> Fact[str]:
        """The type of the file system, such as ``nfs4``."""
        return self._entry.text("type", r"[A-Za-z0-9._-]{1,64}", "a type")

    @property
    def source(self) -> Fact[str]:
        """Who serves it, as the mount says: ``nfs1:/export/home``."""
        return self._entry.text("source", r".{1,1024}", "a source")

    @property
    def shared(self) -> Fact[bool]:
        """Whether it comes from a network or a cluster; the note says what is there instead."""
        kind, local, at = self.kind, self._entry.flag("local"), self._entry.text("at", _PATH, "a path")
        for fact in (kind, local, at):
            if isinstance(fact, Unread):
                return fact
        if isinstance(kind, Read) and isinstance(at, Read) and isinstance(local, Read):
            if kind.value == _AUTOMOUNTER:
                why = f"an automounter stands at {at.value}, and nothing is mounted before somebody looks"
                return Unread("denied", why, kind.evidence)
            note = f"{self.path} is on {at.value} ({kind.value}), a file system of the node's own"
            return Read(not local.value, kind.evidence, note if local.value else "")
        return self._entry.garbled("mount", None, "a mount")

    @property
    def own(self) -> Fact[bool]:
        """Whether it is a file system of its own, and no folder on the system's disk."""
        at = self._entry.text("at", _PATH, "a path")
        if isinstance(at, Unread):
            return at
        return Read(at.value != "/", at.evidence, f"{self.path} is a folder of the file system at {at.value}")

    @property
    def on_nvme(self) -> Fact[bool]:
        """Whether all disks below it are NVMe drives; the note names those that are not."""
        drives = self._entry.look("drives")
        if isinstance(drives, Unread):
            return drives
        if not isinstance(drives.value, list) or not all(isinstance(one, str) for one in drives.value):
            return self._entry.garbled("drives", drives.value, "a list of disks")
        others = [name for name in drives.value if not _NVME.fullmatch(name)]
        note = f"it is on {', '.join(others)}" if others else "no disk is below it"
        return Read(bool(drives.value) and not others, drives.evidence, note)

    @property
    def answers(self) -> Fact[bool]:
        """Whether it answers when it is asked for its room; the note says what happened instead."""
        lack = self._space.unread
        if lack is None:
            return mapped(self._space.count("bytes"), lambda _: True)
        if lack.kind in ("timed_out", "failed"):
            return Read(value=False, evidence=lack.evidence, note=lack.why)
        return lack

    @property
    def read_only(self) -> Fact[bool]:
        """Whether it is mounted for reading only; the note says if this user may write at its top."""
        words = []
        for key in ("options", "super"):
            fact = self._entry.text(key, r"r[ow](?:,.*)?", "the options of a mount")
            if isinstance(fact, Unread):
                return fact
            words += fact.value.split(",")
        ours = self._space.flag("writable_for_us")
        may = "" if isinstance(ours, Unread) else f"we may {'' if ours.value else 'not '}write at its top"
        return Read("ro" in words, self._entry.evidence, may)

    @property
    def soft(self) -> Fact[bool]:
        """Whether an NFS mount gives up, and hands programs an error, instead of waiting for its server."""
        return mapped(self._words, lambda words: not _SOFT.isdisjoint(words))

    @property
    def local_locks(self) -> Fact[bool]:
        """Whether locks on its files are kept on this node alone."""
        return mapped(self._words, lambda words: any(map(_LOCAL_LOCKS.fullmatch, words)))

    @property
    def mounted_as(self) -> Fact[str]:
        """How it is mounted, in the words that matter: ``nfs4 vers=4.2,proto=rdma,nconnect=8,hard``."""
        kind, words = self.kind, self._words
        if isinstance(kind, Unread):
            return kind
        return mapped(
            words, lambda all_: f"{kind.value} {','.join(filter(_TELLING.fullmatch, all_))}".strip()
        )

    @property
    def _words(self) -> Fact[list[str]]:
        return mapped(self._entry.text("super", r"[^ ]*", "options"), lambda text: text.split(","))

    # --- what a file system is told apart by, and its room -----------------------------------------

    @property
    def fsid(self) -> Fact[str]:
        """The number that its NFS server has for it."""
        return self._entry.text("fsid", r"[0-9a-f]{1,16}:[0-9a-f]{1,16}", "a number of a file system")

    @property
    def part(self) -> str:
        """Which part of the file system is mounted, where that is not all of it."""
        root = self._entry.text("root", _PATH, "a path")
        return root.value if isinstance(root, Read) else ""

    @property
    def quota(self) -> Fact[int | None]:
        """How many bytes the user who asked may have in it; None without a limit."""
        return limit_bytes(self._space.record("quota"))

    def amount(self, key: str) -> Fact[int]:
        """Read a number of its room: ``bytes``, ``bytes_free``, ``inodes``, ``inode`` of its top folder."""
        return self._space.count(key)


class Mounts:
    """All file systems of a node that hold data."""

    def __init__(self, node: str, evidence: Evidence) -> None:
        """Take the evidence of a node."""
        self._node = node
        self._told = document(evidence, "storage")

    @cached_property
    def network(self) -> Fact[tuple[Volume, ...]]:
        """Those that come from a network or a cluster."""
        entries = self._entries
        if isinstance(entries, Unread):
            return entries
        volumes = [Volume(self._node, place, entry) for place, entry in entries.value.items()]
        lack = next((one.shared for one in volumes if isinstance(one.shared, Unread)), None)
        if isinstance(lack, Unread) and lack.kind != "denied":
            return lack
        kept = [one for one in volumes if isinstance(one.shared, Read) and one.shared.value]
        return Read(tuple(kept), entries.evidence)

    def at(self, path: str) -> Volume:
        """Give the file system that a path is on: that of the longest mount which leads to it."""
        return Volume(self._node, path, self._covering(path))

    def _covering(self, path: str) -> Record:
        entries, left_out = self._entries, self._told.count("left_out")
        for fact in (entries, left_out):
            if isinstance(fact, Unread):
                return Record(fact, fact.evidence)
        if isinstance(entries, Read) and isinstance(left_out, Read):
            real = self._real(path)
            above = [place for place in entries.value if f"{real}/".startswith(f"{place.rstrip('/')}/")]
            if above and not left_out.value:
                return entries.value[max(above, key=len)]
            if real in above:  # of those that were left out, none can be nearer
                return entries.value[real]
        why = f"of this node's mounts, none that was told of leads to {path}"
        return Record(Unread("failed", why, self._told.evidence), self._told.evidence)

    def _real(self, path: str) -> str:
        """Follow a link in /, such as /home to /mnt/home."""
        first = "/" + path.lstrip("/").partition("/")[0]
        leads = self._told.record("links").text(first, _PATH, "a path")
        return (leads.value if isinstance(leads, Read) else first) + path.removeprefix(first)

    @cached_property
    def _entries(self) -> Fact[dict[str, Record]]:
        listed = self._told.listed("mounts")
        if isinstance(listed, Unread):
            return listed
        entries = {}
        for entry in listed.value:
            place = entry.text("at", _PATH, "a path")
            if isinstance(place, Unread):
                return place
            entries[place.value] = entry
        return Read(entries, listed.evidence)
