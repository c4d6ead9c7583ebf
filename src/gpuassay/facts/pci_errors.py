"""Errors on the PCI bus: what the kernel counted on GPUs, network cards and the ports above them."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuassay.facts.pci import AMD
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.pci import Bus
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

_NETWORK: Final = "0x02"
_TOTAL: Final = re.compile(r"^TOTAL_ERR_(?:COR|NONFATAL|FATAL) ([0-9]{1,19})$", re.MULTILINE)
_TOLD = 4
_LEAST_HOURS = 1.0  # a rate over the minutes after a boot, in which links are trained, would say nothing


class PciErrors:
    """The error counts of one node. They begin when a device is found, mostly at the boot."""

    def __init__(self, bus: Bus, gpus: Sequence[Gpu], uptime_hours: Fact[float]) -> None:
        """Look at the GPUs and network cards of a bus, and at all ports above them."""
        self._bus = bus
        self._gpus = gpus
        self._uptime = uptime_hours

    @property
    def fatal(self) -> Fact[int]:
        """How many errors cost a link or a device."""
        return self._sum("aer_dev_fatal")

    @property
    def nonfatal(self) -> Fact[int]:
        """How many errors cost a transaction."""
        return self._sum("aer_dev_nonfatal")

    @property
    def corrected_per_hour(self) -> Fact[float]:
        """How many errors were corrected in an hour, on average, at the worst place."""
        counts = self._counts("aer_dev_correctable")
        if isinstance(counts, Unread) or isinstance(self._uptime, Unread):
            return counts if isinstance(counts, Unread) else self._uptime
        hours = max(self._uptime.value, _LEAST_HOURS)
        rates = {place: count / hours for place, (count, _) in counts.items()}
        worst = max(rates, key=lambda place: rates[place], default="")
        if not worst:
            return self._none()
        return Read(round(rates[worst], 2), self._bus.evidence, f"at {worst}: {counts[worst][1]}")

    @property
    def replays_per_minute(self) -> Fact[float]:
        """How many packets a GPU had to send again in a minute, on average, at the worst GPU."""
        counts = {
            gpu.where.partition("/")[2]: gpu.health.pcie_replays for gpu in self._gpus if gpu.vendor != AMD
        }
        if isinstance(self._bus.count, Unread):
            return self._bus.count
        if not counts:
            return Unread("unsupported", "only NVIDIA's driver counts replays")
        for fact in (*counts.values(), self._uptime):
            if isinstance(fact, Unread):
                return fact
        read = {place: fact for place, fact in counts.items() if isinstance(fact, Read)}
        worst = max(read, key=lambda place: read[place].value)
        minutes = max(self._uptime.value, _LEAST_HOURS) * 60 if isinstance(self._uptime, Read) else 1.0
        rate = round(read[worst].value / minutes, 3)
        return Read(rate, read[worst].evidence, f"at {worst}: {read[worst].value} replays")

    def _sum(self, kind: str) -> Fact[int]:
        counts = self._counts(kind)
        if isinstance(counts, Unread):
            return counts
        bad = {place: told for place, (count, told) in counts.items() if count}
        if not bad:
            return Read(0, self._bus.evidence)
        named = [f"{place}: {told}" for place, told in list(bad.items())[:_TOLD]]
        more = [f"and at {len(bad) - _TOLD} more places"] if len(bad) > _TOLD else []
        total = sum(count for count, _ in counts.values())
        return Read(total, self._bus.evidence, "; ".join([*named, *more]))

    def _none(self) -> Unread:
        return Unread("denied", "there is no GPU on the bus to count errors of", self._bus.evidence)

    def counts(self, kind: str) -> Fact[Mapping[str, tuple[int, str]]]:
        """Give the counts of a kind (``aer_dev_fatal`` …) by place, with what they are made of."""
        counts = self._counts(kind)
        return counts if isinstance(counts, Unread) else Read(counts, self._bus.evidence)

    def _counts(self, kind: str) -> Mapping[str, tuple[int, str]] | Unread:
        """Read counts of one kind by place. That there were none is known only if each GPU counts them."""
        if isinstance(self._bus.count, Unread):
            return self._bus.count
        counts: dict[str, tuple[int, str]] = {}
        silent: list[str] = []
        for address, place in self._watched.items():
            fact = _count(self._bus.function(address), kind)
            if isinstance(fact, Read):
                counts[place] = fact.value
            elif fact.kind != "not_found":
                return fact
            elif place.startswith("GPU"):
                silent.append(address)
        if silent and not any(count for count, _ in counts.values()):
            why = (
                f"nothing counts the errors of {', '.join(silent[:_TOLD])}: neither in most virtual machines"
            )
            return Unread("denied", f"{why}, nor where the firmware keeps them to itself", self._bus.evidence)
        return counts

    @cached_property
    def _watched(self) -> Mapping[str, str]:
        """Name what is looked at, by address: GPUs, network cards, and the ports above either."""
        ends = {one.where: f"GPU {one.where}" for one in self._bus.gpus}
        ends |= {address: f"network card {address}" for address in self._bus.of_class(_NETWORK)}
        ports: dict[str, str] = {}
        for address, place in ends.items():
            above = self._bus.parent(address)
            while above and above not in ports and above not in ends:
                ports[above] = f"port {above} above {place}"
                above = self._bus.parent(above)
        return ends | ports


def _count(function: Record, kind: str) -> Fact[tuple[int, str]]:
    """Read one file of counts: its total, and those that are not zero."""
    aer = function.look("aer")
    if isinstance(aer, Unread):
        asked = aer.kind != "not_found" or function.unread is not None
        return aer if asked else Unread("not_asked", "errors were not asked for", aer.evidence)
    if type(aer.value) is int and aer.value == 0:  # all three files say zero
        return Read((0, ""), aer.evidence)
    text = function.record("aer").look(kind)
    if isinstance(text, Unread):
        return text
    total = _TOTAL.search(text.value) if isinstance(text.value, str) else None
    if total is None:
        return function.garbled(kind, text.value, "counts of errors")
    lines = [line for line in text.value.splitlines() if not line.startswith("TOTAL")]
    return Read((int(total[1]), brief(", ".join(lines)) or f"{total[1]} in all"), text.evidence)
