"""What containers have that were really started on a healthy cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.measure import SURVEYS, TOOLS
from recorded.items import encode
from recorded.slurm import BEGAN, GRANTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuassay.judge.fact import Scalar

GIB = 1 << 30
ON_SLURM: dict[str, Scalar] = {"seconds": 900}
FOLDER = "/tmp/gpuassay-k3x9q2v7"  # noqa: S108 - made up


def inside(gpus: int, **more: Any) -> dict[str, Any]:
    """Return what our program sees where all is as it should be; no file of topology is named."""
    return {
        "seen": gpus,
        "opens": gpus,
        "topology": {},
        "shm_bytes": 1008 * GIB,
        "memlock": "unlimited",
        "at": float(BEGAN),
        "job": "",
        **more,
    }


def in_pod() -> dict[str, Any]:
    """Return what came of a pod with one GPU, which has asked for 1 GiB of shared memory."""
    times = {"placed": "2026-11-30T08:00:02Z", "started": "2026-11-30T08:00:21Z"}
    pulled = "Successfully pulled image in 17.2s (17.2s including waiting). Image size: 48121344 bytes."
    seen = {key: value for key, value in inside(1, shm_bytes=GIB).items() if key not in ("at", "job")}
    return {"state": "ended", **seen, "times": times, "pulled": pulled}


IMAGE = "registry.example.com/pytorch@sha256:4567cdef"


def by_runtime(gpus: int) -> Item:
    """Return what came of a container that Docker started on a node."""
    tool = TOOLS["containers"]
    row = {
        "runtime": "docker",
        "granted": gpus,
        "nodes_linked": True,
        "driver": "systemd",
        "mode": "auto",
        "had_image": False,
        "exit": 0,
        "out": encode(inside(gpus, shm_bytes=GIB)).decode(),
        "said": "Status: Downloaded newer image",
        "seconds": 141.3,
        "left": False,
    }
    asked = {"command": list(tool.argv(ON_SLURM)), "method": tool.method, "args": ON_SLURM}
    asked["order"] = {"image": IMAGE}
    out = encode({"rows": [row]})
    return Item("measure/containers", 0, asked=asked, exit=0, seconds=142.0, out=out)


def on_slurm(names: Sequence[str], gpus: int) -> list[Item]:
    """Return what came of a container and of an import on each node of a Slurm."""
    return [item for number, name in enumerate(names, 5001) for item in _of_node(name, gpus, str(number))]


def _of_node(name: str, gpus: int, job: str) -> Iterator[Item]:
    survey = "slurm_containers"
    asked: dict[str, Any] = {"survey": survey, "method": SURVEYS[survey].method, "args": ON_SLURM}
    told = {"folder": FOLDER, "exit": 0, "bytes": 10_737_418_240, "said": "", "seconds": 214.6, "left": False}
    place = f"survey/{survey}"
    container = encode(inside(gpus, job=job))
    yield Item(f"{place}/container/{name}", 0, asked={**asked, "gpus": gpus}, exit=0, out=container)
    yield Item(f"{place}/start/{name}", 0, asked=asked, exit=0, out=f"{int(GRANTED) - 187}\n".encode())
    beside = {"node": inside(gpus, job=str(int(job) + 1000)), "import": told}
    yield Item(f"{place}/node/{name}", 0, asked=asked, exit=0, out=encode(beside))
