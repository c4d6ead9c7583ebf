"""The journals of a burn-in on a healthy cluster, and what its nodes say after it: made up.

A real beat takes some ten seconds; of these each takes five minutes, so that a recording stays small.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.burning import AFTER
from gpuassay.evidence.item import Item
from gpuassay.judge.catalog import load_catalog
from gpuassay.measure.burn_in import BURN_IN
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.judge.catalog import Measurement

_BEAT_S, _BEGIN = 300, 1_796_112_000  # 2026-12-01T08:00:00Z
_REDUCES, _PAUSES_AFTER = 4, 3
_SPREAD = 0.004
_FLOPS = 2 * 8192**3
_GBPS = 43.0  # all-to-all over two nodes of eight, by the line, beside products
_DIGESTS = {"bfloat16": "3f0c5b1d9a8e7246", "float8_e4m3": "b1946ac92492d234"}


@cache
def measurement() -> Measurement:
    """Return the measurement as the catalogue has it."""
    root = Path(__file__).parents[2]
    return load_catalog(root / "thresholds.toml", root / "advisories.toml").measurements["burn_in"]


def journals(
    names: Sequence[str],
    node: str,
    about: Mapping[str, Any],
    addresses: Sequence[str],
    tflops: Mapping[str, float],
) -> Iterator[Item]:
    """Yield an item for each segment and rank; ``tflops`` are sustained beside exchanges, by format."""
    what = measurement()
    whole, length = int(what.args["seconds"]), int(what.args["segment"])
    for segment in range(1, whole // length + 1):
        asked = {**BURN_IN.asked(what.args), "segment": segment, "seconds": length, "of": whole}
        for local, address in enumerate(addresses):
            own = {**about, "device": {**about["device"], "address": address}}
            lines = _lines(names, (node, local), own, (segment, length), tflops)
            out = b"".join(encode(line) + b"\n" for line in lines)
            place = f"measure/{what.name}/{segment}/{local}"
            yield Item(place, 0, asked=asked, exit=0, seconds=length + 95.0, out=out)


def _lines(
    names: Sequence[str],
    place: tuple[str, int],
    about: Mapping[str, Any],
    times: tuple[int, int],
    tflops: Mapping[str, float],
) -> Iterator[dict[str, Any]]:
    (node, local), (segment, length) = place, times
    rank, ranks = names.index(node) * 8 + local, 8 * len(names)
    chip = random.Random(f"burn/{node}/{local}").uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - made up
    begin = _BEGIN + (segment - 1) * (length + 95)
    products = [_product(name, speed * chip * 1.12) for name, speed in tflops.items()]
    sizes = [1 << 20, 1 << 25, 1 << 30]
    kinds = [*(("all_to_all", size) for size in sizes), ("all_reduce", sizes[-1])]
    moved = [{"collective": kind, "bytes": size, "seconds": _alone(size), "wrong": 0} for kind, size in kinds]
    yield {
        **{key: value for key, value in about.items() if key != "sample"},
        "line": "begin",
        "at": begin,
        "place": {"rank": rank, "ranks": ranks, "of_node": 8, "nodes": list(names)},
        "products": products,
        "exchanges": moved,
    }
    for beat in range(1, length // _BEAT_S + 1):
        name = list(tflops)[beat % len(tflops)]
        calls, size = 356_000 if name == "bfloat16" else 690_000, sizes[beat // 2 % 3]
        kind, size = ("all_reduce", sizes[-1]) if beat == _REDUCES else ("all_to_all", size)
        seconds = round(calls * _FLOPS / tflops[name] / chip / 1e12, 3)
        yield {
            "line": "beat",
            "beat": beat,
            "spent": beat * _BEAT_S,
            "at": begin + 60 + beat * _BEAT_S,
            "words": f"beat {beat}: {tflops[name]:.4g} TFLOP/s and {_GBPS:.4g} GB/s at once",
            "format": name,
            "collective": kind,
            "bytes": size,
            "gemm": {"calls": calls, "seconds": seconds},
            "exchange": {"calls": round(_BEAT_S * 0.9 / _alone(size)), "seconds": _BEAT_S - 1.5},
            "span": _BEAT_S,
            "both": _BEAT_S - 2.0,
            "looked": {"tiles": 524_288, "wrong": 0},
            "wrong": 0,
            "samples": [about["sample"]],
        }
        if beat == _PAUSES_AFTER:
            yield {"line": "pause", "at": begin + 75 + beat * _BEAT_S, "samples": [about["sample"]]}
    yield {"workload": BURN_IN.name, "method": BURN_IN.method, "rank": rank, "line": "end"}


def _product(name: str, tflops: float) -> dict[str, Any]:
    told = {"digest": _DIGESTS[name], "alike": True, "wrong": 0, "results": 512}
    return {"format": name, "seconds": round(_FLOPS / tflops / 1e12, 9), "flops": _FLOPS, **told}


def _alone(size: int) -> float:
    return round(35e-6 + size * 15 / 16 / _GBPS / 1.05 / 1e9, 9)


def after(items: Sequence[Item], name: str = "burn_in") -> Iterator[Item]:
    """Yield what the probe brings home of the same node nine hours later, when all is as before."""
    for item in items:
        later = item
        if item.id == "uptime":
            up, idle = item.out.decode().split()
            later = replace(item, out=f"{float(up) + 9 * 3600:.2f} {idle}\n".encode())
        yield replace(later, id=f"measure/{name}{AFTER}/{item.id}")
