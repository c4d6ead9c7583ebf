"""Writes a recording as the evidence comes, so that a run killed at any moment leaves a readable one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.evidence.blobs import INLINE_BYTES, MAX_BYTES, Blobs
from gpuassay.evidence.files import RecordingError, append_line, naming, open_regular, write_atomic
from gpuassay.evidence.lines import Stored, dump_item
from gpuassay.evidence.meta import Meta, dump_meta, is_node_name, parse_meta
from gpuassay.evidence.sums import SUMS, write_sums

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from gpuassay.evidence.item import Item


class RecordingWriter:
    """Writes one new recording into ``folder``; every method raises ``RecordingError``.

    Nodes may be added from several threads; what was written before an error stays readable.
    """

    def __init__(self, folder: Path, meta: Meta, site_text: str | None = None) -> None:
        self._folder = folder
        self._meta = meta
        self._blobs = Blobs(folder)
        self._sealed = False
        for node in (*meta.declared, *meta.clock_offset_seconds):
            self._refuse_unless_name(node)
        with naming(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise RecordingError(f"{folder}: not empty; a recording needs a folder of its own")
            (folder / "nodes").mkdir(mode=0o700)
        if site_text is not None:
            write_atomic(folder / "site.toml", site_text.encode())
        write_atomic(folder / "recording.toml", dump_meta(meta))

    def add(self, node: str, item: Item) -> None:
        """Append what a node answered, and have it written."""
        self._refuse_unless_name(node)
        self._append(f"nodes/{node}.jsonl", item)

    def add_cluster(self, item: Item) -> None:
        """Append what was asked of the cluster as a whole, and have it written."""
        self._append("cluster.jsonl", item)

    def finish(self, end: datetime, clock_offset_seconds: Mapping[str, float] | None = None) -> None:
        """Say when the run ended, and by how much the nodes' clocks were off; then seal the recording."""
        meta = replace(self._meta, end=end, clock_offset_seconds=clock_offset_seconds or {})
        write_atomic(self._folder / "recording.toml", dump_meta(meta))
        self._sealed = True
        write_sums(self._folder)

    def _refuse_unless_name(self, node: str) -> None:
        if not is_node_name(node):
            raise RecordingError(f"{self._folder}: {node!r} cannot be the name of a node")

    def _append(self, file: str, item: Item) -> None:
        if self._sealed:
            raise RecordingError(f"{self._folder}: the recording is sealed; nothing can be added")
        _append(self._folder / file, item, self._blobs)


def add_measurement(folder: Path, measurement: str, node: str, item: Item, *, durable: bool = False) -> None:
    """Append what a measurement gave on a node (or, without a node, in the cluster) to a recording.

    The recording's seal is off until ``write_sums``; ``durable`` waits until it is on the disk. Raises
    ``RecordingError``.
    """
    place = folder / "measure" / measurement / node if node else folder / "measure" / measurement
    with naming(place):
        (folder / SUMS).unlink(missing_ok=True)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _append(place.with_name(f"{place.name}.jsonl"), item, Blobs(folder), durable=durable)


def note_measured(folder: Path, time: datetime) -> None:
    """Write into a sealed recording by when measurements were added to it, and seal it again.

    Raises ``RecordingError``.
    """
    path = folder / "recording.toml"
    with naming(path), open_regular(path) as file:
        meta = parse_meta(file.read())
    write_atomic(path, dump_meta(replace(meta, measured=time)))
    write_sums(folder)


def _append(file: Path, item: Item, blobs: Blobs, *, durable: bool = False) -> None:
    if len(item.out) > MAX_BYTES:
        item = replace(item, out=item.out[:MAX_BYTES], truncated=True)
    large = len(item.out) > INLINE_BYTES
    append_line(file, dump_item(Stored(item, blobs.store(item.out) if large else "")), durable=durable)
