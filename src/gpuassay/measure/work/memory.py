"""How fast the memory of a device is: copied, read, added (triad), and multiplied by a vector (GEMV)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import counts, verify
from gpuassay.measure.work.case import Work, copies
from gpuassay.measure.work.formats import FORMATS, operands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.measure.work.device import Device

METHOD = 1
_ARRAY = 1 << 30  # bytes of each array: more than any cache
_TINY_ARRAY, _TINY_SIDE = 1 << 20, 256
_ELEMENT = 4
_SCALAR = 0.4
_STRIDE = 1021  # a prime: the elements that are computed again lie in every page and channel
_SEED = 20261130


def cases(args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a case for each of ``kernels``: copy, read, triad, and gemv with a square matrix of ``side``."""
    sides = {"gemv": {"side": args["side"]}}
    return [{"kernel": kernel, **sides.get(kernel, {})} for kernel in str(args["kernels"]).split()]


def prepare(case: Mapping[str, Any], device: Device) -> Work:
    """Make a kernel ready."""
    return _gemv(case, device) if case["kernel"] == "gemv" else _stream(case["kernel"], device)


def _stream(name: str, device: Device) -> Work:
    import torch  # noqa: PLC0415 - torch is loaded only where it runs

    elements = (_ARRAY if device.accelerator else _TINY_ARRAY) // _ELEMENT
    generator = torch.Generator(device=device.place).manual_seed(_SEED)
    a, b = (torch.randn(elements, generator=generator, device=device.place) for _ in range(2))
    result = torch.zeros((), device=device.place) if name == "read" else torch.zeros_like(a)
    first = torch.empty_like(result)
    calls = {
        "copy": lambda: result.copy_(a),
        "read": lambda: torch.sum(a, dim=0, out=result),
        "triad": lambda: torch.add(a, b, alpha=_SCALAR, out=result),
    }

    def check() -> verify.Check:
        calls[name]()
        first.copy_(result)
        return _compare(name, a, b, first)

    def recheck() -> int:
        return int((result != first).sum())

    return Work(
        kernel=lambda _number: calls[name](),
        check=check,
        recheck=recheck,
        flops=0,
        bytes=counts.stream_bytes(name, elements, _ELEMENT),
        sizes={"elements": elements, "element_bytes": _ELEMENT},
        via={"copy": "torch.Tensor.copy_", "read": "torch.sum", "triad": "torch.add"}[name],
    )


def _compare(name: str, a: Any, b: Any, result: Any) -> verify.Check:
    """Compare with double precision: a copy to the bit, a sum and a triad to their rounding."""
    if name == "copy":
        return verify.Check(a.numel(), int((a != result).sum()), 0.0)
    if name == "read":
        exact = float(a.cpu().double().sum())
        error = abs(float(result) - exact) / a.numel() ** 0.5
        return verify.Check(a.numel(), int(not error <= 2**-10), error)
    left, right, found = (one[::_STRIDE].cpu().double() for one in (a, b, result))
    error = (found - (left + _SCALAR * right)).abs()
    wrong = int((~(error <= 2**-22 * (left.abs() + right.abs()))).sum())
    return verify.Check(found.numel(), wrong, float(error.max()))


def _gemv(case: Mapping[str, Any], device: Device) -> Work:
    import torch  # noqa: PLC0415

    name, side = "bfloat16", case["side"] if device.accelerator else _TINY_SIDE
    about = FORMATS[name]
    moved = counts.gemm_bytes(1, side, side, about.operand, about.result_bytes)
    sets = [operands(name, (1, side, side), device, _SEED + one) for one in range(copies(moved, device))]
    results = [torch.empty(side, device=device.place, dtype=torch.bfloat16) for _ in sets]
    first = torch.empty_like(results[0])

    def kernel(number: int) -> None:
        one = number % len(sets)
        torch.mv(sets[one].right, sets[one].left[0], out=results[one])

    def check() -> verify.Check:
        kernel(0)
        first.copy_(results[0])
        rows = verify.spread_over(side)
        block = first[rows].float().cpu().double()[None]
        return verify.compare(*sets[0].block([0], rows), block, verify.TOLERANCES[name])

    def recheck() -> int:
        return verify.changed(first, results[0], verify.TOLERANCES[name], side)

    sizes = {"m": 1, "n": side, "k": side, "sets": len(sets)}
    return Work(kernel, check, recheck, counts.gemm_flops(1, side, side), moved, sizes, "torch.mv")
