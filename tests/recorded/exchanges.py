"""What ranks give that exchange data on a healthy cluster: made up, around what is publicly known of each."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import collectives, rates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LATENCY = 25e-6
SHARE = 0.955  # of the line, in pairs and in all
SPREAD = 0.004


@dataclass(frozen=True)
class Fabric:
    """GB/s: bus bandwidth in a domain by collective, of a pair in a node, and of the line of each GPU."""

    domain: Mapping[str, float]
    pair: float
    line: float
    network: str = "IB"
    library: str = "NCCL version 2.29.3+cuda13.0"
    inside: str = "P2P/CUMEM"


B200 = Fabric(
    {"all_reduce": 842, "all_gather": 678, "reduce_scatter": 676, "all_to_all": 668}, pair=690, line=50
)
H200 = Fabric(
    {"all_reduce": 481, "all_gather": 361, "reduce_scatter": 363, "all_to_all": 347}, pair=372, line=50
)
GB300 = Fabric(
    {"all_reduce": 923, "all_gather": 699, "reduce_scatter": 697, "all_to_all": 679}, pair=700, line=100
)
MI355X = Fabric(
    {"all_reduce": 367, "all_gather": 372, "reduce_scatter": 371, "all_to_all": 356},
    pair=61,
    line=50,
    library="RCCL version : 2.27.7-HEAD:86ea1d2",
    inside="P2P/IPC",
)


def mates(name: str, index: int, nodes: int) -> list[str]:
    """Name all nodes of a cluster, of which one with this index is called so."""
    stem, digits = re.fullmatch(r"(.*?)(\d+)", name).groups()  # type: ignore[union-attr]
    first = int(digits) - index + 1
    return [f"{stem}{number:0{len(digits)}d}" for number in range(first, first + nodes)]


def document(
    fabric: Fabric, args: Mapping[str, Any], names: Sequence[str], place: tuple[int, int], gpus: int
) -> dict[str, Any]:
    """Return what a rank prints; ``place`` is the number of its node, and its own there."""
    group, local = place
    ranks = gpus * len(names)
    return {
        "place": {
            "job": f"{names[0]}:23456",
            "rank": group * gpus + local,
            "ranks": ranks,
            "of_node": gpus,
            "nodes": list(names),
            "domains": list(names),
            "backend": "nccl",
        },
        "settings": {"removed": {}, "kept": {}, "set": {}},
        "rows": [_row(fabric, case, len(names), gpus, local) for case in collectives.cases(args)],
        "pairs": [*_pairs(fabric, args, names, place, gpus)],
        "groups": [*_groups(fabric, args, names, group, gpus)],
        "log": _log(fabric, place, gpus, len(names)),
    }


def _row(fabric: Fabric, case: Mapping[str, Any], nodes: int, gpus: int, local: int) -> dict[str, Any]:
    name, ranks = case["collective"], gpus * nodes if case["scope"] == "all" else gpus
    chunk = max(1, case["size"] // 4 // ranks)
    size = max(1, case["size"] // 4) * 4 if name == "all_reduce" else chunk * ranks * 4
    bus = fabric.domain[name] if case["scope"] == "domain" else _out(fabric, name, ranks, gpus)
    seconds = LATENCY + rates.bus_factor(name, ranks) * size / bus / 1e9
    row = {"case": dict(case), "status": "ok", "ranks": ranks, "bytes": size, **_times(seconds)}
    if local or name == "all_reduce" or case["scope"] != "all" or case["size"] < collectives.GIB:
        return row
    sent = rates.leaving(name, bus, ranks, gpus) * seconds * 1e9 * 17 * 1.012 / gpus
    return {**row, "sent": {f"mlx5_{rail}/1": round(sent) for rail in range(gpus)}, "calls": 17}


def _out(fabric: Fabric, collective: str, ranks: int, island: int) -> float:
    """Return the bus bandwidth over all, where the line decides."""
    if collective == "all_to_all":
        return fabric.line * SHARE * (ranks - 1) / (ranks - island)
    return fabric.line * SHARE * island


def _pairs(
    fabric: Fabric, args: Mapping[str, Any], names: Sequence[str], place: tuple[int, int], gpus: int
) -> Any:
    group, local = place
    for partners in rates.rounds(gpus, args["rounds"]):
        yield _pair("within", group * gpus + partners[local], args["pair"], fabric.pair, names[group])
    for partners in rates.rounds(len(names), args["rounds"]):
        other = partners[group]
        pair = "/".join(sorted((names[group], names[other]))) + f"/{local}"
        yield _pair("across", other * gpus + local, args["pair"], fabric.line * SHARE * 1.01, pair)


def _pair(kind: str, other: int, size: int, speed: float, seed: str) -> dict[str, Any]:
    chip = random.Random(f"{kind}/{seed}").uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - made up
    times = _times(size / speed / chip / 1e9)
    return {"kind": kind, "with": other, "bytes": size, "wrong": 0, "seconds": times["seconds"]}


def _groups(fabric: Fabric, args: Mapping[str, Any], names: Sequence[str], group: int, gpus: int) -> Any:
    for nodes in rates.growing(range(len(names))) if args["group"] else ():
        if group in nodes:
            ranks = len(nodes) * gpus
            seconds = args["group"] * (ranks - 1) / ranks / fabric.line / SHARE / gpus / 1e9
            yield {
                "nodes": [names[node] for node in nodes],
                "status": "ok",
                "ranks": ranks,
                "bytes": args["group"],
                **_times(seconds),
            }


def _times(seconds: float) -> dict[str, Any]:
    times = [float(f"{seconds * part:.5g}") for part in (1.003, 1.0, 0.999)]
    return {"seconds": times, "wrong": 0, "changed": 0}


def _log(fabric: Fabric, place: tuple[int, int], gpus: int, nodes: int) -> dict[str, Any]:
    """Return the lines that NCCL prints of such a run."""
    group, local = place
    rank = group * gpus + local
    beside = (local + 1) % gpus
    other = (rank + gpus) % (gpus * nodes)
    who = f"n:4711:{4800 + local} [{local}] NCCL INFO "
    lines = [
        f"{who}{fabric.library}",
        f"{who}NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.7<0>",
        f"{who}Using network {fabric.network}",
        f"{who}Channel 00/0 : {rank}[{local}] -> {rank - local + beside}[{beside}] via {fabric.inside}",
    ]
    if nodes > 1:
        lines.append(
            f"{who}Channel 00/0 : {rank}[{local}] -> {other}[{local}] [send]"
            f" via NET/{fabric.network}/{local}/GDRDMA"
        )
    return {"lines": [[line, 1] for line in lines], "left_out": 0, "tail": lines[-2:]}
