"""DLIO in one folder: loaders of MLPerf Storage's training workloads, which sleep where a GPU would work.

For each model a data set is made, written out, dropped from memory, read once, and removed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.measure.disk import commands
from gpuassay.measure.disk.forgetting import forget
from gpuassay.measure.disk.ior import launcher

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("dlio_benchmark",)
_PATIENCE = 1200.0
_SHARE_OF_FREE = 0.05
_LEAST_STEPS = 10
_KEPT = 4000  # of what it prints: a line for each step
_SUMMARY = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Model:
    """What a step of a model reads, and for how long an H100 would then work."""

    batch: int
    record: int
    samples: int  # in one file
    compute: float


# mlcommons/storage, v2.0, storage-conf/workload/*_h100.yaml
MODELS: Mapping[str, Model] = {
    "unet3d": Model(batch=7, record=146_600_628, samples=1, compute=0.323),
    "resnet50": Model(batch=400, record=114_660, samples=1251, compute=0.224),
    "cosmoflow": Model(batch=1, record=2_828_486, samples=1, compute=0.0035),
}


def version(found: str) -> str:
    """Ask the Python that runs it: the program itself tells only the version of Hydra."""
    with Path(found).open("rb") as file:
        first = file.readline(4096).decode("utf-8", "replace").strip()
    python = first.removeprefix("#!").split()
    if not first.startswith("#!") or "python" not in python[-1]:
        return ""
    asked = "from importlib.metadata import version as v; print('DLIO', v('dlio_benchmark'))"
    told = commands.run([*python, "-c", asked], 20)
    return told["out"].strip()[:200] if told.get("exit") == 0 else ""


def measure(found: str, folder: Path, order: Mapping[str, Any], free: int) -> dict[str, Any]:
    """Train each model on data of its own; what one leaves does not stay for the next."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what a loader leaves behind becomes ours to end
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    runs = [_train(found, folder / name, name, order, free) for name in order["models"]]
    return {"memory": memory, "runs": runs}


def _train(found: str, folder: Path, name: str, order: Mapping[str, Any], free: int) -> dict[str, Any]:
    model, tasks = MODELS[name], int(order["accelerators"])
    steps = ceil(float(order["seconds"]) / model.compute)
    each = model.samples * model.record
    files = min(ceil(steps * model.batch * tasks / model.samples), int(_SHARE_OF_FREE * free) // each)
    told: dict[str, Any] = {"model": name, "accelerators": tasks, "files": files, "bytes": files * each}
    if files * model.samples < _LEAST_STEPS * model.batch * tasks:
        why = f"a twentieth of what is free does not hold the data of {_LEAST_STEPS} steps"
        return {**told, "status": "failed", "why": why}
    folder.mkdir()
    try:
        words = _words(folder, name, files)
        made = _run([*launcher(int(order["writers"])), found, *words, *_phase(folder, "made")])
        told |= {"status": "ok", "made": made}
        if made.get("exit") != 0:
            return told
        told["cold"] = forget(path for path in (folder / "data").rglob("*") if path.is_file())
        told["began"] = datetime.now().isoformat(timespec="microseconds")  # noqa: DTZ005 - as DLIO tells the time
        told |= _run([*launcher(tasks), found, *words, *_phase(folder, "train")])
        return told | _summary(folder / "train" / "summary.json")
    finally:
        _end_left()
        shutil.rmtree(folder, ignore_errors=True)


def _words(folder: Path, name: str, files: int) -> list[str]:
    """Give what both phases are told: all that the figure hangs on, whatever this version's own files say."""
    model = MODELS[name]
    told = {
        "dataset.data_folder": folder / "data",
        "dataset.num_files_train": files,
        "dataset.num_samples_per_file": model.samples,
        "dataset.record_length": model.record,
        "reader.batch_size": model.batch,
        "train.computation_time": model.compute,
        "train.epochs": 1,  # a second one would read what the first has left in memory
        "workflow.checkpoint": False,
        "checkpoint.checkpoint_folder": folder / "checkpoints",
    }
    return [f"workload={name}_h100", *(f"++workload.{key}={value}" for key, value in told.items())]


def _phase(folder: Path, phase: str) -> list[str]:
    """Give the words of one phase: each has an own folder of results, for both leave a summary there."""
    return [
        f"++workload.workflow.generate_data={phase == 'made'}",
        f"++workload.workflow.train={phase == 'train'}",
        f"++workload.output.folder={folder / phase}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]


def _run(command: list[str]) -> dict[str, Any]:
    told = commands.run(command, _PATIENCE)
    return {**told, **{key: told[key][-_KEPT:] for key in ("out", "err")}}


def _summary(path: Path) -> dict[str, str]:
    """Give the summary as it is; none where there is none."""
    with suppress(OSError), path.open("rb") as file:
        return {"summary": file.read(_SUMMARY).decode("utf-8", "replace")}
    return {}


def _end_left() -> None:
    """End what is still below us: killed, an MPI leaves its ranks behind, and a rank its loaders."""
    while pids := _children():
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)  # its own children are now ours


def _children() -> list[int]:
    """List our children, also those that came to us as their parents ended."""
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in own.read_text().split()]
