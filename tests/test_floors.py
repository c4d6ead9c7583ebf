"""What was measured in public on healthy machines passes the floors, and half of it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.verdict import Verdict

if TYPE_CHECKING:
    from gpuassay.judge.limits import Limit

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
MAMF = "stas00/ml-engineering, mamf-finder 4, sustained, and compute/accelerator"
AZURE = "Azure/AI-benchmarking-guide 8fd0c6e, cuBLASLt on random data"
AMD_MAF = "rocm-blogs, measured max-achievable FLOPs, part 2"
AMD_TAF = "rocm-blogs, 2026-10-06, normal data, 1000 W"
ACCEPTANCE = "AMD, Instinct system acceptance, the pass mark"
DCGM = "NVIDIA/DCGM 72fa3fe, diag-skus.yaml, target_stress minimum"


class Figure(NamedTuple):
    """A sustained figure: TFLOP/s that somebody published of a healthy machine."""

    check: str
    product: str
    tflops: float
    source: str


PUBLIC = [
    Figure("bf16", "a100", 258, f"{MAMF} (PCIe)"),
    Figure("fp16", "a100", 256.5, AZURE),
    Figure("bf16", "h200", 745, f"{MAMF}, the slowest of eight"),
    Figure("bf16", "b200", 1421, f"{MAMF}, the slowest of eight"),
    Figure("bf16", "b300", 1519, MAMF),
    Figure("bf16", "mi300x", 659, MAMF),
    Figure("fp16", "mi300x", 654, AMD_MAF),
    Figure("bf16", "mi300x", 708, AMD_MAF),
    Figure("bf16", "mi325x", 831, AMD_TAF),
    Figure("fp16", "mi325x", 787, AMD_TAF),
    Figure("fp32", "h100", 29.25, DCGM),
    Figure("fp32", "h200", 37.5, DCGM),
    Figure("fp32", "b200", 36.949, DCGM),
    Figure("fp32", "b300", 36.825, DCGM),
    Figure("fp32", "gb300", 48.75, DCGM),
    Figure("fp32", "mi300x", 94.1, ACCEPTANCE),
    Figure("fp32", "mi325x", 94.1, ACCEPTANCE),
    Figure("fp8", "h100", 1377, AZURE),
    Figure("fp8", "h200", 1350, AZURE),
    Figure("fp8", "h200", 1354, MAMF),
    Figure("fp8", "b200", 2788, MAMF),
    Figure("fp8", "b300", 2969, MAMF),
    Figure("fp8", "gb200", 2744, "Azure, techcommunity 4390442"),
    Figure("fp8", "mi300x", 1187, MAMF),
    Figure("fp8", "mi325x", 1408, AMD_TAF),
    Figure("nvfp4", "b200", 5627, MAMF),
]
FORMATS = ("bf16", "fp16", "tf32", "fp32", "fp8", "mxfp8", "nvfp4")


def limit_of(check: str, metric: str) -> Limit:
    """Look up what a metric of a check of matrix products is held to."""
    return CATALOG.checks[f"perf.gemm.{check}"].limits[metric]


def figure(limit: Limit, product: str) -> float:
    """Look up the figure of a product that a limit refers to."""
    assert limit.of is not None
    value = CATALOG.accelerators[product].figures[limit.of.name].value
    assert isinstance(value, (int, float))
    return float(value)


@pytest.mark.parametrize("public", PUBLIC, ids=lambda one: f"{one.product}-{one.check}-{one.tflops:g}")
def test_a_public_figure_passes_the_floor_of_its_product(public: Figure) -> None:
    """Whoever measured it, and by whatever method: the floor is below all of them."""
    limit = limit_of(public.check, "of_rated")
    assert limit.grade(public.tflops, figure(limit, public.product)).verdict is Verdict.PASS, public.source


@pytest.mark.parametrize("check", FORMATS)
def test_half_the_speed_fails_on_every_product(check: str) -> None:
    """Half of what a product is known or estimated to sustain: a fleet that is slow as a whole fails."""
    sustained, floor = limit_of(check, "tflops"), limit_of(check, "of_rated")
    assert sustained.of is not None
    known = [name for name, one in CATALOG.accelerators.items() if sustained.of.name in one.figures]
    for product in known:
        value = figure(sustained, product)
        rated = figure(floor, product)
        assert floor.grade(value, rated).verdict is Verdict.PASS, product
        assert floor.grade(value / 2, rated).verdict is Verdict.FAIL, product
    assert len(known) >= 4


@pytest.mark.parametrize("check", FORMATS)
def test_a_floor_binds(check: str) -> None:
    """Neither it nor the rated figure behind it is provisional, on any product."""
    limit = limit_of(check, "of_rated")
    assert limit.of is not None
    rated = [
        one.figures[limit.of.name] for one in CATALOG.accelerators.values() if limit.of.name in one.figures
    ]
    assert rated
    assert not limit.provisional
    assert not any(one.provisional for one in rated)
