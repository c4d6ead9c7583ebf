"""The journals of a burn-in: what each rank wrote, segment by segment, as far as it came."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.facts.record import Record
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read
from gpuassay.measure import paces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence

_ID = re.compile(r"(?P<name>\w+)/(?P<segment>[0-9]{1,6})/(?P<local>[0-9]{1,4})")


CUT = "cut"
"""In what was asked of a rank: that its controller ended before it, so that its last line was not heard."""


@dataclass(frozen=True)
class Journal:
    """What one rank wrote in one segment; ``asked`` is what was asked of it."""

    segment: int
    local: int
    item: Item
    evidence: str

    @property
    def asked(self) -> Mapping[str, Any]:
        """What was asked: workload, method, arguments, and for how long."""
        return self.item.asked

    @cached_property
    def lines(self) -> tuple[Record, ...]:
        """All lines that are documents; the last of a rank that was killed may be cut, and is none."""
        found = []
        for line in self.item.out.decode("utf-8", "replace").splitlines():
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict):
                found.append(Record(document, self.evidence))
        return tuple(found)

    @cached_property
    def begin(self) -> Record | None:
        """The line in which it tells what it is and does, once it has met the others and done each alone."""
        return next(self._of("begin"), None)

    @cached_property
    def beats(self) -> tuple[Record, ...]:
        """Its beats in order."""
        return tuple(self._of("beat"))

    @cached_property
    def pauses(self) -> tuple[Record, ...]:
        """When all stood still, to start again at once."""
        return tuple(self._of("pause"))

    @cached_property
    def end(self) -> Record | None:
        """Its last line: only a rank that is alive writes one."""
        return next(self._of("end"), None)

    @property
    def cut(self) -> bool:
        """Whether its controller ended before it did: that it wrote no last line tells nothing then."""
        return self.end is None and self.asked.get(CUT) is True

    @property
    def lost(self) -> bool:
        """Whether it fell silent while somebody listened."""
        return self.end is None and not self.cut

    @property
    def burnt_s(self) -> float:
        """For how long it was under load, as far as it told."""
        return sum(paces.number(one, "span") or 0.0 for one in self.beats)

    @property
    def stopped(self) -> str:
        """Why it stopped before its time, by its own words; empty if it did not."""
        for key in ("broken", "ended"):
            said = self.end.text(key) if self.end else None
            if isinstance(said, Read):
                return brief(said.value)
        return ""

    @property
    def broke(self) -> bool:
        """Whether it stopped because of what it met itself."""
        return self.end is not None and isinstance(self.end.text("broken"), Read)

    @property
    def last_words(self) -> str:
        """Say when it was last heard of, and how it ended."""
        why = self.item.why or "it wrote no last line"
        told = [*self._of("begin"), *self.beats][-1:]
        if not told:
            return f"it was never heard of; {why}"
        at, beat = told[0].look("at"), told[0].count("beat")
        when = _time(at.value) if isinstance(at, Read) else ""
        where = f"beat {beat.value}" if isinstance(beat, Read) else "the begin"
        return f"last heard of at {where}{when}; {why}"

    def _of(self, kind: str) -> Any:
        for line in self.lines:
            said = line.look("line")
            if isinstance(said, Read) and said.value == kind:
                yield line


def _time(value: object) -> str:
    return f", {told}" if (told := moment(value)) else ""


def moment(value: object) -> str:
    """Write down a time that a rank told; empty for what is none."""
    if type(value) not in (int, float) or not 0 <= value < 2**33:  # type: ignore[operator]
        return ""
    told = datetime.fromtimestamp(value, UTC)  # type: ignore[arg-type]
    return told.isoformat(timespec="seconds").replace("+00:00", "Z")


def name_of(measurement: str, segment: int, local: int) -> str:
    """Name the item of a rank in a segment."""
    return f"{measurement}/{segment}/{local}"


def journals(evidence: NodeEvidence) -> list[Journal]:
    """Give the journals of a node's ranks, by segment and rank."""
    found = []
    for item in evidence.items:
        told = _ID.fullmatch(item.id)
        if told:
            found.append(Journal(int(told["segment"]), int(told["local"]), item, evidence.ref(item)))
    return sorted(found, key=lambda one: (one.segment, one.local))
