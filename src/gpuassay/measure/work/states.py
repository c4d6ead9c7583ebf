"""The state that is saved: numbers that follow from their place, so that whoever loads any part knows it.

They look random, so nothing on the way can compress or deduplicate them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuassay.measure.work.device import Device

ELEMENT = 8
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # splitmix64
_FULL, _HALF = 1 << 64, 1 << 63


def content(tensor: int, begin: int, count: int, device: Device) -> Any:
    """Give the elements of a tensor from ``begin`` on."""
    import torch  # noqa: PLC0415 - torch is loaded only where it runs

    first = (tensor << 48) + begin
    z = torch.arange(first, first + count, dtype=torch.int64, device=device.place)
    z.mul_(_signed(_STEP))
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        z.bitwise_xor_(_shifted(z, shift)).mul_(_signed(factor))
    return z.bitwise_xor_(_shifted(z, 31))


def changed(tensor: int, begin: int, found: Any, device: Device) -> int:
    """Count the elements that are not what they were when they were saved, bit by bit."""
    return int((found != content(tensor, begin, found.numel(), device)).sum())


def per_rank(rank_bytes: int, tensors: int, ranks: int) -> int:
    """Tell how many elements of a tensor a rank has, so that half as many ranks can share them evenly."""
    whole = max(1, ranks // 2)
    return max(1, rank_bytes // ELEMENT // tensors // whole) * whole


def _signed(number: int) -> int:
    """Write 64 bits as torch takes them."""
    return (number + _HALF) % _FULL - _HALF


def _shifted(z: Any, by: int) -> Any:
    """Shift right without the sign, which torch's own shift keeps."""
    return (z >> by) & ((1 << (64 - by)) - 1)
