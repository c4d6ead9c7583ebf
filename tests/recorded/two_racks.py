"""Halves of two racks, between which a job ran over the network cards: made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.judge.catalog import load_catalog
from gpuassay.measure.two_racks import TwoRacks
from recorded import exchanges, gb300
from recorded.items import encode
from recorded.performance import NVIDIA, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TRAYS = 4  # of each rack
TAKEN = (0, 1, TRAYS, TRAYS + 1)  # two of each


def half_racks(name: str, index: int) -> list[Item]:
    """Return what a compute tray answers, and what came of the job if it took part."""
    return [*gb300.half_racks(name, index), *_ranks(name, index)]


def _ranks(name: str, index: int) -> Iterator[Item]:
    if index - 1 not in TAKEN:
        return
    args = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml").measurements["two_racks"].args
    every = exchanges.mates(name, index, 2 * TRAYS)
    names = [every[number] for number in TAKEN]
    for local in range(gb300.GPUS):
        place = (names.index(name), local)
        document = {
            "workload": "collectives",
            "method": TwoRacks.method,
            "rank": place[0] * gb300.GPUS + local,
            "device": {"kind": "cuda", "name": "NVIDIA GB300", "address": gb300.gpu(local)},
            "versions": NVIDIA,
            "image": "",
            "environment": {},
            **exchanges.document(exchanges.GB300, args, names, place, gb300.GPUS),
        }
        asked = TwoRacks().asked(args)
        yield Item(
            f"measure/two_racks/{local}", 0, asked=asked, exit=0, seconds=41.0, out=encode(document) + b"\n"
        )
