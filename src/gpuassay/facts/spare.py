"""What a node lacks that serves in place of another: counted by kind, for a spare is another machine.

Serial numbers, GUIDs and PCI addresses of a spare are its own. So GPUs are compared by product and memory,
network cards by board, ports by rate, NVLinks by number, and file systems by where they are mounted.
"""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING

from gpuassay.facts.reboot_parts import counted
from gpuassay.facts.since import value
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.node import Node
    from gpuassay.facts.rdma import Port
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.services import Mount

_MIB_PER_GIB = 1024


def lacking(then: Node, now: Node, mounts: Sequence[Mount]) -> Fact[int]:
    """Count what ``now`` lacks of what ``then`` had, each in words; ``mounts`` are those that are declared.

    What lacks decides, whatever else could not be read. Unread where nothing is known to lack and not all
    could be read, of either.
    """
    if now.silence:
        return now.silence
    found = [_gpus(then, now), _nics(then, now), _ports(then, now), _nvlinks(then, now)]
    found += [_mounts(then, now, mounts)] if mounts else []
    words = [one.note for one in found if isinstance(one, Read) and one.value]
    unread = next((one for one in found if isinstance(one, Unread)), None)
    if unread and not words:
        return unread
    had = f"{len(then.gpus)} GPUs, {len(then.nics)} network cards, {len(then.fabric.connected)} ports"
    return counted(words, now.gpus_on_bus.evidence, f"it has all that {then.name} had: {had}")


def _gpus(then: Node, now: Node) -> Fact[int]:
    """Count GPUs of use, by product and memory."""
    for node in (then, now):
        if isinstance(node.gpus_on_bus, Unread):
            return node.gpus_on_bus
    of_use = [[one for one in node.gpus if not one.loss] for node in (then, now)]
    sized = any(isinstance(one.memory_mib, Read) for one in of_use[0])  # some share the system's memory
    had, has = ([_gpu(one, sized=sized) for one in gpus] for gpus in of_use)
    unread = next((one for one in (*had, *has) if isinstance(one, Unread)), None)
    return unread or _fewer("GPUs that are of use", map(value, had), map(value, has))


def _gpu(gpu: Gpu, *, sized: bool) -> Fact[str]:
    memory = gpu.memory_mib
    name = value(gpu.product) or " / ".join(gpu.models) or "of unknown make"
    if not sized:
        return Read(name)
    if isinstance(memory, Unread):
        return memory
    return Read(f"{name} with {memory.value // _MIB_PER_GIB} GiB", memory.evidence)


def _nics(then: Node, now: Node) -> Fact[int]:
    """Count network cards of the ConnectX and BlueField families, by board."""
    for node in (then, now):
        if isinstance(node.nics_found, Unread):
            return node.nics_found
    return _fewer("network cards", *([nic.kind["board"] for nic in node.nics] for node in (then, now)))


def _ports(then: Node, now: Node) -> Fact[int]:
    """Count ports of the compute fabric that carry traffic, none of them at a lower rate."""
    if not then.fabric.connected:
        return Read(0)
    for node in (then, now):
        if node.ports_unread:
            return node.ports_unread
    had, has = (_rates(node.fabric.connected) for node in (then, now))
    if isinstance(had, Unread):
        return had
    if isinstance(has, Unread):
        return has
    slow: list[float] = [rate for was, rate in zip_longest(had.value, has.value, fillvalue=0.0) if rate < was]
    carry = f"{len(now.fabric.connected)} of {len(then.fabric.connected)} ports carry traffic"
    slowest = min(slow, default=0.0)
    return Read(len(slow), note=carry + (f", the slowest at {slowest:g} Gb/s" if slowest else ""))


def _rates(ports: Iterable[Port]) -> Fact[Sequence[float]]:
    """Give the rates of ports, the fastest first."""
    rates = [port.line_rate_gbps for port in ports]
    unread = next((one for one in rates if isinstance(one, Unread)), None)
    return unread or Read(sorted((one.value for one in rates if isinstance(one, Read)), reverse=True))


def _nvlinks(then: Node, now: Node) -> Fact[int]:
    """Count NVLinks that are up, of all GPUs together."""
    had = sum(up.value for gpu in then.gpus if isinstance(up := gpu.nvlink.up, Read))
    has = [gpu.nvlink.up for gpu in now.gpus if not gpu.loss]
    unread = next((one for one in (now.gpus_on_bus, *has) if isinstance(one, Unread)), None)
    if unread and had:
        return unread
    count = sum(one.value for one in has if isinstance(one, Read))
    return Read(max(0, had - count), note=f"{count} of {had} NVLinks are up")


def _mounts(then: Node, now: Node, mounts: Sequence[Mount]) -> Fact[int]:
    """Count file systems that are not there, of another kind, or that do not answer.

    From which server, or of which disks, is a node's own: storage gives each node an address of many.
    """
    words = []
    for path in (mount.path for mount in mounts):
        was, found = then.mounts.at(path), now.mounts.at(path)
        for fact in (was.own, found.own, was.kind, found.kind):
            if isinstance(fact, Unread):
                return fact
        if value(was.own) and not value(found.own):
            words.append(f"{path} is not mounted")
        elif value(was.kind) != value(found.kind):
            words.append(f"{path} is {value(found.kind)} in place of {value(was.kind)}")
        elif isinstance(found.answers, Read) and not found.answers.value:
            words.append(f"{path} does not answer: {found.answers.note}")
    return counted(words)


def _fewer(what: str, had: Iterable[str | None], has: Iterable[str | None]) -> Read[int]:
    """Count by kind of what there is less."""
    was, now = Counter(had), Counter(has)
    lack = was - now
    words = (f"{now[kind]} of {was[kind]} {what} ({kind})" for kind in lack)
    return Read(lack.total(), note="; ".join(words))
