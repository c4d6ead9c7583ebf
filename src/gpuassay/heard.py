"""What ranks say while they run, kept as it comes: nothing of it is lost if we are killed before they end.

It lies beside the recording until it is part of it.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import naming
from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement
from gpuassay.evidence.writer import add_measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Heard:
    """What was heard of the ranks of a measurement, in a folder of its own. All raises RecordingError."""

    folder: Path
    measurement: str

    def begin(
        self, nodes: Sequence[str], ids: Sequence[str], asked: Mapping[str, Any]
    ) -> Callable[[str, int, bytes], None]:
        """Note which ranks each node is about to start, by their items, and give what keeps their lines."""
        numbers = count(1)

        def keep(node: str, local: int, lines: bytes) -> None:
            item = Item(ids[local], next(numbers), asked=asked, out=lines)
            add_measurement(self.folder, self.measurement, node, item)

        with naming(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
        for node in nodes:
            for local in range(len(ids)):
                keep(node, local, b"")
        return keep

    def left(self, nodes: Sequence[str]) -> Iterator[tuple[str, Item]]:
        """Give what was heard of each rank of these nodes, all lines in one."""
        found = read_measurement(self.folder, self.measurement, nodes)
        for node, evidence in found.items():
            lines: dict[str, list[bytes]] = defaultdict(list)
            first: dict[str, Item] = {}
            for item in evidence.items:
                first.setdefault(item.id, item)
                lines[item.id].append(item.out)
            for name, item in first.items():
                yield node, replace(item, out=b"".join(lines[name]))

    def forget(self) -> None:
        """Remove it, once it is recorded."""
        with naming(self.folder):
            shutil.rmtree(self.folder)
