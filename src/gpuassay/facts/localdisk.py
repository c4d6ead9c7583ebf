"""The local file systems of a host: their room, whether one turned read-only; and how cgroups are mounted."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_GIB = 1 << 30
_SHM = "/dev/shm"  # noqa: S108 - its name, nothing is put there
_CGROUPS = "/sys/fs/cgroup"

# These make themselves read-only when they find an error; others are so by nature, such as squashfs.
_JOURNALS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs"})
_LOCAL = _JOURNALS | {"bcachefs", "overlay", "rootfs", "tmpfs", "xfs", "zfs"}


class _Disk(NamedTuple):
    """A file system that can be written; ``inodes`` is 0 where it makes them as it needs them."""

    mount: str
    size: int
    free: int
    inodes: int
    inodes_free: int


class Space:
    """The local file systems that a job writes to."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the evidence of a node."""
        self._mounts = document(evidence, "mounts")
        self._memory = document(evidence, "host").count("memory_bytes")

    @property
    def shared_memory_gib(self) -> Fact[float]:
        """The size of /dev/shm; zero is the kernel's word for no limit but the memory."""
        place = self._mounts.record("places").record(_SHM)
        mount, size = place.text("mount"), place.count("bytes")
        if isinstance(mount, Unread):
            return mount
        if mount.value != _SHM:
            return Read(0.0, mount.evidence, f"it is no file system of its own, it belongs to {mount.value}")
        if isinstance(size, Unread):
            return size
        if isinstance(self._memory, Unread) or not self._memory.value:
            return Read(round(size.value / _GIB, 2), size.evidence)
        room = size.value or self._memory.value
        note = f"{100 * room / self._memory.value:.0f} % of the node's memory"
        return Read(round(room / _GIB, 2), size.evidence, note)

    @property
    def shared_memory_writable(self) -> Fact[bool]:
        """Whether /dev/shm can be written; the note has how it is mounted."""
        place = self._mounts.record("places").record(_SHM)
        options, above = place.text("options"), place.text("super")
        for words in (options, above):
            if isinstance(words, Unread):
                return words
            if "ro" in words.value.split(","):
                return Read(value=False, evidence=words.evidence, note=f"mounted {words.value}")
            if "rw" not in words.value.split(","):
                return place.garbled("options", words.value, "the options of a mount")
        return Read(value=True, evidence=self._mounts.evidence)

    @property
    def free_share(self) -> Fact[float]:
        """The share that users can still fill, of the fullest file system."""
        return self._least(
            lambda disk: disk.free / disk.size, "{free:.1f} of {size:.1f} GiB are free on {at}"
        )

    @property
    def free_gib(self) -> Fact[float]:
        """How many GiB users can still fill, of the fullest file system."""
        return self._least(lambda disk: disk.free / _GIB, "{free:.1f} of {size:.1f} GiB are free on {at}")

    @property
    def free_inodes_share(self) -> Fact[float]:
        """The share of its files that can still be made, on the file system with the fewest left."""
        return self._least(
            lambda disk: disk.inodes_free / disk.inodes if disk.inodes else 1.0, "the fewest are left on {at}"
        )

    def _least(self, measure: Callable[[_Disk], float], words: str) -> Fact[float]:
        disks = self._disks
        if isinstance(disks, Unread):
            return disks
        disk = min(disks.value, key=measure)
        note = words.format(free=disk.free / _GIB, size=disk.size / _GIB, at=disk.mount)
        return Read(round(measure(disk), 4), disks.evidence, note)

    @property
    def turned_read_only(self) -> Fact[int]:
        """How many file systems made themselves read-only: mounted for writing, and yet they are not written.

        One that is mounted read-only on purpose, as the root of an immutable system is, says so in its mount.
        """
        places = self._mounts.record("places")
        if places.unread:
            return places.unread
        broken: dict[str, None] = {}
        for place in dict(places.items()).values():
            for key in ("type", "options", "super", "mount"):
                fact = place.text(key)
                if isinstance(fact, Unread) and fact.kind != "not_found":
                    return fact
            kind, mount, options, above = (_word(place, key) for key in ("type", "mount", "options", "super"))
            failed = "ro" in above.split(",") or "emergency_ro" in above.split(",")
            if kind in _JOURNALS and failed and "rw" in options.split(","):
                broken[mount] = None
        return Read(
            len(broken), places.evidence, f"read-only by itself: {', '.join(broken)}" if broken else ""
        )

    @cached_property
    def _disks(self) -> Fact[tuple[_Disk, ...]]:
        """The local file systems that are mounted for writing, each once."""
        places = self._mounts.record("places")
        if places.unread:
            return places.unread
        disks: dict[str, _Disk] = {}
        for name, place in places.items():
            if (
                name == _SHM
                or _word(place, "type") not in _LOCAL
                or "ro" in _word(place, "options").split(",")
            ):
                continue
            disk = _disk(place)
            if isinstance(disk, Unread):
                return disk
            if disk.size:  # without one it has no limit of its own, as the first root of Linux has none
                disks.setdefault(disk.mount, disk)
        if not disks:
            return Unread("not_found", "no local file system is mounted for writing", places.evidence)
        return Read(tuple(disks.values()), places.evidence)

    @property
    def cgroups(self) -> Fact[str]:
        """How control groups are mounted: ``v2``, ``v1``, or ``hybrid`` (both at once)."""
        listed = self._mounts.listed("cgroups")
        if isinstance(listed, Unread):
            return listed
        types = {_word(entry, "at"): _word(entry, "type") for entry in listed.value}
        if not set(types.values()) <= {"cgroup", "cgroup2"}:
            return Unread("garbled", "a mount of cgroups has another type", listed.evidence)
        if types.get(_CGROUPS) == "cgroup2":
            return Read("v2", listed.evidence)
        if not types:
            return Unread("not_found", f"no control groups are mounted at {_CGROUPS}", listed.evidence)
        return Read("hybrid" if "cgroup2" in types.values() else "v1", listed.evidence)


def _word(place: Record, key: str) -> str:
    fact = place.text(key)
    return fact.value if isinstance(fact, Read) else ""


def _disk(place: Record) -> _Disk | Unread:
    mount = place.text("mount")
    if isinstance(mount, Unread):
        return mount
    numbers = []
    for key in ("bytes", "bytes_free", "inodes", "inodes_free"):
        number = place.count(key)
        if isinstance(number, Unread):
            return number
        numbers.append(number.value)
    size, free, inodes, inodes_free = numbers
    if free > size or inodes_free > inodes:
        return place.garbled("bytes_free", free, "less than there is")
    return _Disk(mount.value, size, free, inodes, inodes_free)
