"""What workloads give on healthy accelerators: made up, around what is publicly known of each."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.judge.catalog import load_catalog
from gpuassay.measure.burn_in import BURN_IN
from gpuassay.measure.endured import ENDURED
from gpuassay.measure.perftest import Perftest
from gpuassay.measure.two_racks import TwoRacks
from gpuassay.measure.work import counts, grouped
from gpuassay.measure.work.formats import FORMATS
from gpuassay.measure.work.products import PINNED
from gpuassay.measure.workloads import WORKLOADS, Workload
from recorded import (
    agents,
    burnt,
    exchanges,
    gb300,
    hgx_b200,
    hgx_h200,
    lasting,
    measurements,
    perftest,
    stored,
    storing,
    tools,
    trained,
)
from recorded import mi355x as mi355
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.judge.catalog import Measurement

_GROUPED = dict.fromkeys(("mxfp8", "nvfp4"), "torch.nn.functional.scaled_grouped_mm")
_BESIDE = 0.9  # of what is sustained alone, while data is exchanged too
ROOT = Path(__file__).parents[2]
SPREAD = 0.008  # chips differ by some 2.5 % either way; these by less, so that nobody looks for a meaning


@dataclass(frozen=True)
class Product:
    """An accelerator: TFLOP/s by format (0: it has none), GB/s by kernel, and what it says of itself."""

    device: Mapping[str, Any]
    versions: Mapping[str, str]
    tflops: Mapping[str, float]
    gbps: Mapping[str, float]
    sample: Mapping[str, float]
    burst: float
    fabric: exchanges.Fabric
    tokens: Mapping[str, float]
    storage: tuple[stored.Storage, ...] = stored.ALL


NVIDIA = {"python": "3.12.3", "torch": "2.13.0+cu130", "cuda": "13.0", "machine": "x86_64"}
B200 = Product(
    device={"kind": "cuda", "name": "NVIDIA B200", "capability": "10.0", "cache_bytes": 132_120_576},
    versions=NVIDIA,
    tflops={
        "bfloat16": 1450,
        "float16": 1448,
        "tf32": 840,
        "float32": 50,
        "float8_e4m3": 2810,
        "mxfp8": 2790,
        "nvfp4": 5650,
    },
    gbps={"copy": 7390, "read": 7450, "triad": 7420, "gemv": 7010, "grouped": 4700},
    sample={
        "sm_mhz": 1425,
        "memory_mhz": 3996,
        "power_w": 981,
        "power_limit_w": 1000,
        "celsius": 66,
        "held_by": 4,
    },
    burst=1.2,
    fabric=exchanges.B200,
    tokens={"llama3_8b": 15210, "gpt_oss_20b": 14100},
)
H200 = Product(
    device={"kind": "cuda", "name": "NVIDIA H200", "capability": "9.0", "cache_bytes": 62_914_560},
    versions=NVIDIA,
    tflops={
        "bfloat16": 757,
        "float16": 756,
        "tf32": 370,
        "float32": 48,
        "float8_e4m3": 1360,
        "mxfp8": 0,
        "nvfp4": 0,
    },
    gbps={"copy": 4170, "read": 4290, "triad": 4180, "gemv": 3960, "grouped": 2700},
    sample={
        "sm_mhz": 1885,
        "memory_mhz": 3201,
        "power_w": 687,
        "power_limit_w": 700,
        "celsius": 67,
        "held_by": 4,
    },
    burst=1.12,
    fabric=exchanges.H200,
    storage=(),  # its site file declares none
    tokens={"llama3_8b": 7480, "gpt_oss_20b": 7300},
)
MI355X = Product(
    device={"kind": "rocm", "name": "AMD Instinct MI355X", "capability": "gfx950", "cache_bytes": 4_194_304},
    versions={"python": "3.12.3", "torch": "2.13.0+rocm7.2", "hip": "7.2", "machine": "x86_64"},
    tflops={
        "bfloat16": 1575,
        "float16": 1570,
        "tf32": 0,
        "float32": 102,
        "float8_e4m3": 2700,
        "mxfp8": 2680,
        "nvfp4": 0,
    },
    gbps={"copy": 6380, "read": 6410, "triad": 6350, "gemv": 6010, "grouped": 4300},
    sample={"sm_mhz": 1690, "memory_mhz": 2000, "power_w": 1392, "power_limit_w": 1400, "celsius": 71},
    burst=1.0,
    fabric=exchanges.MI355X,
    tokens={"llama3_8b": 11790, "gpt_oss_20b": 11200},
)


def b200(name: str, index: int) -> list[Item]:
    """Return what an HGX B200 node answers, and what was measured on it."""
    tests = measurements.nccl_tests(name, "NVIDIA B200", exchanges.B200.domain["all_reduce"])
    own = hgx_b200.node(name, index)
    return [
        *own,
        tests,
        *measured(B200, name, index, [hgx_b200.gpu(rail) for rail in range(8)]),
        tools.nvbandwidth("NVIDIA B200", 55.3, 752.0),
        tools.mamf("NVIDIA B200", 1447, 1741),
        tools.hpl_mxp(71.2),
        *storing.storage(name, index),
        perftest.item(name, index, [f"mlx5_{rail}" for rail in range(8)], 400),
        *burned(B200, name, index, [hgx_b200.gpu(rail) for rail in range(8)]),
        *burnt.after(own),
        *lasted(B200, name, index, own),
    ]


def h200(name: str, index: int) -> list[Item]:
    """Return what an HGX H200 node answers, and what was measured on it."""
    tests = measurements.nccl_tests(name, "NVIDIA H200", exchanges.H200.domain["all_reduce"])
    own = hgx_h200.node(name, index)
    return [
        *own,
        tests,
        *measured(H200, name, index, [hgx_b200.gpu(rail) for rail in range(8)]),
        tools.nvbandwidth("NVIDIA H200", 55.2, 394.5),
        tools.mamf("NVIDIA H200", 756, 851),
        tools.hpl_mxp(54.3),
        perftest.item(name, index, [f"mlx5_{rail}" for rail in (0, 3, 4, 5, 6, 9, 10, 11)], 400),
        *burned(H200, name, index, [hgx_b200.gpu(rail) for rail in range(8)]),
        *burnt.after(own),
    ]


def mi355x(name: str, index: int) -> list[Item]:
    """Return what an MI355X node answers, and what was measured on it."""
    tests = measurements.nccl_tests(name, "AMD Instinct MI355X", exchanges.MI355X.domain["all_reduce"])
    own = mi355.node(name, index)
    return [
        *own,
        tests,
        *measured(MI355X, name, index, [mi355.gpu(rail) for rail in range(8)]),
        tools.mamf("AMD Instinct MI355X", 1568, 1572),
        tools.rochpl_mxp(78.1),
        tools.transferbench(44.1),
        *storing.storage(name, index),
        perftest.item(name, index, [f"ionic_{rail}" for rail in range(8)], 400),
        *burned(MI355X, name, index, [mi355.gpu(rail) for rail in range(8)]),
        *burnt.after(own),
        *lasted(MI355X, name, index, own),
    ]


def burned(product: Product, name: str, index: int, addresses: list[str], nodes: int = 2) -> Iterator[Item]:
    """Yield what the ranks of a node wrote in a burn-in of that many nodes."""
    speeds = {name: product.tflops[name] * _BESIDE for name in ("bfloat16", "float8_e4m3")}
    names = exchanges.mates(name, index, nodes)
    return burnt.journals(names, name, _about(product), addresses, speeds)


def lasted(product: Product, name: str, index: int, items: Sequence[Item], nodes: int = 2) -> Iterator[Item]:
    """Yield what came of the loads that last, on a cluster of that many nodes of eight GPUs."""
    gpu = mi355.gpu if product is MI355X else hgx_b200.gpu
    names, addresses = exchanges.mates(name, index, nodes), [gpu(rail) for rail in range(8)]
    place = lasting.Place(names, name, _about(product), addresses, product.fabric.line)
    return lasting.lasted(place, items)


def _about(product: Product) -> dict[str, Any]:
    """Return what a rank says of where it works."""
    return {
        "device": product.device,
        "versions": product.versions,
        "image": "",
        "environment": dict(PINNED),
        "sample": {"at": 1.0, **product.sample},
    }


def gb300_rack(name: str, index: int) -> list[Item]:
    """Return what a compute tray of an NVL72 rack answers, and what left it with NVLink off between trays."""
    gpus = [gb300.gpu(rail) for rail in range(gb300.GPUS)]
    product = replace(
        B200,
        device={"kind": "cuda", "name": "NVIDIA GB300", "capability": "10.3", "cache_bytes": 132_120_576},
        fabric=exchanges.GB300,
    )
    found = measured(product, name, index, gpus, nodes=gb300.RACK)
    return [
        *gb300.one_rack(name, index),
        *(item for item in found if item.id.startswith("measure/scale_out/")),
    ]


def measured(product: Product, node: str, index: int, addresses: list[str], nodes: int = 2) -> Iterator[Item]:
    """Yield an item for each workload and rank, on a cluster of that many nodes."""
    names = exchanges.mates(node, index, nodes)
    for measurement in _measurements():
        workload = WORKLOADS[measurement.workload]
        asked = workload.asked(measurement.args)
        if workload.name == "checkpoint" and not product.storage:
            continue
        if workload.one_rank:
            told = (
                agents.served(measurement.args, node, len(addresses))
                if workload.name == "agents"
                else stored.document(product.storage, measurement.args, node)
            )
            out = encode(told) + b"\n"
            place = f"measure/{measurement.name}/{measurement.name}"
            yield Item(place, 0, asked=asked, exit=0, seconds=90.0, out=out)
            continue
        for rank, address in enumerate(addresses):
            document = {
                "workload": workload.name,
                "method": workload.method,
                "rank": rank,
                "device": {**product.device, "address": address},
                "versions": product.versions,
                "image": "",
                "environment": {},
            }
            if workload.name == "checkpoint":
                document["rows"] = stored.checkpoints(
                    product.storage, measurement.args, (node, rank), (nodes, len(addresses))
                )
            elif workload.name == "training":
                speed = product.tokens[str(measurement.args["model"])]
                document["rows"] = trained.rows(measurement.args, speed, (node, rank), len(names))
            elif workload.together:
                where = (names.index(node), rank)
                document |= exchanges.document(product.fabric, measurement.args, names, where, len(addresses))
            elif measurement.name == "deep_gemm" and product.device["kind"] == "rocm":
                continue  # it is for NVIDIA's chips
            else:
                chip = random.Random(f"{node}/{rank}").uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - made up
                cases = _cases(measurement)
                document["rows"] = [_row(product, measurement, case, chip) for case in cases]
            place = f"measure/{measurement.name}/{rank}"
            yield Item(place, 0, asked=asked, exit=0, seconds=60.0, out=encode(document) + b"\n")


def _cases(measurement: Measurement) -> list[dict[str, Any]]:
    workload = WORKLOADS[measurement.workload]
    return workload.cases(measurement.args) if isinstance(workload, Workload) else []


@cache
def _measurements() -> list[Measurement]:
    catalog = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
    elsewhere = ("", BURN_IN.name, Perftest.name, TwoRacks.name, *ENDURED)
    return [one for one in catalog.measurements.values() if one.workload not in elsewhere]


def made_from() -> str:
    """Return all that decides what is measured: a recording that was made of anything else is stale."""
    return repr([(one.name, WORKLOADS[one.workload].order(one.args)) for one in _measurements()])


def _row(product: Product, measurement: Measurement, case: Mapping[str, Any], chip: float) -> dict[str, Any]:
    """Return a row as a rank prints it: three repeats that lie close together."""
    flops, moved, seconds, via = _work(product, case)
    if seconds == 0.0:
        return {"case": case, "status": "unsupported", "why": f"{case['format']} is not here", "together": 8}
    seconds /= chip * (1.0 if measurement.args["warm"] else product.burst)
    return {
        "case": case,
        "status": "ok",
        "flops": flops,
        "bytes": moved,
        "via": via,
        "checked": 1024,
        "wrong": 0,
        "worst": 0.004,
        "together": 8,
        "seconds": [float(f"{seconds * part:.5g}") for part in (1.002, 1.0, 0.999)],
        "calls": 900,
        "warm_seconds": 4.2,
        "settled": True,
        "changed": 0,
        "samples": _samples(product, measurement.name),
    }


def _samples(product: Product, name: str) -> list[dict[str, float]]:
    """Return what a chip says of itself: in one measurement several times, as it grows warm."""
    if name != "gemm_bf16":
        return [{"at": 1.0, **product.sample}]
    return [
        {"at": at, **product.sample, "celsius": product.sample["celsius"] - cooler}
        for at, cooler in ((1.0, 7), (5.0, 3), (9.0, 0))
    ]


def _work(product: Product, case: Mapping[str, Any]) -> tuple[int, int, float, str]:
    """Return operations, bytes, seconds and the call of a case on a chip that is just average."""
    if "kernel" in case:
        return _memory(product, case)
    if "projection" in case:
        return _grouped(product, case)
    m, n, k, name = case["m"], case["n"], case["k"], case["format"]
    flops = counts.gemm_flops(m, n, k)
    moved = counts.gemm_bytes(m, n, k, FORMATS[name].operand, FORMATS[name].result_bytes)
    share = 1.0 if (m, n) in ((3072, 18944), (1536, 2816), (8192, 8192)) else 0.97
    rate = product.tflops[name] * share * 1e12
    return (
        flops,
        moved,
        flops / rate if rate else 0.0,
        "torch._scaled_mm" if FORMATS[name].operand < 2 else "torch.mm",
    )


def _memory(product: Product, case: Mapping[str, Any]) -> tuple[int, int, float, str]:
    name, elements = case["kernel"], (1 << 30) // 4
    if name == "gemv":
        moved = counts.gemm_bytes(1, case["side"], case["side"], 2, 2)
        return (
            counts.gemm_flops(1, case["side"], case["side"]),
            moved,
            moved / product.gbps[name] / 1e9,
            "torch.mv",
        )
    moved = counts.stream_bytes(name, elements, 4)
    return 0, moved, moved / product.gbps[name] / 1e9, f"torch {name}"


def _grouped(product: Product, case: Mapping[str, Any]) -> tuple[int, int, float, str]:
    rows = grouped.split(case["rows"], case["groups"], case["routing"])
    about, rate = FORMATS[case["format"]], product.tflops[case["format"]]
    dense, deep = case["projection"] == "dense", case["library"] == "deep_gemm"
    if case["format"] in _GROUPED and not dense and product.device["kind"] == "rocm":
        rate = 0.0  # torch's call for blocks is NVIDIA's
    flops = counts.grouped_flops(rows, case["n"], case["k"])
    moved = counts.grouped_bytes(rows, case["n"], case["k"], about.operand, about.result_bytes)
    share = 1.0 if dense else 0.88 if deep else 0.78
    names = (
        ("torch._scaled_mm", _GROUPED.get(case["format"], "torch._scaled_grouped_mm"))
        if about.operand < 2
        else ("torch.mm", "torch._grouped_mm")
    )
    via = names[0] if dense else "deep_gemm.m_grouped_fp8_gemm_nt_contiguous" if deep else names[1]
    seconds = max(flops / rate / share / 1e12, moved / product.gbps["grouped"] / 1e9) if rate else 0.0
    return flops, moved, seconds, via
