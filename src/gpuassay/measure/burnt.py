"""What became of an accelerator while it multiplied and exchanged at the same time, for hours."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures, paces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact
    from gpuassay.measure.journals import Journal

HOUR_S = 3600.0
SILENT = Unread("failed", "no rank worked on this GPU")


@dataclass(frozen=True)
class Burnt:
    """A GPU, or the processor that stands in where there is none, and the journals of its ranks."""

    node: str
    where: str
    models: tuple[str, ...]
    journals: Sequence[Journal]
    accelerator: bool
    beside: Sequence[Burnt] = field(default=(), repr=False, compare=False)  # all of the job, itself too

    # --- is it alive -----------------------------------------------------------------------------

    @property
    def alive(self) -> Fact[bool]:
        """Whether its ranks came through, or stopped only because another one was lost."""
        if not self.journals:
            return SILENT
        told = (self._alive_after(one) for one in self.journals)
        through = Read(value=True, evidence=self._last) if self.beats else self._nothing
        return next((fact for fact in told if fact), through)

    def _alive_after(self, one: Journal) -> Fact[bool] | None:
        """Say so of one segment; None where it came through, or its controller ended before it."""
        if one.cut and any(other.stopped_in(one.segment) for other in self.beside):
            return Unread("failed", self._told(one, f"{one.last_words}, while others stopped"), one.evidence)
        if one.lost:
            return Read(value=False, evidence=one.evidence, note=self._told(one, one.last_words))
        if not one.stopped:
            return None
        lost = [other.where for other in self.beside if other.lost_in(one.segment)]
        words = f"stopped when {', '.join(lost[:3])} was lost" if lost else one.stopped
        alive = bool(lost) or not one.broke
        return Read(value=alive, evidence=one.evidence, note=self._told(one, words))

    def stopped_in(self, segment: int) -> bool:
        """Whether its rank said in a segment that it goes no further."""
        return any(one.stopped for one in self.journals if one.segment == segment)

    def lost_in(self, segment: int) -> bool:
        """Whether its rank fell silent in a segment."""
        return any(one.lost for one in self.journals if one.segment == segment)

    def _told(self, journal: Journal, words: str) -> str:
        return f"segment {journal.segment}: {words}"

    @property
    def stall_s(self) -> Fact[float]:
        """How much longer its longest beat took than its usual one, in seconds."""
        spans = [span for _, span in self._spans]
        if not spans:
            return self._nothing
        return Read(round(max(spans) - statistics.median(spans), 3), self._last)

    @property
    def hours(self) -> Fact[float]:
        """For how long it was under load."""
        if not self.beats:
            return self._nothing
        total = sum(span for _, span in self._spans)
        return Read(round(total / HOUR_S, 4), self._last, f"{len(self.beats)} beats")

    # --- is it right -----------------------------------------------------------------------------

    @property
    def wrong_tiles(self) -> Fact[int]:
        """How many tiles of products had other bits than the same product had before."""
        if any(told := [note for one in self.begins if (note := _unsure(one))]):
            same = [gpu for gpu in self.beside if gpu.models == self.models and gpu is not self]
            if same and not any(_unsure(one) for gpu in same for one in gpu.begins):
                note = f"{told[0]}, and all others of its kind have"
                return Read(1, self._last, note)
            return Unread("failed", f"{told[0]}: nothing can be told by it", self._last)
        counts = [one.record("looked").count("wrong") for one in self.beats]
        found = figures.total(counts) if counts else self._nothing
        if isinstance(found, Unread) or not found.value:
            return found
        return Read(found.value, found.evidence, self._suspects)

    @property
    def _suspects(self) -> str:
        for one in self.beats:
            listed = one.record("looked").listed("told")
            if isinstance(listed, Read) and listed.value:
                beat = one.count("beat")
                number = beat.value if isinstance(beat, Read) else "?"
                return f"beat {number}: {_verdict(listed.value[0])}"
        return "no rank said which"

    @property
    def tiles(self) -> int:
        """How many tiles were looked at."""
        counts = (one.record("looked").count("tiles") for one in self.beats)
        return sum(count.value for count in counts if isinstance(count, Read))

    @property
    def unlike(self) -> Fact[int]:
        """How many formats in which it gives other bits than most of its kind do, from the first on."""
        own = _digests(self)
        if not own:
            return self._nothing
        found = []
        for name, digest in own.items():
            alike = [gpu for gpu in self.beside if gpu.models == self.models and name in _digests(gpu)]
            votes = Counter(_digests(gpu)[name] for gpu in alike)
            (most, count), *_ = votes.most_common(1)
            if most != digest and 2 * count > len(alike):
                found.append(f"{name}: {digest} here, {most} on {count} of {len(alike)}")
        return Read(len(found), self._last, "; ".join(found))

    @property
    def wrong_exchanged(self) -> Fact[int]:
        """How many elements of the exchanges were not what their sender had put in."""
        counts = [one.count("wrong") for one in (*self._alone("exchanges"), *self.beats)]
        return figures.total(counts) if self.beats else self._nothing

    # --- how it went -----------------------------------------------------------------------------

    @property
    def both_share(self) -> Fact[float]:
        """For what share of the time products and exchanges were under way at once, by the device's clock."""
        shares = [self._number(one, "both") for one in self.beats]
        if not self.beats or None in shares:
            return self._nothing
        total = sum(span for _, span in self._spans)
        return Read(round(sum(filter(None, shares)) / total, 4), self._last)

    @property
    def efficiency(self) -> Fact[float]:
        """How much is done at once, by the time that each takes alone: 1 is no gain, 2 is all."""
        return paces.efficiency(self.journals) or self._nothing

    @property
    def tflops(self) -> Fact[float]:
        """The median of its beats in the format that it is best at."""
        rates = paces.products(self.journals)
        if not rates:
            return self._nothing
        best = max(statistics.median(rate for _, rate in one) for one in rates.values())
        return Read(float(f"{best:.4g}"), self._last)

    @property
    def products_last_of_first(self) -> Fact[float]:
        """Its products in the last hour, as a share of those of the first."""
        return paces.drift(paces.products(self.journals)) or self._nothing

    @property
    def exchange_last_of_first(self) -> Fact[float]:
        """The same of the exchanges."""
        return paces.drift(paces.exchanges(self.journals)) or self._nothing

    @property
    def held_share(self) -> Fact[float]:
        """In what share of the samples something other than the power limit held its clocks down."""
        listed = [one.look("samples") for one in self.beats]
        samples = [sample for fact in listed if isinstance(fact, Read) for sample in fact.value]
        masks = [
            one["held_by"] for one in samples if isinstance(one, dict) and type(one.get("held_by")) is int
        ]
        if not masks:
            why = next(
                (said.value for one in self.beats if isinstance(said := one.look("no_samples"), Read)), ""
            )
            return Unread(
                "unsupported", f"nothing tells what holds its clocks{why and ': '}{why}", self._last
            )
        held = [mask for mask in masks if mask & figures.UNDUE]
        note = f"reasons {max(held):#x} in {len(held)} of {len(masks)} samples" if held else ""
        return Read(len(held) / len(masks), self._last, note)

    # --- parts -----------------------------------------------------------------------------------

    @cached_property
    def beats(self) -> tuple[Record, ...]:
        """All of its beats."""
        return tuple(beat for one in self.journals for beat in one.beats)

    @cached_property
    def begins(self) -> tuple[Record, ...]:
        """What it said at the begin of each segment."""
        return tuple(one.begin for one in self.journals if one.begin)

    def _alone(self, key: str) -> list[Record]:
        listed = (one.listed(key) for one in self.begins)
        return [row for fact in listed if isinstance(fact, Read) for row in fact.value]

    @property
    def _spans(self) -> list[tuple[Record, float]]:
        found = ((one, self._number(one, "span")) for one in self.beats)
        return [(one, span) for one, span in found if span]

    def _number(self, row: Record, key: str) -> float | None:
        return paces.number(row, key)

    @property
    def _last(self) -> str:
        return self.journals[-1].evidence if self.journals else ""

    @property
    def _nothing(self) -> Unread:
        """Say why there is nothing to tell of it."""
        if not self.journals:
            return SILENT
        one = self.journals[-1]
        return Unread("failed", one.stopped or one.last_words, one.evidence)


def _unsure(begin: Record) -> str:
    """Say in which format it did not come to the same bits twice, or to the right values, while alone."""
    listed = begin.listed("products")
    for row in listed.value if isinstance(listed, Read) else ():
        name, alike, wrong = row.text("format"), row.flag("alike"), row.count("wrong")
        called = name.value if isinstance(name, Read) else "?"
        if isinstance(alike, Read) and not alike.value:
            return f"{called} has not come out alike twice, alone"
        if isinstance(wrong, Read) and wrong.value:
            return f"{wrong.value} elements of {called} were wrong from the first on"
    return ""


def _digests(gpu: Burnt) -> dict[str, str]:
    """Give what its products came to, by format, as it said last."""
    found = {}
    for row in gpu._alone("products"):  # noqa: SLF001 - of this module
        name, digest = row.text("format"), row.text("digest")
        if isinstance(name, Read) and isinstance(digest, Read):
            found[name.value] = digest.value
    return found


def _verdict(row: Record) -> str:
    """Say what a suspect tile was, by what it came to when it was computed again alone."""
    name, tile, known, alone = row.text("format"), row.look("tile"), row.look("known"), row.look("alone")
    kept = row.flag("operands_kept")
    place = (
        f"tile {tile.value} in {name.value}"
        if isinstance(tile, Read) and isinstance(name, Read)
        else "a tile"
    )
    if isinstance(kept, Read) and not kept.value:
        return f"{place}: its operands have changed in memory"
    again = alone.value if isinstance(alone, Read) and isinstance(alone.value, list) else []
    if again and isinstance(known, Read):
        right = sum(one == known.value for one in again)
        if right == len(again):
            return f"{place}: wrong under load, and right each time when computed again alone"
        if len(set(again)) == 1:
            return f"{place}: wrong alone too, each time in the same way"
        return f"{place}: alone it was right {right} of {len(again)} times"
    return f"{place}: it was not computed again"
