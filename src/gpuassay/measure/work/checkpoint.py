"""Checkpoints by ``torch.distributed.checkpoint``: saved, saved aside, loaded elsewhere, cut anew, compared.

One after the other on each file system that was declared: by all ranks together where nodes share it, else
by each node's own. What is loaded was saved by another rank (with several nodes, on another node), after the
files have left the page cache; and once more by half as many ranks, each of which takes more.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import pagecache, states, words
from gpuassay.measure.work.board import MEETING
from gpuassay.measure.work.party import START_S, Party
from gpuassay.measure.work.scratch import Scratch, room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.measure.work.device import Device

METHOD = 1
INDEX = ".metadata"
STEPS = 500
"""How far the steps lie apart after which a checkpoint is saved: its folder is named by the step."""
_TINY_BYTES, _TINY_TENSORS = 1 << 20, 4  # on a processor, where figures show only that all of it works
_MARGIN = 1.25  # of the room that all checkpoints of one file system take


def run(order: Mapping[str, Any], device: Device, leave: Callable[[Mapping[str, Any]], None]) -> None:
    """Go through all file systems. ``leave`` prints what came of it and ends this process, whatever hangs."""
    ranks = _Ranks(order, device)

    def go() -> None:
        ranks.meet()
        for mount in order["mounts"] or [{"path": tempfile.gettempdir(), "role": "none", "shared": False}]:
            ranks.measure(mount)

    ranks.attend(go, lambda ending: leave({"rows": ranks.rows, **ending}))


class _Ranks(Party):
    """This rank among the others, and what it found."""

    def __init__(self, order: Mapping[str, Any], device: Device) -> None:
        super().__init__(device, order["args"], float(order["args"]["patience_s"]))
        self.rows: list[dict[str, Any]] = []
        self.folders = ExitStack()

    def meet(self) -> None:
        """Come together."""
        with self.doing(MEETING, START_S):
            self.join()
            self.board.meet()

    def tidy(self) -> None:
        """Remove all folders."""
        self.folders.close()

    def measure(self, mount: Mapping[str, Any]) -> None:
        """Measure one file system: with all ranks if they share it, else with those of this node."""
        shared = bool(mount["shared"])
        first = 0 if shared else self.rank - self.local
        group = list(range(self.size)) if shared else list(range(first, first + self.local_size))
        row: dict[str, Any] = {"mount": mount["path"], "role": mount["role"], "shared": shared}
        self.rows.append(row)
        with self.doing(f"a folder on {mount['path']}"):
            found = self.board.share(self._folder(str(mount["path"])) if self.rank == group[0] else None)
        told = found[group[0]]
        row |= {"status": told.get("status", "ok"), **told, "ranks": len(group), "of_node": self.local_size}
        if row["status"] == "ok":
            state = _State(self, group, Path(told["folder"]), mount["path"])
            state.go(row)
        with self.doing(f"to remove what was written on {mount['path']}"):
            self.folders.close()
            self.board.meet()

    def _folder(self, mount: str) -> dict[str, Any]:
        """Make the folder, on the first rank of those that use it, and say what it is on."""
        try:
            path = self.folders.enter_context(Scratch(mount)).path
            about = room(path)
        except OSError as error:
            return {"status": "failed", "why": words.brief(error)}
        return {"folder": str(path), **about}

    def timed(self, what: str, call: Callable[[], Any]) -> float:
        """Begin together, and take the time until this rank is done."""
        with self.doing(what):
            self.board.meet()
            begin = time.perf_counter()
            call()
            self.device.wait()
            return time.perf_counter() - begin


class _State:
    """What is saved on one file system by the ranks of a group, of which this is one."""

    def __init__(self, ranks: _Ranks, group: list[int], folder: Path, mount: str) -> None:
        self.ranks, self.group, self.folder, self.mount = ranks, group, folder, mount
        self.device, args = ranks.device, ranks.args
        big = self.device.accelerator
        self.tensors = int(args["tensors"]) if big else _TINY_TENSORS
        rank_bytes = int(args["rank_bytes"]) if big else _TINY_BYTES
        self.per_rank = states.per_rank(rank_bytes, self.tensors, len(group))
        self.repeats = int(args["repeats"])
        self.bytes = self.per_rank * self.tensors * states.ELEMENT
        self.half = group[: len(group) // 2]

    def go(self, row: dict[str, Any]) -> None:
        """Do all steps, writing down each as it is done."""
        import torch.distributed as dist  # noqa: PLC0415 - torch is loaded only where it runs

        needed = int(self.bytes * len(self.group) * (2 * self.repeats) * _MARGIN)
        row |= {"rank_bytes": self.bytes, "tensors": self.tensors}
        if needed > row["bytes_free"]:
            row |= {"status": "failed", "why": f"{needed} bytes are needed, {row['bytes_free']} are free"}
            return
        name = f"checkpoint/{len(self.ranks.rows)}/{self.group[0]}"
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self.device.accelerator else "gloo",
            store=dist.PrefixStore(name, self.ranks.board.store),
            rank=self.group.index(self.ranks.rank),
            world_size=len(self.group),
            timeout=timedelta(seconds=2 * self.ranks.patience),
        )
        try:
            self._save(row)
            self._load(row)
            self._cut_anew(row)
            row["files"] = self._listed() if self.ranks.local == 0 else []
        finally:
            dist.destroy_process_group()

    def _save(self, row: dict[str, Any]) -> None:
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415

        state = self._state(list(range(len(self.group))), filled=True)
        row["save_seconds"], row["aside"] = [], []
        for step in self._steps():
            call = partial(dcp.save, state, checkpoint_id=self.folder / step)
            row["save_seconds"].append(self.ranks.timed(f"to save on {self.mount}", call))
        for number in range(self.repeats):
            row["aside"].append(self._save_aside(state, self.folder / f"aside-{number}"))

    def _save_aside(self, state: dict[str, Any], place: Path) -> dict[str, float]:
        """Save while the job could go on; tells how long it could not, and when all was on storage."""
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415

        waits: list[Any] = []
        begun = self.ranks.timed(
            f"to begin saving aside on {self.mount}",
            lambda: waits.append(dcp.async_save(state, checkpoint_id=place)),
        )
        ended = self.ranks.timed(f"to end saving aside on {self.mount}", waits[0].result)
        return {"blocked": begun, "seconds": begun + ended}

    def _load(self, row: dict[str, Any]) -> None:
        """Load what another rank has saved; with several nodes, one of another node."""
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415

        count = len(self.group)
        by = self.ranks.local_size if count > self.ranks.local_size else 1
        order = [(rank + by) % count for rank in range(count)]
        row |= {"load_seconds": [], "wrong": 0, "held": []}
        for step in self._steps():
            state = self._state(order, filled=False)
            row["held"].append(self._evict(step))
            call = partial(dcp.load, state, checkpoint_id=self.folder / step)
            row["load_seconds"].append(self.ranks.timed(f"to load from {self.mount}", call))
            row["wrong"] += self._changed(state, order)

    def _cut_anew(self, row: dict[str, Any]) -> None:
        """Load with half as many ranks, each of which takes the parts of several."""
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415
        from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415

        if not self.half:
            row["anew"] = {"status": "unsupported", "why": "one rank alone cannot be re-sharded"}
            return
        order = list(range(len(self.half)))
        mesh = DeviceMesh(self._kind, order)  # all take part in making it
        step, mine = self._steps()[-1], self.group.index(self.ranks.rank) in order
        self._evict(step)
        state = self._state(order, filled=False, mesh=mesh) if mine else {}
        group = mesh.get_group() if mine else None

        def load() -> None:
            if mine:
                dcp.load(state, checkpoint_id=self.folder / step, process_group=group)

        seconds = self.ranks.timed(f"to load from {self.mount} with half the ranks", load)
        row["anew"] = {"status": "ok", "ranks": len(order), "seconds": seconds}
        row["anew"]["wrong"] = self._changed(state, order) if mine else 0

    def _evict(self, step: str) -> float:
        with self.ranks.doing(f"to evict what is on {self.mount}"):
            held = pagecache.evict((self.folder / step).iterdir()) if self.ranks.local == 0 else 0.0
            self.ranks.board.meet()
        return round(held, 4)

    def _state(self, order: list[int], *, filled: bool, mesh: Any = None) -> dict[str, Any]:
        """Make the part of this rank; its place among the others is that in ``order``."""
        import torch  # noqa: PLC0415
        from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415
        from torch.distributed.tensor import DTensor, Shard  # noqa: PLC0415

        mesh = mesh or DeviceMesh(self._kind, order)
        begin, count = self._part(order)
        state = {}
        for tensor in range(self.tensors):
            if filled:
                local = states.content(tensor, begin, count, self.device)
            else:
                local = torch.zeros(count, dtype=torch.int64, device=self.device.place)
            state[f"layer.{tensor}"] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False)
        return state

    def _part(self, order: list[int]) -> tuple[int, int]:
        """Tell where this rank's part of each tensor begins, and how long it is."""
        count = self.per_rank * len(self.group) // len(order)
        return order.index(self.group.index(self.ranks.rank)) * count, count

    def _changed(self, state: Mapping[str, Any], order: list[int]) -> int:
        begin, _ = self._part(order)
        found = (state[f"layer.{number}"].to_local() for number in range(self.tensors))
        return sum(states.changed(number, begin, local, self.device) for number, local in enumerate(found))

    def _listed(self) -> list[dict[str, Any]]:
        """List what this node sees of each checkpoint, and what its index asks for."""
        return [listing(self.folder / step) for step in self._steps()]

    def _steps(self) -> list[str]:
        return [f"step-{STEPS * number}" for number in range(1, self.repeats + 1)]

    @property
    def _kind(self) -> str:
        return "cuda" if self.device.accelerator else "cpu"


def listing(folder: Path) -> dict[str, Any]:
    """Give the sizes of a checkpoint's files, and how long each has to be by its index, if it has one."""
    from torch.distributed.checkpoint import FileSystemReader  # noqa: PLC0415

    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(folder)}
    found: dict[str, Any] = {"step": folder.name, "sizes": sizes}
    try:
        stored = FileSystemReader(folder).read_metadata().storage_data or {}
    except Exception as error:  # noqa: BLE001 - an index that cannot be read is a finding
        return {**found, "unreadable": words.brief(error)}
    needed: dict[str, int] = {}
    for part in stored.values():
        needed[part.relative_path] = max(needed.get(part.relative_path, 0), part.offset + part.length)
    return {**found, "needed": needed}
