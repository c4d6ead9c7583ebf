"""What DLIO's loaders give on healthy shared storage: made up, in the form of the summary of DLIO 2.0.0."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.measure.disk.dlio import MODELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.fact import Scalar

_MEMORY = 2 << 40
_MIB = 1 << 20
_BEGAN, _START, _END = (f"2026-11-30T08:00:{second}.000000" for second in ("01", "03", "19"))


def trained(args: Mapping[str, Scalar]) -> dict[str, Any]:
    """Return what the node keeps of each model's run: an accelerator that hardly waits."""
    return {"memory": _MEMORY, "runs": [_run(name, args) for name in str(args["models"]).split()]}


def _run(name: str, args: Mapping[str, Scalar]) -> dict[str, Any]:
    model, accelerators = MODELS[name], int(args["accelerators"])
    steps = int(float(args["seconds"]) / model.compute) + 1
    files = -(-steps * model.batch * accelerators // model.samples)
    au = {"unet3d": 97.1, "resnet50": 98.4, "cosmoflow": 88.2}[name]
    rate = accelerators * model.batch / model.compute * au / 100
    return {
        "model": name,
        "accelerators": accelerators,
        "files": files,
        "bytes": files * model.samples * model.record,
        "status": "ok",
        "made": {"exit": 0, "out": "", "err": ""},
        "cold": 1.0,
        "began": _BEGAN,
        "exit": 0,
        "out": "",
        "err": "",
        "summary": json.dumps(_summary(accelerators, files, au, rate, rate * model.record / _MIB)),
    }


def _summary(accelerators: int, files: int, au: float, rate: float, mib: float) -> dict[str, Any]:
    metric = {
        "train_au_percentage": [au],
        "train_au_mean_percentage": au,
        "train_au_meet_expectation": "success",
        "train_throughput_mean_samples_per_second": round(rate, 3),
        "train_io_mean_MB_per_second": round(mib, 3),
    }
    return {
        "start": _START,
        "num_accelerators": accelerators,
        "metric": metric,
        "num_files_train": files,
        "potential_caching": [1],
        "epochs": 1,
        "end": _END,
    }
