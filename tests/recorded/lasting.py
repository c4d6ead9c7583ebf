"""The journals of loads that last, on a healthy cluster: made up.

A real window takes ten seconds; of these each takes a minute, so that a recording stays small.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.judge.catalog import load_catalog
from gpuassay.measure.endured import ENDURED
from gpuassay.measure.work import rates
from recorded import burnt, storing
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.judge.catalog import Measurement

ROOT = Path(__file__).parents[2]
_BEGIN, _WINDOW_S = 1_796_150_000, 60
_LUCK = 0.004
_COUNTED = ("net", "infiniband", "uptime", "boot-id")
_SPREAD, _BESIDE = 0.015, 0.8  # of what is read or written alone, while both are done


@cache
def measurements() -> list[Measurement]:
    """Return the measurements that last, as the catalogue has them."""
    every = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml").measurements
    return [one for one in every.values() if one.workload in ENDURED]


@dataclass(frozen=True)
class Place:
    """A node among all, what its ranks say of themselves, the addresses of its GPUs, GB/s of each line."""

    names: Sequence[str]
    node: str
    about: Mapping[str, Any]
    addresses: Sequence[str]
    line: float


def lasted(place: Place, items: Sequence[Item]) -> Iterator[Item]:
    """Yield what the ranks of a node wrote while the loads lasted, and what its ports counted meanwhile."""
    for measurement in measurements():
        yield from _MADE[measurement.workload](place, measurement)
        if ENDURED[measurement.workload].looks_again:
            yield from burnt.after([one for one in items if one.id in _COUNTED], measurement.name)


def _asked(measurement: Measurement, part: str, seconds: int) -> dict[str, Any]:
    kind, whole = ENDURED[measurement.workload], int(measurement.args["seconds"])
    about = {"workload": kind.name, "method": kind.method, "args": dict(measurement.args)}
    return {**about, "part": part, "seconds": seconds, "of": whole}


def _sustained(place: Place, measurement: Measurement) -> Iterator[Item]:
    """Yield a journal for each mount, one after the other."""
    seconds = int(measurement.args["seconds"])
    for number, store in enumerate(storing.STORES, 1):
        asked = _asked(measurement, store.mount.path, seconds)
        lines = _windows(place.node, store, seconds, _BEGIN + number * (seconds + 60))
        out = b"".join(encode(line) + b"\n" for line in lines)
        item = f"measure/{measurement.name}/{number}/0"
        yield Item(item, 0, asked=asked, exit=0, seconds=seconds + 41.0, out=out)


def _looped(place: Place, measurement: Measurement) -> Iterator[Item]:
    """Yield a journal for each segment and rank."""
    whole, length = int(measurement.args["seconds"]), int(measurement.args["segment"])
    for segment in range(1, whole // length + 1):
        for local in range(len(place.addresses)):
            lines = _rounds(place, measurement, local, segment)
            out = b"".join(encode(line) + b"\n" for line in lines)
            item = f"measure/{measurement.name}/{segment}/{local}"
            asked = _asked(measurement, "fabric", length)
            yield Item(item, 0, asked=asked, exit=0, seconds=length + 30.0, out=out)


def _rounds(place: Place, measurement: Measurement, local: int, segment: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a rank; collectives take alike long on all, and a pair as long as on its partner."""
    count, nodes = len(place.addresses), len(place.names)
    ranks, rank = count * nodes, place.names.index(place.node) * count + local
    size, length = int(measurement.args["bytes"]), int(measurement.args["segment"])
    begin = _BEGIN + 10_000 + (segment - 1) * (length + 60)
    calls = {"all_reduce": 800, "all_to_all": 900, "pair": 90}
    yield {
        **{key: value for key, value in place.about.items() if key != "sample"},
        "device": {**place.about["device"], "address": place.addresses[local]},
        "line": "begin",
        "at": begin,
        "place": {"rank": rank, "ranks": ranks, "of_node": count, "nodes": list(place.names)},
        "bytes": dict.fromkeys(calls, size),
        "calls": calls,
    }
    alone = size / place.line / 1e9
    partners = [other for kind, other in rates.meetings(rank, count, nodes, nodes) if kind == "across"]
    for number in range(1, length // _WINDOW_S + 1):
        partner = partners[number % len(partners)]
        seconds = {
            name: round(calls[name] * alone * factor * _luck(segment, number, name, pair), 6)
            for name, factor, pair in (
                ("all_reduce", 0.2, 0),
                ("all_to_all", 0.9, 0),
                ("pair", 1.05, rank + partner),
            )
        }
        yield {
            "line": "beat",
            "beat": number,
            "at": begin + number * _WINDOW_S,
            "spent": number * _WINDOW_S,
            "span": _WINDOW_S,
            "seconds": seconds,
            "with": partner,
            **({"wrong": 0} if number % 10 == 1 else {}),
            "words": f"round {number}: {0.95 * place.line:.4g} GB/s all-to-all",
        }
    kind = ENDURED[measurement.workload]
    yield {"workload": kind.name, "method": kind.method, "rank": rank, "line": "end"}


def _luck(*seed: object) -> float:
    return random.Random(repr(seed)).uniform(1 - _LUCK, 1 + _LUCK)  # noqa: S311 - made up


def _killed(place: Place, measurement: Measurement) -> Iterator[Item]:
    """Yield a journal for each shared mount: a kill in each minute."""
    seconds = int(measurement.args["seconds"])
    shared = [store for store in storing.STORES if store.mount.shared]
    for number, store in enumerate(shared, 1):
        lines = _kills(place.node, store, measurement, _BEGIN + 20_000 + number * (seconds + 60))
        out = b"".join(encode(line) + b"\n" for line in lines)
        item = f"measure/{measurement.name}/{number}/0"
        asked = _asked(measurement, store.mount.path, seconds)
        yield Item(item, 0, asked=asked, exit=0, seconds=seconds + 12.0, out=out)


def _kills(node: str, store: storing.Store, measurement: Measurement, begin: int) -> Iterator[dict[str, Any]]:
    args = measurement.args
    seed = f"{args['seed']}/0/{store.mount.path}"
    dice, step = random.Random(f"{node}/{seed}"), 0  # noqa: S311 - made up
    about = {"mount": store.mount.path, "fs": storing.about(store), "bytes": args["bytes"], "seed": seed}
    yield {"line": "begin", "at": begin, "status": "ok", "tensors": args["tensors"], **about}
    for number in range(1, int(args["seconds"]) // _WINDOW_S + 1):
        step += 1 + dice.randrange(3)
        index = f"CheckpointException: step-{step + 1} has no .metadata"
        yield {
            "line": "beat",
            "beat": number,
            "at": begin + number * _WINDOW_S,
            "span": _WINDOW_S,
            "save_s": 1.43,
            "after_s": round(dice.uniform(0.0, 1.43), 4),
            "saved": step,
            "torn": {"files": 4, "index": False, "why": index},
            "good": {"held": 0.0, "wrong": 0},
            "words": f"kill {number}: step {step + 1} was torn and did not load; step {step}: 0 wrong",
        }
        step += 1
    yield {"line": "end", "at": begin + int(args["seconds"]), "left": 0}


def _windows(node: str, store: storing.Store, seconds: int, begin: int) -> Iterator[dict[str, Any]]:
    dice = random.Random(f"lasting/{node}/{store.mount.path}")  # noqa: S311 - made up
    folder = f"{store.mount.path}/.gpuassay-{node}-4711-a1b2c3d4"
    yield {
        "line": "begin",
        "at": begin,
        "status": "ok",
        "version": "fio-3.36",
        "command": ["/usr/bin/fio", "--rw=rw", f"--directory={folder}"],
        "mount": store.mount.path,
        "folder": folder,
        "fs": storing.about(store),
        "size_mib": 8192,
        "direct": True,
    }
    none = {"errors": 0, "first_error": 0}
    for number in range(1, seconds // _WINDOW_S + 1):
        rate = _BESIDE * store.read * dice.uniform(1 - _SPREAD, 1 + _SPREAD)
        read = round(0.7 * rate * _WINDOW_S * 1e9)
        yield {
            "line": "beat",
            "beat": number,
            "at": begin + number * _WINDOW_S,
            "span": _WINDOW_S,
            "read": read,
            "write": round(read * 3 / 7),
            **none,
            "words": f"window {number}: {rate:.3g} GB/s",
        }
    yield {"line": "end", "at": begin + seconds + 1, "exit": 0, "err": [], **none}


_MADE = {"sustained_storage": _sustained, "fabric_loop": _looped, "checkpoint_kills": _killed}
