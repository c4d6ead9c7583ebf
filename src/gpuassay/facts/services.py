"""What a host's services, kernel and memory controllers report, and what its own name leads to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gpuassay.facts.source import document, take, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_UNIT = re.compile(r"^[ ●*]*([\w@.\\:-]{1,256}\.\w{1,16}) +\S+ +failed +\S+", re.MULTILINE)
_TOTAL = re.compile(r"^(\d{1,6}) (?:loaded )?units listed", re.MULTILINE | re.ASCII)
_NO_SYSTEMD = re.compile(r"not been booted with systemd|Failed to connect to bus|No such file")

# mm/oom_kill.c; "Memory cgroup out of memory" is a job that reached the limit of its own.
_KILLED = re.compile(
    rb"^[0-7],[0-9]+,[0-9]+,[^;]*;Out of memory: Kill(?:ed)? process (.{0,80})", re.MULTILINE
)
_STRAY = re.compile(rb"^(?![0-9]{1,9},[0-9]{1,19},[0-9]{1,19},[^;\n]*;| ).+", re.MULTILINE)
_COUNT = r"[0-9]{1,18}"
_DAY = 86400


def failed_units(evidence: Evidence) -> Fact[int]:
    """Count the failed services among those that were asked for; where no systemd is, none can be seen."""
    item = evidence.item("failed-units")
    units = text(evidence, "failed-units")
    if isinstance(units, Unread):
        if units.kind == "not_found" or (item and _NO_SYSTEMD.search(item.err)):
            return Unread("denied", "no systemd can be asked from here", units.evidence)
        return units
    names, total = _UNIT.findall(units.value), _TOTAL.search(units.value)
    if total is None or int(total[1]) != len(names):
        return Unread("garbled", "systemctl does not count as many units as it lists", units.evidence)
    return Read(len(names), units.evidence, f"failed: {', '.join(names)}" if names else "")


def killed_for_memory(evidence: Evidence) -> Fact[int]:
    """Count the processes that the kernel killed because the machine, not a job's limit, had no memory."""
    item = evidence.item("kmsg")
    if item is None or item.status != "ok":
        lack = take(evidence, "kmsg")
        if isinstance(lack, Unread) and lack.kind == "not_found":
            return Unread("denied", f"no kernel log here: {lack.why}", lack.evidence)
        return lack if isinstance(lack, Unread) else Unread("failed", "the kernel log came with an error")
    # Where the older part was cut off, the first line may be the rest of one.
    out = item.out.partition(b"\n")[2] if item.truncated else item.out
    stray = _STRAY.search(out)
    if stray or not out:
        why = brief(stray[0].decode(errors="replace")) if stray else ""
        return Unread("garbled", f"no record of a kernel log: '{why}'", evidence.ref(item))
    found = _KILLED.findall(out)
    note = f"the last: process {brief(found[-1].decode(errors='replace'))}" if found else ""
    return Read(len(found), evidence.ref(item), note)


class MemoryErrors(NamedTuple):
    """What the memory controllers counted since they were last reset."""

    uncorrected: int
    corrected_per_day: float


def memory_errors(evidence: Evidence) -> Fact[MemoryErrors]:
    """Read the error counts; a host on which no driver counts them does not show any, so none can be seen."""
    controllers = document(evidence, "edac")
    if controllers.unread:
        return controllers.unread
    worst, uncorrected, told = 0.0, 0, []
    for name, controller in controllers.items():
        counts = _counts(controller)
        if isinstance(counts, Unread):
            return counts
        ours, corrected, seconds = counts
        uncorrected += ours
        worst = max(worst, round(corrected * _DAY / max(seconds, _DAY), 2))
        if ours or corrected:
            told.append(f"{brief(name)}: {ours} uncorrected, {corrected} corrected in {seconds / 3600:.0f} h")
    if not dict(controllers.items()):
        return Unread(
            "denied", "no driver counts the errors of main memory here (EDAC)", controllers.evidence
        )
    return Read(MemoryErrors(uncorrected, worst), controllers.evidence, "; ".join(told))


def _counts(controller: Record) -> tuple[int, int, int] | Unread:
    numbers = []
    for key in ("ue_count", "ce_count", "seconds_since_reset"):
        count = controller.text(key, _COUNT, "a count")
        if isinstance(count, Unread):
            return count
        numbers.append(int(count.value))
    return numbers[0], numbers[1], numbers[2]


class OwnName:
    """What a node's own name leads to, as the node itself resolves it."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the evidence of a node."""
        self._name = document(evidence, "own-name")

    @property
    def leads_to(self) -> Fact[str]:
        """``itself``, ``another machine`` or ``nothing``."""
        found = self._name.listed("addresses")
        if isinstance(found, Unread):
            return found
        if not found.value:
            why = self._name.text("why")
            return Read("nothing", found.evidence, why.value if isinstance(why, Read) else "")
        for address in found.value:
            own = address.flag("own")
            if isinstance(own, Unread):
                return own
            if not own.value:
                note = f"one of {len(found.value)} addresses belongs to no interface of this machine"
                return Read("another machine", found.evidence, note)
        return Read("itself", found.evidence)

    @property
    def others_can_use_it(self) -> Fact[bool]:
        """Whether the first address of its name is one that other machines can connect to."""
        found = self._name.listed("addresses")
        if isinstance(found, Unread):
            return found
        if not found.value:
            return Read(value=False, evidence=found.evidence, note="the name leads to no address")
        kind = found.value[0].text("kind", "loopback|link-local|other")
        if isinstance(kind, Unread):
            return kind
        usable = kind.value == "other"
        note = "" if usable else f"the first address of the node's own name is a {kind.value} address"
        return Read(usable, found.evidence, note)
