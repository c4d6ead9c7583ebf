"""``--earlier=DIR``: an earlier recording of the same cluster, read, and found fit to be compared with."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.recording import RecordingError, read_recording
from gpuassay.target.recording import locate

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from pathlib import Path

    from gpuassay.evidence.recording import Recording


@dataclass(frozen=True, slots=True)
class Before:
    """An earlier recording, and how many hours before the judged one it was made."""

    recording: Recording
    hours: float

    def document(self, nodes: Collection[str], out: Collection[str]) -> dict[str, Any]:
        """Write down what was compared with, and which nodes only one of the two recordings has."""
        meta, then = self.recording.meta, self.recording.nodes
        return {
            "digest": self.recording.digest,
            "seal": self.recording.seal,
            "begin": stamp(meta.begin),
            "end": stamp(meta.end),
            "synthetic": meta.synthetic,
            "new": [name for name in nodes if name not in then],
            "gone": [name for name in then if name not in nodes and name not in out],
        }

    def stamps(self) -> list[tuple[str, str]]:
        """Say what a reader must know of the earlier recording."""
        found = []
        if self.recording.meta.synthetic:
            found.append(
                ("earlier synthetic", "the earlier recording was made up: it describes no real cluster")
            )
        if self.recording.seal != "sealed":
            found.append(
                (f"earlier {self.recording.seal}", f"the earlier recording: {self.recording.seal_why}")
            )
        return found


def load(folder: Path, judged: Recording, place: Path) -> Before:
    """Read an earlier recording of the cluster that is judged; ``place`` is where the judged one lies.

    Raises RecordingError, which names both, if it cannot be an earlier one of the same cluster.
    """
    folder = locate(folder)
    recording = read_recording(folder)
    names = (_cluster(recording), _cluster(judged))
    if "" not in names and names[0] != names[1]:
        raise RecordingError(
            f"--earlier: {folder} is of cluster {names[0]}, and {place} of cluster {names[1]}"
        )
    if not {*recording.nodes} & {*judged.nodes}:
        raise RecordingError(
            f"--earlier: {folder} has no node in common with {place}: is it the same cluster?"
        )
    then, now = _time(recording, folder), _time(judged, place)
    if then >= now:
        raise RecordingError(
            f"--earlier: {folder} was made at {stamp(then)}, and {place}, which is judged, at {stamp(now)}: "
            "name the earlier one"
        )
    return Before(recording, (now - then).total_seconds() / 3600)


def stamp(time: datetime | None) -> str | None:
    """Write a time as reports do."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z") if time else None


def _time(recording: Recording, place: Path) -> datetime:
    clock = recording.meta.clock
    if clock is None:
        raise RecordingError(
            f"--earlier: {place} does not say when it was made: which one is earlier is not known"
        )
    return clock


def _cluster(recording: Recording) -> str:
    """Name the cluster as the recording does, by itself or by its site file; empty if it does not."""
    try:
        site = tomllib.loads(recording.site_text or "").get("cluster")
    except tomllib.TOMLDecodeError:
        site = None
    named = site.get("name") if isinstance(site, dict) else None
    return recording.meta.cluster or (named if isinstance(named, str) else "")
