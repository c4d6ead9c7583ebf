"""What AMD's driver wrote into the kernel log: errors, hangs and resets. The lines are in amdgpu.toml."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from gpuassay.facts.kernel_log import begins_after, log_of, records, when, window
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpuassay.facts.kernel_log import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_SIGNS = ("amdgpu", "[drm", "kfd", "qcm fence", "cp might be")
_ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
_TOLD = 8  # groups of like events that a note names; the evidence has all
_UNENDED = "a reset that did not end"


class Line(NamedTuple):
    """A kind of line; see amdgpu.toml."""

    pattern: re.Pattern[str]
    kind: str
    name: str
    action: str
    once: bool


class Event(NamedTuple):
    """One line that tells of a fault: what, on which GPU and in which block (empty if it names none)."""

    kind: str
    name: str
    block: str
    device: str
    action: str
    seconds: float
    once: bool = False

    @property
    def about(self) -> tuple[str, str, str]:
        """What and where, without when."""
        return (self.name, self.block, self.device)


@dataclass(frozen=True, slots=True)
class AmdgpuLog:
    """What the kernel log says of AMD's GPUs; the counts are of events, a note names each kind of them.

    ``serious`` ones ask for a drain, ``recovered`` ones the driver has set right itself, ``written_by_user``
    are lines in their form that the kernel did not write.
    """

    window_hours: Fact[float]
    serious: Fact[int]
    recovered: Fact[int]
    written_by_user: Fact[int]

    @classmethod
    def unread(cls, reason: Unread) -> AmdgpuLog:
        """Give the log of a node of which none could be read."""
        return cls(**{field.name: reason for field in fields(cls)})


def read(
    evidence: Evidence, places: Mapping[str, str], seconds: float = -1.0, gap: Unread | None = None
) -> AmdgpuLog:
    """Read the kernel log; ``places`` names GPUs by address. A damaged log proves only what is in it.

    What was written before so many seconds of uptime is left out; ``gap`` is why the rest is not all.
    """
    item, lack = log_of(evidence)
    if item is None or (lack is not None and not item.out):
        return AmdgpuLog.unread(lack or Unread("not_asked", "kmsg was not asked for"))
    ref = evidence.ref(item)
    log = records(item, _SIGNS)
    if not log.heads:
        return AmdgpuLog.unread(lack or Unread("garbled", "no record in the kernel log", ref))
    if log.strays and lack is None:
        lack = Unread("garbled", f"{len(log.strays)} lines are no kernel records", ref)
    lack = lack or gap or begins_after(seconds, log.heads, ref)
    events = _events(record for record in log.ours if record.by_kernel)
    drills = _events(record for record in log.ours if not record.by_kernel)

    def count(found: Sequence[Event]) -> Fact[int]:
        events = [event for event in found if event.seconds > seconds]
        return Read(len(events), ref, _told(events, places)) if events else lack or Read(0, ref)

    return AmdgpuLog(
        window_hours=lack or window(evidence, log.heads, ref),
        serious=count([event for event in events if event.kind == "serious"]),
        recovered=count([event for event in events if event.kind == "recovered"]),
        written_by_user=count(drills),
    )


def _events(lines: Iterable[Record]) -> list[Event]:
    """Find what the lines tell of, each fault once, and whether each reset came to a good end."""
    found: list[Event] = []
    resets: dict[str, Event] = {}
    for event in filter(None, map(_event, lines)):
        match event.kind:
            case "begin":
                resets[event.device] = event
            case "end":
                # The reset of one takes all of its hive: only the GPU that asked for it said that it began.
                if begun := resets.pop(event.device, None):
                    found.append(begun._replace(kind="recovered"))
            case "serious" | "recovered":
                found.append(event)
    failed = {event.device for event in found if event.action == "reboot"}
    unended = [reset for device, reset in resets.items() if device not in failed]
    found += [reset._replace(kind="serious", name=_UNENDED, action="reboot") for reset in unended]
    told = {event.about for event in found if not event.once}
    return [event for event in _each_once(found) if not (event.once and event.about in told)]


def _each_once(events: Iterable[Event]) -> Iterator[Event]:
    """Leave out what is told again and again: totals that the driver repeats."""
    seen: set[tuple[str, str, str]] = set()
    for event in events:
        if not event.once or event.about not in seen:
            yield event
        seen.add(event.about)


def _event(record: Record) -> Event | None:
    for line in _catalogue()[0]:
        match = line.pattern.search(record.message)
        if match:
            if line.kind == "log":
                return None
            address = _ADDRESS.search(record.message)
            block = match.groupdict().get("block") or ""
            device = address[0] if address else ""
            return Event(line.kind, line.name, block, device, line.action, record.seconds, line.once)
    return None


def _told(events: Sequence[Event], places: Mapping[str, str]) -> str:
    groups = defaultdict(list)
    for event in events:
        groups[event.about].append(event)
    actions = _catalogue()[1]
    told = [
        f"{name}{f' in {block}' if block else ''} on {_place(device, places)} x{len(alike)} "
        f"({when(event.seconds for event in alike)}): {actions[alike[0].action]}"
        for (name, block, device), alike in list(groups.items())[:_TOLD]
    ]
    more = len(groups) - len(told)
    return "; ".join([*told, f"and {more} more kinds"] if more else told)


def _place(device: str, places: Mapping[str, str]) -> str:
    return (
        f"{places[device]} ({device})" if device in places else device or "a GPU that the line does not name"
    )


@cache
def _catalogue() -> tuple[tuple[Line, ...], Mapping[str, str]]:
    """Read amdgpu.toml, once."""
    data = tomllib.loads(files("gpuassay.facts").joinpath("amdgpu.toml").read_text(encoding="utf-8"))
    lines = (
        Line(
            re.compile(entry["pattern"]),
            entry["class"],
            entry.get("name", ""),
            entry.get("action", "watch"),
            entry.get("once", False),
        )
        for entry in data["line"]
    )
    return tuple(lines), data["action"]
