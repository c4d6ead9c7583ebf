"""The call that multiplies the matrices of experts: torch's, DeepGEMM's, or a loop where there is none.

Operands are real values rounded to the format, and the product of the rounded values is what a reference has
to give. In FP8 scales are all one, so every layout of them that a library wants holds the same; where each
block of a row has a scale, it is the block's own, and a layout that the chip reads otherwise is seen.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import blocks
from gpuassay.measure.work.formats import UnsupportedError, require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.measure.work.device import Device

GET_DEEP_GEMM = (
    "DeepGEMM is not here: build it from github.com/deepseek-ai/DeepGEMM into the Python that the site file "
    "names (deep-gemm 1.0.0 of PyPI is an empty placeholder)"
)
_FP8 = "float8_e4m3"
_BLOCK = 128  # DeepGEMM has a scale for so many elements
_HOPPER = (9, 0)
_ALIGNED = 32  # torch's own tests of grouped products with scales of blocks have groups of multiples of it
# What torch says where it has the call and not for this chip, format or shape.
_REFUSALS = ("only supported", "not supported", "could not run 'aten::", "not implemented", "unsupported")


@dataclass(frozen=True)
class Call:
    """A grouped product made ready: ``run`` takes rows and weights, and gives a result.

    ``real`` says where the real rows lie among those that the library takes, which may pad each group to
    ``total`` rows in all; None: all are real. ``groups`` are the rows of each group, with their padding.
    """

    run: Callable[[Any, Any], Any]
    via: str
    total: int
    real: Any = None
    groups: Sequence[int] = ()

    def unpadded(self, rows: Any) -> Any:
        """Take the real rows."""
        return rows if self.real is None else rows[self.real]


def choose(
    case_format: str, library: str, rows: Sequence[int], sides: tuple[int, int], device: Device
) -> Call:
    """Choose the call; ``sides`` are N and K. Raises UnsupportedError."""
    if case_format not in ("bfloat16", _FP8, *blocks.SIZES):
        raise UnsupportedError(f"no grouped product in {case_format} is known to us")
    require(case_format, device)
    if library == "deep_gemm":
        return _deep_gemm(rows, sides, device)
    if case_format in blocks.SIZES:
        return _in_blocks(case_format, rows, device)
    return _scaled(rows, sides, device) if case_format == _FP8 else _plain(rows, device)


def refused(error: Exception) -> bool:
    """Tell whether an exception means that there is no such call on this device, and not that it failed."""
    said = str(error).casefold()
    return isinstance(error, (NotImplementedError, RuntimeError)) and any(word in said for word in _REFUSALS)


def _ends(rows: Sequence[int], device: Device) -> Any:
    import torch  # noqa: PLC0415

    return torch.tensor(rows, device=device.place).cumsum(0).to(torch.int32)


def _plain(rows: Sequence[int], device: Device) -> Call:
    """Take torch's product in 16 bits, or, where it has none, a loop, which is another method."""
    import torch  # noqa: PLC0415

    if len(rows) == 1:
        return Call(lambda left, weights: torch.mm(left, weights[0].t()), "torch.mm", sum(rows))
    grouped, ends = getattr(torch, "_grouped_mm", None), _ends(rows, device)
    if grouped is not None:

        def call(left: Any, weights: Any) -> Any:
            return grouped(left, weights.transpose(-2, -1), offs=ends)

        return Call(call, "torch._grouped_mm", sum(rows))

    def loop(left: Any, weights: Any) -> Any:
        parts = left.split(list(rows))
        return torch.cat([part @ own.t() for part, own in zip(parts, weights, strict=True)])

    return Call(loop, "a loop of torch.mm", sum(rows))


def _scaled(rows: Sequence[int], sides: tuple[int, int], device: Device) -> Call:
    """Take torch's product in FP8, with a scale for each row and each column."""
    import torch  # noqa: PLC0415

    def ones(*shape: int) -> Any:
        return torch.ones(shape, device=device.place, dtype=torch.float32)

    if len(rows) == 1:
        one = ones()

        def dense(left: Any, weights: Any) -> Any:
            return torch._scaled_mm(left, weights[0].t(), one, one, out_dtype=torch.bfloat16)  # noqa: SLF001

        return Call(dense, "torch._scaled_mm", sum(rows))
    grouped = getattr(torch, "_scaled_grouped_mm", None)
    if grouped is None:
        raise UnsupportedError(f"torch {torch.__version__} has no grouped product in FP8")
    ends, scales = _ends(rows, device), (ones(sum(rows)), ones(len(rows), sides[0]))

    def call(left: Any, weights: Any) -> Any:
        return grouped(left, weights.transpose(-2, -1), *scales, offs=ends, out_dtype=torch.bfloat16)

    return Call(call, "torch._scaled_grouped_mm", sum(rows))


def _in_blocks(case_format: str, rows: Sequence[int], device: Device) -> Call:
    """Take torch's product with a scale for each block, whose groups are padded to what torch tests."""
    import torch  # noqa: PLC0415

    padded = [-(-count // _ALIGNED) * _ALIGNED for count in rows]
    real = _real(rows, padded, device)
    if len(rows) == 1:

        def dense(left: Any, weights: Any) -> Any:
            scales = left.laid.flatten(), weights.laid[0]
            right = weights.values[0].t()
            return torch._scaled_mm(left.values, right, *scales, out_dtype=torch.bfloat16)  # noqa: SLF001

        return Call(dense, "torch._scaled_mm", sum(padded), real, padded)
    functional = torch.nn.functional
    if not hasattr(functional, "scaled_grouped_mm"):
        raise UnsupportedError(f"torch {torch.__version__} has no grouped product with scales of blocks")
    kinds, swizzles = functional.ScalingType, functional.SwizzleType
    recipe = [kinds.BlockWise1x32] if case_format == "mxfp8" else [kinds.BlockWise1x16, kinds.TensorWise]
    swizzle = swizzles.NO_SWIZZLE if device.kind == "rocm" else swizzles.SWIZZLE_32_4_4
    # NVFP4's second scale, of a group
    whole = [torch.ones(len(rows), device=device.place)] * (len(recipe) - 1)
    how = dict.fromkeys(("scale_recipe_a", "scale_recipe_b"), recipe)
    how |= dict.fromkeys(("swizzle_a", "swizzle_b"), [swizzle] * len(recipe))
    ends = _ends(padded, device)

    def call(left: Any, weights: Any) -> Any:
        scales = {"scale_a": [left.laid, *whole], "scale_b": [weights.laid, *whole]}
        right = weights.values.transpose(-2, -1)
        return functional.scaled_grouped_mm(
            left.values, right, **scales, **how, offs=ends, output_dtype=torch.bfloat16
        )

    return Call(call, "torch.nn.functional.scaled_grouped_mm", sum(padded), real, padded)


def _real(rows: Sequence[int], padded: Sequence[int], device: Device) -> Any:
    """Say where the real rows lie among padded groups."""
    import torch  # noqa: PLC0415

    begins = [0, *accumulate(padded)]
    real = [row for begin, count in zip(begins, rows, strict=False) for row in range(begin, begin + count)]
    return torch.tensor(real, device=device.place)


@cache
def library() -> Any:
    """Load DeepGEMM. What it compiles goes to the node's own temporary folder, not to a shared home."""
    os.environ["DG_JIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="gpuassay-deep-gemm-")
    try:
        deep_gemm = import_module("deep_gemm")  # no package: it is where somebody has built it
    except ImportError:
        forget()
        raise UnsupportedError(GET_DEEP_GEMM) from None
    if not hasattr(deep_gemm, "m_grouped_fp8_gemm_nt_contiguous"):
        forget()
        raise UnsupportedError(GET_DEEP_GEMM)
    return deep_gemm


def forget() -> None:
    """Remove what was compiled: once it is loaded, it is not read again."""
    shutil.rmtree(os.environ.get("DG_JIT_CACHE_DIR", ""), ignore_errors=True)


def _deep_gemm(rows: Sequence[int], sides: tuple[int, int], device: Device) -> Call:
    import torch  # noqa: PLC0415

    if device.kind != "cuda" or tuple(map(int, device.capability.split("."))) < _HOPPER:
        raise UnsupportedError("DeepGEMM needs a GPU of NVIDIA with compute capability 9.0 or more")
    deep = library()
    if len(rows) == 1:
        return _scaled(rows, sides, device)
    ask = getattr(deep, "get_mk_alignment_for_contiguous_layout", None) or (lambda: _BLOCK)
    padded = [-(-count // ask()) * ask() for count in rows]
    groups = torch.full((sum(padded),), -1, dtype=torch.int32, device=device.place)
    begin = 0
    for group, (count, room) in enumerate(zip(rows, padded, strict=True)):
        groups[begin : begin + count] = group
        begin += room
    n, k = sides

    def ones(*shape: int) -> Any:
        return torch.ones(shape, device=device.place, dtype=torch.float32)

    left_scales = ones(sum(padded), -(-k // _BLOCK))
    weight_scales = ones(len(rows), -(-n // _BLOCK), -(-k // _BLOCK))

    def call(left: Any, weights: Any) -> Any:
        out = torch.empty(sum(padded), n, device=device.place, dtype=torch.bfloat16)
        deep.m_grouped_fp8_gemm_nt_contiguous((left, left_scales), (weights, weight_scales), out, groups)
        return out

    return Call(call, "deep_gemm.m_grouped_fp8_gemm_nt_contiguous", sum(padded), _real(rows, padded, device))
