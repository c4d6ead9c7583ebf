"""Storage as the contract has it: one file system for many nodes, as each of them sees it; and objects."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpuassay.facts.mounts import Volume
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.services import S3, Mount

T = TypeVar("T")

_TB = 1e12
# nfs1:/export, [fd00::1]:/export, 10.0.0.1@o2ib:10.0.0.2@o2ib:/lfs, server:volume, //server/share, host/name
_SERVED = re.compile(r"(?P<server>//[^/]+|[^/]+(?=:/)|[^/:]+(?=:)|[^/]+(?=/))(?P<export>.*)")


class DeclaredVolume:
    """A mount of the site file, as its nodes see it."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, mount: Mount, volumes: Iterable[Volume]) -> None:
        """Take what every node has at its path."""
        self.where = f"mount:{mount.path}"
        self._mount = mount
        self._volumes = tuple(volumes)

    @property
    def sold_tb(self) -> Fact[float]:
        """The capacity that was bought."""
        sold = self._mount.capacity_tb
        return Unread("denied", "the site file names no capacity") if sold is None else Read(float(sold))

    @property
    def capacity_tb(self) -> Fact[float]:
        """Its size in TB of 10^12 bytes, the smallest that a node sees."""
        return self._least(lambda one: mapped(one.amount("bytes"), lambda size: size / _TB), digits=6)

    @property
    def quota_tb(self) -> Fact[float]:
        """What the user who asked may fill of it, in TB of 10^12 bytes: its size where no quota is less."""
        limits = [one.quota for one in self._here]
        told = [limit for limit in limits if isinstance(limit, Read)]
        if not told:
            why = "no tool on the nodes tells the quota: whether there is one, its provider can say"
            return Unread("denied", why, self._evidence)
        size = self.capacity_tb
        least = min((limit.value for limit in told if limit.value is not None), default=None)
        if isinstance(size, Unread) or least is None:
            return size
        return Read(round(min(size.value, least / _TB), 6), told[0].evidence, f"of one user, {told[0].note}")

    @property
    def free_share(self) -> Fact[float]:
        """The share of it that users can still fill."""
        return self._least(lambda one: _share(one, "bytes"))

    @property
    def free_inodes(self) -> Fact[float]:
        """The share of its files that can still be made; one that makes inodes as it needs them has all."""
        return self._least(lambda one: _share(one, "inodes"))

    @property
    def snapshots(self) -> Fact[bool]:
        """Whether snapshots can be seen in it. Without a folder for them, only the provider knows."""
        counts = [one.amount("snapshots") for one in self._here]
        read = [count for count in counts if isinstance(count, Read)]
        if not read:
            why = "it shows no folder of snapshots: whether any are taken, its provider can say"
            return Unread("denied", why, self._evidence)
        return Read(any(count.value for count in read), read[0].evidence, "its folder of snapshots is empty")

    def _least(self, measure: Callable[[Volume], Fact[float]], digits: int = 4) -> Fact[float]:
        facts = [(one.where, measure(one)) for one in self._here]
        read = [(fact.value, where, fact) for where, fact in facts if isinstance(fact, Read)]
        if not read:
            return self._lack([fact for _, fact in facts])
        value, where, fact = min(read, key=lambda each: each[0])
        return Read(round(value, digits), fact.evidence, f"the least, on {where}")

    def _lack(self, facts: Iterable[Fact[float]]) -> Unread:
        told = next((fact for fact in facts if isinstance(fact, Unread)), None)
        return told or self._unread or Unread("not_found", f"no node has {self._mount.path} mounted")

    # --- whether it is one ---------------------------------------------------------------------------

    @property
    def file_systems(self) -> Fact[int]:
        """How many file systems the nodes have at its path; the note says which.

        The number that the server has for it tells them apart, else what is exported; and the number of the
        top folder, of which a file system has one.
        """
        told = defaultdict(list)
        for one, key in self._keys.items():
            told[key].append(one)
        tops = {key: {_value(one.amount("inode")) for one in ours} - {None} for key, ours in told.items()}
        count = sum(max(1, len(inodes)) for inodes in tops.values())
        if count <= 1 and self._unread:
            return self._unread
        return Read(count, self._evidence, self._groups if count > 1 else "")

    @property
    def unproven(self) -> Fact[int]:
        """How many servers beside the first export it, where nothing shows that it is one file system."""
        if self._unread:
            return self._unread
        served = {_served(source)[0] for one in self._here if (source := _value(one.source))}
        note = f"the servers are {first_of(sorted(served))}"
        return Read(0 if self._numbered else max(0, len(served) - 1), self._evidence, note)

    @property
    def size_spread(self) -> Fact[float]:
        """How far the sizes that the nodes see lie apart, as a share of the largest."""
        sizes = [fact.value for one in self._here if isinstance(fact := one.amount("bytes"), Read)]
        if not sizes or not max(sizes):
            return self._lack(one.amount("bytes") for one in self._here)
        return Read(round(1 - min(sizes) / max(sizes), 4), self._evidence)

    @property
    def _groups(self) -> str:
        """Name, of each source and top folder, the nodes that have it."""
        nodes = defaultdict(list)
        for one in self._here:
            nodes[f"{_value(one.source)} (top folder {_value(one.amount('inode'))})"].append(one.node)
        return "; ".join(f"{source} on {first_of(names)}" for source, names in nodes.items())

    @property
    def system(self) -> tuple[object, ...]:
        """What it is known by among the mounts of one cluster: two of one server and one size are one."""
        first = self._here[0]
        served = _value(first.fsid) or _served(_value(first.source) or "")[0]
        return served, _value(first.amount("bytes"))

    @cached_property
    def _keys(self) -> Mapping[Volume, tuple[str, str, str]]:
        """What each is told apart by: its family, its number or what is exported, and the part mounted."""
        return {one: (_family(one), self._number(one), one.part) for one in self._here}

    def _number(self, one: Volume) -> str:
        named = one.fsid if self._numbered else one.source
        text = _value(named) or ""
        return text if self._numbered else _served(text)[1]

    @cached_property
    def _numbered(self) -> bool:
        return all(isinstance(one.fsid, Read) for one in self._here)

    @cached_property
    def _here(self) -> tuple[Volume, ...]:
        """It on the nodes that have it."""
        if self._mount.shared:
            return tuple(one for one in self._volumes if _value(one.shared))
        return tuple(one for one in self._volumes if _value(one.own))

    @cached_property
    def _unread(self) -> Unread | None:
        """Why a node cannot say what it has."""
        for one in self._volumes:
            fact = one.shared if self._mount.shared else one.own
            if isinstance(fact, Unread):
                return Unread(fact.kind, f"{one.node}: {fact.why}", fact.evidence)
        return None

    @property
    def _evidence(self) -> str:
        return next((fact.evidence for one in self._here if (fact := one.source)), "")


class AllShared:
    """All shared file systems together; what two mounts have of one is counted once."""

    where, node = "shared storage", ""
    models: tuple[str, ...] = ()

    def __init__(self, volumes: Iterable[DeclaredVolume]) -> None:
        """Take the shared mounts of the site file."""
        self._all = tuple(volumes)

    @property
    def capacity_tb(self) -> Fact[float]:
        """What they hold together."""
        sizes: dict[object, float] = {}
        evidence = ""
        for volume in self._all:
            size = volume.capacity_tb
            if isinstance(size, Unread):
                return Unread(size.kind, f"{volume.where}: {size.why}", size.evidence)
            sizes[volume.system] = size.value
            evidence = evidence or size.evidence
        return Read(round(sum(sizes.values()), 6), evidence, f"{len(sizes)} file systems")


class ObjectStore:
    """Object storage as it was bought."""

    where, node = "s3", ""
    models: tuple[str, ...] = ()

    def __init__(self, s3: S3) -> None:
        """Take what the site file says."""
        self._s3 = s3

    @property
    def sold_tb(self) -> Fact[float]:
        """The capacity that was bought, by the site file alone."""
        sold = self._s3.capacity_tb
        why = "the site file names no capacity_tb for [s3]"
        return Unread("denied", why) if sold is None else Read(float(sold), note="by the site file alone")

    @property
    def capacity_tb(self) -> Fact[float]:
        """The room that there is: S3 has no question for it."""
        return Unread("denied", "S3 tells nobody how much room there is: the contract or the provider says")


def _value(fact: Fact[T]) -> T | None:
    return fact.value if isinstance(fact, Read) else None


def _family(volume: Volume) -> str:
    """Name the type; NFS has one name for each of its ages."""
    kind = _value(volume.kind) or ""
    return "nfs" if kind == "nfs4" else kind


def _served(source: str) -> tuple[str, str]:
    """Split a source into the server and what it exports; of one that names no server both are the whole."""
    found = _SERVED.fullmatch(source)
    return (found["server"], found["export"]) if found else (source, source)


def _share(volume: Volume, key: str) -> Fact[float]:
    """Divide what is free by what there is; without a limit of its own, all is free."""
    total, free = volume.amount(key), volume.amount(f"{key}_free")
    if isinstance(total, Unread):
        return total
    if isinstance(free, Unread):
        return free
    if free.value > total.value:
        return Unread("garbled", f"{key}_free is {free.value}, more than there is", free.evidence)
    return Read(free.value / total.value if total.value else 1.0, total.evidence)
