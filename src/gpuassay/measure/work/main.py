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

    try:
        document |= _work(order, leave)
        status = 0
    except Exception as error:  # noqa: BLE001 - what torch raises while it is loaded has no common kind
        document["failed"] = f"{type(error).__name__}: {error}"[:500]
        status = 1
    with paper:
        paper.write(json.dumps(document) + "\n")
    return status


def _work(order: dict[str, Any], leave: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    workload = import_module(f"gpuassay.measure.work.{order['workload']}")
    chosen = device.choose(int(os.environ.get("LOCAL_RANK", "0")))
    about = {
        "device": chosen.document(),
        "versions": device.versions(),
        "image": order.get("image", ""),
        "environment": {name: os.environ[name] for name in _TELLING if name in os.environ},
    }
    if hasattr(workload, "run"):  # one that works with the other ranks, in an order of its own
        workload.run(order, chosen, lambda more: leave({**about, **more}))
    plan = timing.plan(seconds=float(order["seconds"]), warm=bool(order["warm"]))
    meeting = Meeting(os.environ)
    try:
        rows = [case.measure(workload.prepare, each, chosen, plan, meeting) for each in order["cases"]]
    finally:
        meeting.close()
    return {**about, "rows": rows}
