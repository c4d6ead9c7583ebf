"""What healthy storage gives to checkpoints, packages and servers: made up, around what is publicly known."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import checkpoint, lifecycle, states, weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TB = 10**12
SPREAD = 0.02
INDEX_BYTES = 118_331


@dataclass(frozen=True)
class Storage:
    """A file system: GB/s of one node, and the seconds that small files take on it."""

    path: str
    role: str
    type: str
    bytes: int
    free: int
    save: float
    load: float
    pip: float
    uv: float
    warm: float
    cold: float


HOME = Storage("/home", "home", "nfs4", 20 * TB, 14 * TB, 12.1, 17.4, 38.0, 5.1, 1.7, 2.8)
SCRATCH = Storage("/scratch", "local", "ext4", 30 * TB, 24 * TB, 24.5, 41.0, 24.0, 2.9, 1.3, 2.3)
ALL = (HOME, SCRATCH)


def checkpoints(
    storages: Sequence[Storage], args: Mapping[str, Any], place: tuple[str, int], size: tuple[int, int]
) -> list[dict[str, Any]]:
    """Return the rows of one rank: ``place``: its node and number there; ``size``: nodes, GPUs of each."""
    return [_checkpoints(storage, args, place, *size) for storage in storages]


def _checkpoints(
    storage: Storage, args: Mapping[str, Any], place: tuple[str, int], nodes: int, gpus: int
) -> dict[str, Any]:
    shared = storage.role != "local"
    ranks = gpus * nodes if shared else gpus
    per_rank = states.per_rank(args["rank_bytes"], args["tensors"], ranks)
    size = per_rank * args["tensors"] * states.ELEMENT
    save, load = (gpus * size / rate / 1e9 for rate in (storage.save, storage.load))
    file, half = size + 23_456, ranks // 2
    sizes = {checkpoint.INDEX: INDEX_BYTES} | {f"__{rank}_0.distcp": file for rank in range(ranks)}
    steps = [f"step-{checkpoint.STEPS * number}" for number in range(1, args["repeats"] + 1)]
    needed = {name: length for name, length in sizes.items() if length == file}
    listed = [{"step": step, "sizes": sizes, "needed": needed} for step in steps]
    return {
        **_about(storage),
        "shared": shared,
        "status": "ok",
        "folder": f"{storage.path}/.gpuassay-k3v9q2xa",
        "ranks": ranks,
        "of_node": gpus,
        "rank_bytes": size,
        "tensors": args["tensors"],
        "save_seconds": _times(save, place),
        "aside": [{"blocked": round(0.031 * save, 4), "seconds": round(1.08 * save, 4)} for _ in steps],
        "load_seconds": _times(load, place),
        "wrong": 0,
        "held": [0.0 for _ in steps],
        "anew": {"status": "ok", "ranks": half, "seconds": round(1.6 * load, 4), "wrong": 0},
        "files": [] if place[1] else listed,
    }


def lifecycles(storages: Sequence[Storage], args: Mapping[str, Any], node: str) -> list[dict[str, Any]]:
    """Return the rows of a node for one step."""
    made = {"install": _installed, "import": _imported, "serve": _served}[args["step"]]
    rows = [{**_about(storage), "status": "ok", **made(storage, args, node)} for storage in storages]
    if args["step"] != "import":
        return rows
    place = {"mount": "", "role": "python", "prefix": "/usr", "status": "ok"}
    return [{**place, **_imported(SCRATCH, args, node)}, *rows]


def _installed(storage: Storage, _args: Mapping[str, Any], node: str) -> dict[str, Any]:
    pip, uv = (_near(seconds, node) for seconds in (storage.pip, storage.uv))
    return {
        "packages": ["torch"],
        "venv_seconds": 3.1,
        "pip_seconds": pip,
        "remove_seconds": 1.2,
        "uv": {"status": "ok", "version": "uv 0.9.8", "cold_seconds": round(2.6 * uv, 3), "warm_seconds": uv},
    }


def _imported(storage: Storage, args: Mapping[str, Any], node: str) -> dict[str, Any]:
    return {
        "package": args["package"],
        "copy_seconds": 9.4,
        "files": 17_212,
        "copied_bytes": 6_412_338_112,
        "first_seconds": _near(2.1 * storage.warm, node),
        "cold_seconds": _times(storage.cold, (node, 0)),
        "warm_seconds": _times(storage.warm, (node, 0)),
        "held": [0.0, 0.0, 0.0],
    }


def _served(storage: Storage, args: Mapping[str, Any], node: str) -> dict[str, Any]:
    size = weights.size(weights.shape(args))
    cold = _near(23.0 + size / storage.load / 1e9, node)
    return {
        "model": args["model"],
        "weight_bytes": size,
        "write_seconds": round(size / storage.save / 1e9, 3),
        "held": 0.0,
        "version": "0.13.0",
        "cold": {"ready": round(cold - 0.4, 3), "first_token": cold},
        "warm": {"ready": 22.6, "first_token": 22.9},
    }


def document(storages: Sequence[Storage], args: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Return what the one rank of a node prints."""
    return {
        "workload": "lifecycle",
        "method": lifecycle.METHOD,
        "rank": 0,
        "versions": {"python": "3.12.3", "machine": "x86_64", "kernel": "6.8.0-87-generic"},
        "rows": lifecycles(storages, args, node),
    }


def _about(storage: Storage) -> dict[str, Any]:
    about = {"mount": storage.path, "role": storage.role, "type": storage.type}
    return {**about, "bytes": storage.bytes, "bytes_free": storage.free}


def _times(seconds: float, place: tuple[str, int]) -> list[float]:
    middle = _near(seconds, f"{place[0]}/{place[1]}")
    return [float(f"{middle * part:.5g}") for part in (1.02, 1.0, 0.99)]


def _near(seconds: float, seed: str) -> float:
    return float(f"{seconds * random.Random(seed).uniform(1 - SPREAD, 1 + SPREAD):.4g}")  # noqa: S311 - made up
