"""Dense matrix products: one format, several shapes, each of them sustained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import counts, verify
from gpuassay.measure.work.case import Work, copies
from gpuassay.measure.work.formats import FORMATS, operands, require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.measure.work.device import Device

METHOD = 1
_TINY = 128
_SEED = 20261130


def cases(args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a case for each of ``shapes``, written ``M x N x K`` without blanks: "4096x4096x4096 …"."""
    return [
        {"format": args["format"], **dict(zip("mnk", map(int, shape.split("x")), strict=True))}
        for shape in str(args["shapes"]).split()
    ]


def prepare(case: Mapping[str, Any], device: Device) -> Work:
    """Make a product ready. Raises UnsupportedError."""
    import torch  # noqa: PLC0415 - torch is loaded only where it runs

    name = case["format"]
    require(name, device)
    m, n, k = (case[side] if device.accelerator else min(case[side], _TINY) for side in "mnk")
    about = FORMATS[name]
    moved = counts.gemm_bytes(m, n, k, about.operand, about.result_bytes)
    kind = getattr(torch, about.result)
    sets = [operands(name, (m, n, k), device, _SEED + one) for one in range(copies(moved, device))]
    results = [torch.empty(m, n, device=device.place, dtype=kind) for _ in sets]
    first = torch.empty_like(results[0])

    def kernel(number: int) -> None:
        sets[number % len(sets)].multiply(results[number % len(sets)])

    def check() -> verify.Check:
        kernel(0)
        first.copy_(results[0])
        rows, columns = verify.spread_over(m), verify.spread_over(n)
        block = first[rows][:, columns].float().cpu().double()
        found = verify.compare(*sets[0].block(rows, columns), block, verify.TOLERANCES[name])
        return _proven(name, found._replace(wrong=found.wrong + int((~first.isfinite()).sum())))

    def recheck() -> int:
        return verify.changed(first, results[0], verify.TOLERANCES[name], k)

    via = "torch._scaled_mm" if sets[0].scales else "torch.mm"
    sizes = {"m": m, "n": n, "k": k, "sets": len(sets)}
    return Work(kernel, check, recheck, counts.gemm_flops(m, n, k), moved, sizes, via)


def _proven(name: str, found: verify.Check) -> verify.Check:
    """Refuse TF32 that is as exact as float32: the mode did not take effect."""
    if name == "tf32" and found.worst < 2**-16:
        raise RuntimeError("the result is as exact as float32: TF32 did not take effect")
    return found
