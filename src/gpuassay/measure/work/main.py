"""One rank: takes its order, runs its cases on its device, and prints one JSON document."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import case, device, timing
from gpuassay.measure.work.meeting import Meeting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What changes a figure and is not seen in it. Values of these only: an environment holds secrets.
_TELLING = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "HIPBLASLT_TUNING_FILE",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "ROCBLAS_DEFAULT_ATOMICS_MODE",
    "PYTORCH_TUNABLEOP_ENABLED",
    "ROCR_VISIBLE_DEVICES",
    "TORCH_BLAS_PREFER_HIPBLASLT",
)


def main(order: dict[str, Any]) -> int:
    """Run ``order``: a workload by name, its cases and arguments. Gives the exit status."""
    # Libraries print what they like; the document alone goes where it is read.
    paper = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # The devices in the order in which the drivers' own tools number them.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    document = {
        "workload": order["workload"],
        "method": order["method"],
        "rank": int(os.environ.get("RANK", "0")),
    }

    def leave(more: Mapping[str, Any]) -> None:
        """Print, and end, whatever this process still hangs in."""
        with paper:
            paper.write(json.dumps({**document, **more}) + "\n")
        os._exit(1 if {"broken", "ended"} & more.keys() else 0)

    def say(more: Mapping[str, Any]) -> None:
        """Print one line of several, at once."""
        paper.write(json.dumps(more) + "\n")
        paper.flush()

    try:
        document |= _work(order, say, leave)
        status = 0
    except Exception as error:  # noqa: BLE001 - what torch raises while it is loaded has no common kind
        document["failed"] = f"{type(error).__name__}: {error}"[:500]
        status = 1
    with paper:
        paper.write(json.dumps(document) + "\n")
    return status


def _work(
    order: dict[str, Any],
    say: Callable[[Mapping[str, Any]], None],
    leave: Callable[[Mapping[str, Any]], None],
) -> dict[str, Any]:
    workload = import_module(f"gpuassay.measure.work.{order['workload']}")
    if hasattr(workload, "bare"):  # one that works before torch is loaded, and without it
        return {"versions": device.bare_versions(), "rows": workload.bare(order)}
    if hasattr(workload, "keep_bare_journal"):  # one whose children load torch, and it does not
        about = {"versions": device.bare_versions(), "image": os.environ.get("GPUASSAY_IMAGE", "")}
        workload.keep_bare_journal(
            order, lambda more: say({**about, **more} if "fs" in more else more), leave
        )
    chosen = device.choose(int(os.environ.get("LOCAL_RANK", "0")))
    about = {
        "device": chosen.document(),
        "versions": device.versions(),
        "image": os.environ.get("GPUASSAY_IMAGE", ""),
        "environment": {name: os.environ[name] for name in _TELLING if name in os.environ},
    }
    if hasattr(workload, "keep_journal"):  # one that tells of itself while it works
        workload.keep_journal(
            order, chosen, lambda more: say({**about, **more} if "place" in more else more), leave
        )
    if hasattr(workload, "run"):  # one that works with the other ranks, in an order of its own
        workload.run(order, chosen, lambda more: leave({**about, **more}))
    plan = timing.plan(seconds=float(order["seconds"]), warm=bool(order["warm"]))
    meeting = Meeting(os.environ)
    try:
        rows = [case.measure(workload.prepare, each, chosen, plan, meeting) for each in order["cases"]]
    finally:
        meeting.close()
    return {**about, "rows": rows}
