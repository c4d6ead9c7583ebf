"""The kernel log: how far back it reaches, and what NVIDIA's drivers wrote into it.

A record of /dev/kmsg is ``priority,sequence,microseconds,flags;message``; lines that begin with a space
belong to the record above them. The kernel writes with facility 0 (priority below 8), and user space
cannot: a line in the form of an Xid with another facility was written by somebody, for a drill or in jest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from gpuassay.facts import kernel_journal
from gpuassay.facts.host import uptime_hours
from gpuassay.facts.source import document, take
from gpuassay.facts.text import brief, pci_address
from gpuassay.facts.xid import Event, catalogue
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts.source import Evidence
    from gpuassay.facts.xid import Kind, Severity
    from gpuassay.judge.fact import Fact

_HEAD = re.compile(r"([0-9]{1,9}),([0-9]{1,19}),([0-9]{1,19}),[^;]*;")
_KERNEL_BELOW = 8  # facility 0 in the upper bits of the priority
_OURS = ("NVRM", "SXid")
_TOLD = 8  # groups of like events that a note names; the evidence has all

# The forms of drivers from R470 to R595: with and without "PCI:", with MIG instances, any number of spaces.
_SIGN = re.compile(r"(?:NVRM:\s+X|\bSX)id\b")
_NUMBERED = re.compile(
    r"(NVRM:\s+X|\bSX)id\s*\((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\)\s*:\s*([0-9]{1,9})\b[\s,:]*(.*)", re.DOTALL
)
_SXID_WORD = re.compile(r"(?:non-?)?fatal\b", re.IGNORECASE)
# A GPU that is missing when the driver starts has no Xid: "The NVIDIA GPU 0000:18:00.0 (PCI ID: …) installed
# in this system has fallen off the bus …", in one record or over three.
_NAMED = re.compile(r"NVRM:.*?\bGPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)")
_FALLEN = re.compile(r"NVRM:.*\bfallen off the bus")
_FALLEN_CODE = 79
_DRILL = re.compile(r"\bgpuassay-([0-9a-f]{8})\b")  # the mark of fault.node.kernel_log


class Record(NamedTuple):
    """One message, and who wrote it."""

    by_kernel: bool
    seconds: float
    message: str


class Records(NamedTuple):
    """The records of a log: their heads, those that may be a driver's, and the lines that are none."""

    heads: Sequence[re.Match[str]]
    ours: Sequence[Record]
    strays: Sequence[str]


@dataclass(frozen=True, slots=True)
class KernelLog:
    """What the kernel log of a node holds. The counts are of events; a note names each kind of them.

    ``window_hours``: how far back the record reaches; ``newest_seconds``: when its last one was written.
    ``serious_xids``, ``application_xids`` and ``unknown_xids``: by the class that xid.toml gives them;
    harmless ones are in none of these.
    ``fatal_sxids`` and ``nonfatal_sxids``: of NVSwitches, without errors that were corrected.
    ``written_by_user``: lines in the form of an Xid or SXid that the kernel did not write.
    """

    window_hours: Fact[float]
    newest_seconds: Fact[float]
    serious_xids: Fact[int]
    application_xids: Fact[int]
    unknown_xids: Fact[int]
    fatal_sxids: Fact[int]
    nonfatal_sxids: Fact[int]
    written_by_user: Fact[int]

    @classmethod
    def unread(cls, reason: Unread) -> KernelLog:
        """Give the log of a node of which none could be read."""
        return cls(**{field.name: reason for field in fields(cls)})


def read(evidence: Evidence) -> KernelLog:
    """Read the kernel log of a node; a damaged one proves what is in it, but not that nothing else was."""
    return read_since(evidence, -1.0)


def read_since(evidence: Evidence, seconds: float, gap: Unread | None = None) -> KernelLog:
    """Read what was written after so many seconds of uptime; ``gap`` is why that is not all there was."""
    item, lack = log_of(evidence)
    if item is None or (lack is not None and not item.out):
        return KernelLog.unread(lack or Unread("not_asked", "kmsg was not asked for"))
    ref = evidence.ref(item)
    log = records(item, _OURS)
    if not log.heads:
        return KernelLog.unread(lack or Unread("garbled", "no record in the kernel log", ref))
    if log.strays and lack is None:
        why = f"{len(log.strays)} lines are no kernel records: '{brief(log.strays[0])}'"
        lack = Unread("garbled", why, ref)
    lack = lack or gap or begins_after(seconds, log.heads, ref)
    judged = catalogue().judge(_events(record for record in log.ours if record.by_kernel))
    told = _Telling(evidence, ref, lack, [pair for pair in judged if pair[0].seconds > seconds])
    return KernelLog(
        window_hours=lack or window(evidence, log.heads, ref),
        newest_seconds=Read(max(int(head[3]) for head in log.heads) / 1e6, ref),
        serious_xids=told.count("Xid", "serious"),
        application_xids=told.count("Xid", "application"),
        unknown_xids=told.count("Xid", "unknown"),
        fatal_sxids=told.count("SXid", "serious"),
        nonfatal_sxids=told.count("SXid", "unknown"),
        written_by_user=told.by_user(
            _events(record for record in log.ours if not record.by_kernel and record.seconds > seconds)
        ),
    )


def begins_after(seconds: float, heads: Sequence[re.Match[str]], ref: str) -> Unread | None:
    """Say that the log has lost what was written just after some time, if so."""
    oldest = min(int(head[3]) for head in heads) / 1e6
    if oldest <= seconds or seconds <= 0:
        return None
    why = f"the log has lost its older part: it begins {oldest / 3600:.1f} h after the boot"
    return Unread("denied", f"{why}, and the earlier recording was made at {seconds / 3600:.1f} h", ref)


def log_of(evidence: Evidence) -> tuple[Item | None, Unread | None]:
    """Give the log, or in its place the journal's messages; and why it did not come whole, if so."""
    item = evidence.item("kmsg")
    lack = _lack_of(evidence, item)
    if lack is None or (item and item.out):
        return item, lack
    journal = kernel_journal.as_kmsg(evidence)
    return (journal, None) if journal else (item, lack)


def _lack_of(evidence: Evidence, item: Item | None) -> Unread | None:
    """Say why the log did not come whole, if so; a channel that is not there cannot be seen from here."""
    if item is not None and item.status == "ok":
        return None
    fact = take(evidence, "kmsg")
    if isinstance(fact, Unread) and fact.kind == "not_found":
        return Unread("denied", f"no kernel log here: {fact.why}", fact.evidence)
    return fact if isinstance(fact, Unread) else None


def records(item: Item, signs: Sequence[str]) -> Records:
    """Split the log into records, and lines that are none; of the records, keep those with one of ``signs``.

    A line may hold any byte but a newline.
    """
    lines = item.out.decode(errors="replace").split("\n")
    heads: list[re.Match[str]] = []
    ours: list[Record] = []
    strays: list[str] = []
    # Where the older part was cut off, the first line may lack digits of its priority: it could be anybody's.
    for line in lines[1:] if item.truncated else lines:
        head = _HEAD.match(line)
        if head:
            heads.append(head)
            if any(sign in line for sign in signs):
                ours.append(Record(int(head[1]) < _KERNEL_BELOW, int(head[3]) / 1e6, line[head.end() :]))
        elif line.strip() and not line.startswith(" "):
            strays.append(line)
    return Records(heads, ours, strays)


def window(evidence: Evidence, heads: Sequence[re.Match[str]], ref: str) -> Fact[float]:
    """Read how far back the record reaches: from its oldest record to now, in hours."""
    times = [int(head[3]) for head in heads]
    oldest, newest = min(times) / 3.6e9, max(times) / 3.6e9  # microseconds to hours
    uptime = uptime_hours(evidence)
    # Uptime is that of a container where one has its own; the log's newest record is never in the future.
    now = max(newest, uptime.value) if isinstance(uptime, Read) else newest
    since_boot = int(heads[0][2]) == 0
    start = "goes back to the boot" if since_boot else f"begins {oldest:.1f} h after the boot"
    up = f"{uptime.value:.1f} h" if isinstance(uptime, Read) else f"unknown ({uptime.why})"
    note = f"the record {start}; uptime {up}; newest record at {newest:.1f} h; {len(heads)} records"
    return Read(round(now - oldest, 2), ref, note)


# --- events --------------------------------------------------------------------------------------------


def _events(records: Iterable[Record]) -> list[Event]:
    """Find the drivers' messages, each once: a line that only repeats a numbered one is left out."""
    found: list[Event] = []
    bare: list[Event] = []  # without the number 79, or without the word that says how bad an SXid is
    named = ""
    for record in records:
        message = record.message.replace("\\x0a", " ")  # so the kernel writes a newline inside a record
        event = _numbered(message, record.seconds)
        if event is not None:
            (found if _complete(event) else bare).append(event)
            continue
        gpu = _NAMED.search(message)
        named = _device(gpu[1]) if gpu else named
        if _FALLEN.search(message):
            bare.append(Event("Xid", _FALLEN_CODE, named, "", record.seconds))
            named = ""
    known = {(event.kind, event.code, event.device) for event in found}
    return [*found, *(event for event in bare if (event.kind, event.code, event.device) not in known)]


def _numbered(message: str, seconds: float) -> Event | None:
    """Read a line that says Xid or SXid; its code is None where the rest is in a form unknown to us."""
    sign = _SIGN.search(message)
    if sign is None:
        return None
    kind: Kind = "SXid" if "SX" in sign[0] else "Xid"
    match = _NUMBERED.match(message, sign.start())
    if match is None:
        return Event(kind, None, "", message[sign.start() :], seconds)
    return Event(kind, int(match[3]), _device(match[2]), match[4].strip(), seconds)


def _complete(event: Event) -> bool:
    """Tell an SXid's own line from those that follow it with severity and register values."""
    return event.kind == "Xid" or bool(_SXID_WORD.match(event.text))


def _device(address: str) -> str:
    """Write an address as domain:bus:device, the way a GPU's Xid lines do."""
    whole = pci_address(address if "." in address else f"{address}.0")
    return whole.rpartition(".")[0] if whole else address.lower()


# --- facts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Telling:
    """Turns judged events into facts. ``lack`` is why nothing more than what was found can be said."""

    evidence: Evidence
    ref: str
    lack: Unread | None
    judged: Sequence[tuple[Event, Severity]]

    def count(self, kind: Kind, severity: Severity) -> Fact[int]:
        """Count the events of a kind that are this bad."""
        events = [event for event, found in self.judged if (event.kind, found) == (kind, severity)]
        return self._fact(events, lambda event: f": {catalogue().action(event)}")

    def by_user(self, events: Sequence[Event]) -> Fact[int]:
        """Count events that user space wrote: they say nothing of the hardware, so they call for nothing."""
        return self._fact(events, _writer)

    def _fact(self, events: Sequence[Event], remark: Callable[[Event], str]) -> Fact[int]:
        """Count events and name them; that there are none is known only of a log that came whole."""
        if not events:
            return self.lack or Read(0, self.ref)
        gpus = _gpus(self.evidence)
        groups = defaultdict(list)
        for event in events:
            groups[catalogue().tell(event), event.device, remark(event)].append(event)
        told = [
            f"{what} on {_place(device, gpus)} x{len(alike)} "
            f"({when(event.seconds for event in alike)}){remarked}"
            for (what, device, remarked), alike in list(groups.items())[:_TOLD]
        ]
        more = len(groups) - len(told)
        return Read(len(events), self.ref, "; ".join([*told, f"and {more} more kinds"] if more else told))


def _writer(event: Event) -> str:
    """Say who wrote an event that the kernel did not; our own failure injection marks its lines."""
    drill = _DRILL.search(event.text)
    if drill:
        return f", written by GPUassay's own failure injection, trial {drill[1]}, and not by the kernel"
    return ", written by a user and not by the kernel"


def _place(device: str, gpus: Mapping[str, str]) -> str:
    return f"{gpus[device]} ({device})" if device in gpus else device or "a GPU that the line does not name"


def when(seconds: Iterable[float]) -> str:
    """Say when things happened, in hours of uptime."""
    hours = [second / 3600 for second in seconds]
    first, last = f"{min(hours):.1f}", f"{max(hours):.1f}"
    return f"uptime {first} h" if first == last else f"uptime {first} to {last} h"


def _gpus(evidence: Evidence) -> dict[str, str]:
    """Name GPUs by address, as far as the driver still lists them."""
    devices = document(evidence, "nvml").listed("devices")
    names = {}
    for device in () if isinstance(devices, Unread) else devices.value:
        index, address = device.count("index"), device.text("pci")
        if isinstance(index, Read) and isinstance(address, Read):
            names[_device(address.value)] = f"gpu{index.value}"
    return names
