"""What of a node did not come back with it: each difference in words, and how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuassay.facts.earlier import before
from gpuassay.facts.since import value
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.nics import Nic
    from gpuassay.facts.node import Node
    from gpuassay.facts.rdma import Port
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.services import Mount

T = TypeVar("T")


def counted(words: Sequence[str], evidence: str = "", of: str = "") -> Read[int]:
    """Count differences; the note has them, or says of what there are none."""
    return Read(len(words), evidence, "; ".join(words) or of)


def gpus_lost(then: Node, now: Node) -> Fact[int]:
    """Count GPUs that are not there any more, are others now, or that the driver does not have any more."""
    unread = _unread(then.gpus_on_bus, now.gpus_on_bus)
    if unread:
        return unread
    words = [word for gpu in then.gpus if (word := _missed(gpu, gpu.where, now.gpus) or _unusable(gpu, now))]
    return counted(words, _ref(now.gpus_on_bus), f"of {len(then.gpus)} GPUs")


def nics_lost(then: Node, now: Node) -> Fact[int]:
    """Count network cards of the ConnectX and BlueField families that are gone, or others now."""
    unread = _unread(then.nics_found, now.nics_found)
    if unread:
        return unread
    words = [word for nic in then.nics if (word := _missed(nic, nic.where, now.nics))]
    return counted(words, _ref(now.nics_found), f"of {len(then.nics)} network cards")


def links_lost(then: Node, now: Node) -> Fact[int]:
    """Count GPUs that lost links of NVLink, and ports of the compute fabric that carry less or nothing."""
    had = then.fabric.connected
    if had and now.ports_unread:
        return now.ports_unread
    ports = {port.name: port for port in now.ports}
    words = [word for port in had if (word := _down(port, ports.get(port.name)))]
    for gpu in then.gpus:
        up, found = gpu.nvlink.up, _same(gpu, now.gpus)
        left = found.nvlink.up if found else None
        if isinstance(up, Read) and isinstance(left, Unread):
            return left
        if isinstance(up, Read) and isinstance(left, Read) and left.value < up.value:
            words.append(f"{_place(gpu.where)} has {left.value} links of NVLink up, {up.value} before")
    return counted(words, of=f"of {len(had)} ports, and of NVLink on {len(then.gpus)} GPUs")


def software_changed(then: Node, now: Node) -> Fact[int]:
    """Count what runs in another version: the kernel, and the driver of GPUs where there are any."""
    pairs = [("kernel", then.versions.kernel.release, now.versions.kernel.release)]
    if then.gpus:
        pairs.append(("GPU driver", then.driver_version, now.driver_version))
    words = []
    for name, was, runs in pairs:
        unread = _unread(was, runs)
        if unread:
            return unread
        if value(was) != value(runs):
            words.append(f"{name} {value(was)} before, {value(runs)} now")
    return counted(words, of=", ".join(f"{name} {value(runs)}" for name, _, runs in pairs))


def mounts_lost(then: Node, now: Node, mounts: Sequence[Mount]) -> Fact[int]:
    """Count declared file systems that are not mounted, not as before, or that do not answer."""
    if not mounts:
        return Unread("not_found", "the site file declares no file system")
    words = []
    for mount in mounts:
        was, found = then.mounts.at(mount.path), now.mounts.at(mount.path)
        unread = _unread(was.kind, found.kind) or _unread(was.own, found.own)
        if unread:
            return unread
        if value(was.own) and not value(found.own):
            words.append(f"{mount.path} is not mounted")
        elif (value(was.kind), value(was.source)) != (value(found.kind), value(found.source)):
            before_, now_ = (f"{value(one.kind)} from {value(one.source)}" for one in (was, found))
            words.append(f"{mount.path} is {now_}, and was {before_}")
        elif isinstance(found.answers, Read) and not found.answers.value:
            words.append(f"{mount.path} does not answer: {found.answers.note}")
    return counted(words, of=f"of {len(mounts)} file systems")


def _missed(part: Gpu | Nic, where: str, now: Sequence[Gpu] | Sequence[Nic]) -> str:
    """Say that a part is gone, or that another is in its place; empty if it is there."""
    own, slot = value(part.identity), value(part.slot)
    if own is not None and own in {value(one.identity) for one in now}:
        return ""
    there = next((one for one in now if slot is not None and value(one.slot) == slot), None)
    if there is None:
        return f"{_place(where)} ({part.told}) did not come back"
    known = value(there.identity)
    other = own is not None and known is not None
    return f"{_place(where)} is another one now: {part.told} before, {there.told} now" if other else ""


def _same(gpu: Gpu, now: Sequence[Gpu]) -> Gpu | None:
    own, slot = value(gpu.identity), value(gpu.slot)
    named = (one for one in now if own is not None and value(one.identity) == own)
    there = (one for one in now if slot is not None and value(one.slot) == slot)
    return next(named, None) or next(there, None)


def _unusable(gpu: Gpu, now: Node) -> str:
    """Say that a GPU is there and not of use, where it was before."""
    found = _same(gpu, now.gpus)
    return f"{_place(gpu.where)}: {found.loss}" if found and found.loss and not gpu.loss else ""


def _down(then: Port, now: Port | None) -> str:
    """Say what a port lacks that carried traffic: itself, its link, its rate, or a routable address."""
    if now is None:
        return f"port {then.name} is gone"
    if not now.connected:
        return f"port {then.name} is {value(now.link) or 'in a state that is not known'}"
    fast, rate = then.line_rate_gbps, now.line_rate_gbps
    if isinstance(fast, Read) and isinstance(rate, Read) and rate.value < fast.value:
        return f"port {then.name} runs at {rate.value:g} Gb/s, {fast.value:g} before"
    had, has = then.routable_gids, now.routable_gids
    if isinstance(had, Read) and isinstance(has, Read) and has.value < had.value:
        return f"port {then.name} has {has.value} routable GIDs, {had.value} before"
    return ""


def _unread(was: Fact[T], now: Fact[T]) -> Unread | None:
    """Say what is not known of before, or of now."""
    told = before(was)
    return told if isinstance(told, Unread) else now if isinstance(now, Unread) else None


def _ref(fact: Fact[object]) -> str:
    return fact.evidence


def _place(where: str) -> str:
    return where.partition("/")[2] or where
