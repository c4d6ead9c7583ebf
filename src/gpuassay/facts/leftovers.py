"""What earlier users of a node left behind in its shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.facts.source import document
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_TOLD = 4
_HOUR = 3600


class SharedMemory:
    """What lies in /dev/shm. While a GPU works it may be a job's own, and nothing is left behind."""

    def __init__(self, evidence: Evidence, at_work: Sequence[Fact[bool]]) -> None:
        """Look at what the probe counted, and at whether the GPUs work."""
        self._found = document(evidence, "shm")
        self._at_work = at_work

    @property
    def left_share(self) -> Fact[float]:
        """Which share of it is taken up although no GPU works."""
        size, free = self._found.count("size_bytes"), self._found.count("free_bytes")
        for fact in (size, free):
            if isinstance(fact, Unread):
                return fact
        jobs = next((fact for fact in self._at_work if isinstance(fact, Read) and fact.value), None)
        if jobs is not None:
            return Unread("denied", f"jobs are running here: {jobs.note}", jobs.evidence)
        total, left = (fact.value for fact in (size, free) if isinstance(fact, Read))
        if not 0 <= left <= total or not total:
            return self._found.garbled("free_bytes", left, f"a part of {total} bytes")
        return Read(round(1 - left / total, 4), self._found.evidence, self._owners(total - left))

    def _owners(self, used: int) -> str:
        """Name the owners by number, and how much each has: names of people are nobody's business here."""
        held = []
        for uid, owner in self._found.record("owners").items():
            size, files = owner.count("bytes"), owner.count("files")
            if isinstance(size, Read) and isinstance(files, Read):
                held.append((size.value, files.value, "root" if uid == "0" else f"uid {brief(uid)}"))
        held.sort(reverse=True)
        named = [f"{name} {files} files, {_mib(size)}" for size, files, name in held[:_TOLD]]
        age = self._found.count("newest_age_s")
        newest = (
            f"; the newest written {age.value / _HOUR:.1f} h ago" if held and isinstance(age, Read) else ""
        )
        return f"{_mib(used)} in use: {', '.join(named) or 'by no file at its top'}{newest}"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
