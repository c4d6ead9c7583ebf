"""What well-known tools print on a healthy node: made up, in the form of each, around public figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.measure import TOOLS
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.judge.fact import Scalar

NVBANDWIDTH: dict[str, Scalar] = {
    "tests": "host_to_device_memcpy_ce device_to_host_memcpy_ce device_to_device_memcpy_write_ce",
    "samples": 5,
}
MAMF: dict[str, Scalar] = {"format": "bfloat16", "sizes": "2048 4096 8192 16384"}
HPL_MXP: dict[str, Scalar] = {"order": 258048, "block": 1024}
TRANSFERBENCH: dict[str, Scalar] = {"bytes": "64M"}


def _item(name: str, tool: str, args: dict[str, Scalar], out: bytes, seconds: float) -> Item:
    kind = TOOLS[tool]
    asked = {"command": list(kind.argv(args)), "method": kind.method, "args": args}
    return Item(f"measure/{name}", 0, asked=asked, exit=0, seconds=seconds, out=out)


def nvbandwidth(product: str, host: float, peer: float, gpus: int = 8) -> Item:
    """Return what nvbandwidth 0.8 prints with -j, its command before it."""
    near = [[f"{host + 0.01 * gpu:.4f}" for gpu in range(gpus)]]
    pairs = [
        ["N/A" if one == other else f"{peer + 0.3 * (one ^ other):.3f}" for other in range(gpus)]
        for one in range(gpus)
    ]
    cases = [
        _case("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", near),
        _case("device_to_host_memcpy_ce", "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)", near),
        _case(
            "device_to_device_memcpy_write_ce", "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", pairs
        ),
    ]
    document = {
        "nvbandwidth": {
            "version": "v0.8",
            "git_version": "",
            "CUDA Runtime Version": 13000,
            "Driver Version": "580.159.03",
            "GPU Device list": [f"{gpu}: {product}" for gpu in range(gpus)],
            "testcases": cases,
        }
    }
    head = b"# command: /usr/local/bin/nvbandwidth -j -i 5 -t " + str(NVBANDWIDTH["tests"]).encode() + b"\n"
    return _item("nvbandwidth", "nvbandwidth", NVBANDWIDTH, head + encode(document) + b"\n", 48.0)


def _case(name: str, about: str, matrix: list[list[str]]) -> dict[str, object]:
    numbers = [float(cell) for row in matrix for cell in row if cell != "N/A"]
    return {
        "name": name,
        "status": "Passed",
        "bandwidth_description": f"{about} ",
        "bandwidth_matrix": matrix,
        "sum": sum(numbers),
    }


def mamf(product: str, sustained: float, burst: float) -> Item:
    """Return what version 4 of mamf-finder prints."""
    return _text(
        "mamf_finder",
        "mamf",
        MAMF,
        [
            "# command: python3 -B /opt/mamf-finder/mamf-finder.py --dtype bfloat16 --cuda_device 0",
            "- benchmark version: 4",
            f"- device: {product}",
            "  8192x8192x8192        701.2   702.9   760.1   760.1  690W 1890MHz",
            "note: 7 sibling GPU(s) sat idle during this run",
            f"MAMF (max achievable,  boost burst): {burst:g} TFLOPS @ 4096x8192x16384 (MxNxK)  412W 1965MHz",
            f"MSMF (max sustainable, saturated):   {sustained:g} TFLOPS @ 4096x8192x16384 (MxNxK)  985W 66C",
        ],
    )


def hpl_mxp(per_gpu: float, gpus: int = 8) -> Item:
    """Return what NVIDIA's HPL-MxP prints, cut down to what counts."""
    return _text(
        "hpl_mxp",
        "hpl_mxp",
        HPL_MXP,
        [
            f"# command: mpirun --allow-run-as-root --bind-to none -np {gpus} /workspace/hpl-mxp.sh",
            "================= HPL MxP Result =================",
            "N = 258048, NB = 1024, NPROW = 2, NPCOL = 4, SLOPPY-TYPE = 2",
            f"GFLOPS = {per_gpu * gpus * 1e3:.4e}, per GPU = {per_gpu * 1e3:.2f}",
            f"LU GFLOPS = {5.7 * per_gpu * gpus * 1e3:.4e}, per GPU = {5.7 * per_gpu * 1e3:.2f}",
            "||Ax-b||_oo / (EPS * (||A||_oo * ||x||_oo + ||b||_oo) * N) = 4.12e-05 ...... PASSED",
        ],
    )


def rochpl_mxp(per_gpu: float) -> Item:
    """Return what rocHPL-MxP prints, cut down to what counts."""
    return _text(
        "hpl_mxp",
        "hpl_mxp",
        HPL_MXP,
        [
            "# command: mpirun --allow-run-as-root --bind-to none -np 8 /opt/rochplmxp/rochplmxp --n 258048",
            "T/V                N    NB     P     Q               Time                 Gflops",
            f"WR11R2R4      258048  1024     2     4              26.37         {per_gpu * 8e3:.4e}",
            "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0000412 ...... PASSED",
        ],
    )


def transferbench(average: float) -> Item:
    """Return what the last lines of TransferBench a2a are."""
    return _text(
        "transferbench",
        "transferbench",
        TRANSFERBENCH,
        [
            "# command: /opt/rocm/bin/TransferBench a2a 64M",
            "TransferBench v1.66.02",
            "GPU-GFX All-To-All benchmark:",
            f"Average   bandwidth (GPU Timed): {average:8.3f} GB/s",
            f"Aggregate bandwidth (GPU Timed): {56 * average:8.3f} GB/s",
            f"Aggregate bandwidth (CPU Timed): {52 * average:8.3f} GB/s",
        ],
    )


def _text(name: str, tool: str, args: dict[str, Scalar], lines: Iterable[str]) -> Item:
    return _item(name, tool, args, "".join(f"{line}\n" for line in lines).encode(), 180.0)
