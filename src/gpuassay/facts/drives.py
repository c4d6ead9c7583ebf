"""Local NVMe drives: what they are, and how worn."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_NAME = re.compile(r"nvme[0-9]{1,4}")
_SECTOR = 512  # /sys counts in these, whatever the drive's own
_MOST_PERCENT = 255  # the log's largest figure: it goes on counting above 100


class Drives:
    """The NVMe drives of a node; those that are reached through a network are somebody else's."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what the probe read from ``/sys/class/nvme``, and at their health logs."""
        self._listed = document(evidence, "nvme", missing="not_found")
        self._health = document(evidence, "nvme-health", missing="not_found")

    @property
    def present(self) -> Fact[bool]:
        """Whether there is any."""
        local = self._local
        return local if isinstance(local, Unread) else Read(bool(local.value), local.evidence)

    @property
    def count(self) -> Fact[int]:
        """How many there are."""
        local = self._local
        return local if isinstance(local, Unread) else Read(len(local.value), local.evidence)

    @property
    def capacity_tb(self) -> Fact[float]:
        """What they hold together, in TB of 10^12 bytes."""
        sizes = self._sizes
        if isinstance(sizes, Unread):
            return sizes
        return Read(sum(sizes.value.values()) / 1e12, sizes.evidence)

    @property
    def models(self) -> Fact[str]:
        """Which they are, e.g. ``8 x EXAMPLE 3.84 TB``."""
        local, sizes = self._local, self._sizes
        if isinstance(local, Unread):
            return local
        if isinstance(sizes, Unread):
            return sizes
        kinds: Counter[str] = Counter()
        for name, entry in local.value.items():
            model = entry.text("model", r".{1,64}", "a model")
            if isinstance(model, Unread):
                return model
            kinds[f"{model.value} {sizes.value[name] / 1e12:.2f} TB"] += 1
        said = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
        return Read(said or "none", local.evidence)

    @property
    def worst_used_percent(self) -> Fact[int]:
        """How much of its life the most worn drive has behind it; 100 is what its maker promises."""
        used = self._logged("used_percent", _MOST_PERCENT)
        if isinstance(used, Unread):
            return used
        worst = max(used.value, key=lambda name: used.value[name])
        spare = self._logged("spare_percent", _MOST_PERCENT)
        left = f", least spare {min(spare.value.values())} %" if isinstance(spare, Read) else ""
        return Read(used.value[worst], used.evidence, f"{worst}{left}{used.note}")

    @property
    def warning(self) -> Fact[int]:
        """How many drives warn of themselves: spare below threshold, too hot, unreliable, read-only."""
        flags = self._logged("critical_warning", _MOST_PERCENT)
        if isinstance(flags, Unread):
            return flags
        which = {name: flag for name, flag in flags.value.items() if flag}
        said = ", ".join(f"{name} {flag:#04x}" for name, flag in which.items())
        return Read(len(which), flags.evidence, f"{said}{flags.note}" if said else "")

    @cached_property
    def _local(self) -> Fact[dict[str, Record]]:
        if self._listed.unread:
            return self._listed.unread
        local = {}
        for name, entry in sorted(self._listed.items(), key=lambda item: natural(item[0])):
            transport = entry.text("transport", r"[a-z]{1,16}", "a transport")
            if isinstance(transport, Unread):
                return transport
            if not _NAME.fullmatch(name):
                return self._listed.garbled("a drive", name, "a name")
            if transport.value == "pcie":
                local[name] = entry
        return Read(local, self._listed.evidence)

    @property
    def _sizes(self) -> Fact[dict[str, int]]:
        local = self._local
        if isinstance(local, Unread):
            return local
        sizes = {}
        for name, entry in local.value.items():
            spaces = entry.record("sectors")
            if isinstance(spaces.values, Unread):
                return spaces.values
            total = 0
            for space in spaces.values:
                sectors = spaces.text(space, r"[0-9]{1,18}", "a number of sectors")
                if isinstance(sectors, Unread):
                    return sectors
                total += int(sectors.value) * _SECTOR
            sizes[name] = total
        return Read(sizes, local.evidence)

    def _logged(self, key: str, most: int) -> Fact[dict[str, int]]:
        """Read one figure of each drive's log; a drive without a log is told of in the note."""
        local = self._local
        if isinstance(local, Unread):
            return local
        if self._health.unread:
            return self._health.unread
        found, without = {}, []
        for name in local.value:
            fact = self._health.record(name).count(key, most)
            if isinstance(fact, Read):
                found[name] = fact.value
            elif fact.kind == "unsupported":
                without.append(name)
            else:
                return fact
        if not found:  # virtual drives, mostly: who has the real ones could see
            return Unread("denied", "no drive gives its health log here", self._health.evidence)
        return Read(found, self._health.evidence, f"; no log of {', '.join(without)}" if without else "")
