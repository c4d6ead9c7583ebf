"""The number formats of a matrix product: how operands are made, multiplied, and read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuassay.measure.work import blocks
from gpuassay.measure.work.blocks import Blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.measure.work.device import Device


class UnsupportedError(Exception):
    """This device, or this torch, does not have what a case needs; says which."""


class Format(NamedTuple):
    """Bytes of one element, with its share of the scales, and the type of the result."""

    operand: float
    result: str

    @property
    def result_bytes(self) -> int:
        """Bytes of one element of the result."""
        return 4 if self.result == "float32" else 2


FORMATS: Mapping[str, Format] = {
    "float32": Format(4, "float32"),
    "tf32": Format(4, "float32"),
    "bfloat16": Format(2, "bfloat16"),
    "float16": Format(2, "float16"),
    "float8_e4m3": Format(1, "bfloat16"),
    "mxfp8": Format(1 + 1 / 32, "bfloat16"),  # a scale of one byte for 32 elements
    "nvfp4": Format(0.5 + 1 / 16, "bfloat16"),  # a scale of one byte for 16 elements
}

_ADA, _BLACKWELL, _AMPERE = (8, 9), (10, 0), (8, 0)
FNUZ = ("gfx940", "gfx941", "gfx942")  # MI300 has another E4M3 than everybody else
_CDNA4 = "gfx950"


def require(name: str, device: Device) -> None:
    """Raise UnsupportedError if the device is known not to have a format."""
    lacks = {"cuda": _cuda_lacks, "rocm": _rocm_lacks, "cpu": _cpu_lacks}[device.kind]
    if why := lacks(name, device.capability):
        raise UnsupportedError(why)


def _cuda_lacks(name: str, capability: str) -> str:
    needs = {
        "tf32": _AMPERE,
        "bfloat16": _AMPERE,
        "float8_e4m3": _ADA,
        "mxfp8": _BLACKWELL,
        "nvfp4": _BLACKWELL,
    }
    major, minor = (int(part) for part in capability.split("."))
    least = needs.get(name, (0, 0))
    if (major, minor) < least:
        return f"{name} needs compute capability {least[0]}.{least[1]}, this is {capability}"
    return ""


def _rocm_lacks(name: str, architecture: str) -> str:
    if name == "nvfp4":
        return "nvfp4 is a format of NVIDIA's"
    if name == "mxfp8" and architecture != _CDNA4:
        return f"mxfp8 needs {_CDNA4}, this is {architecture}"
    if name == "tf32":
        return "torch has no TF32 on AMD"
    if name == "float8_e4m3" and architecture not in (*FNUZ, _CDNA4):
        return f"float8_e4m3 is not known of {architecture}"
    return ""


def _cpu_lacks(name: str, _capability: str) -> str:
    return f"{name} is no format of a processor" if name in ("tf32", "mxfp8", "nvfp4") else ""


@dataclass(frozen=True)
class Operands:
    """Two operands of a product: ``left`` is (m, k), ``right`` (n, k), by rows, and ``scales``."""

    format: str
    left: Any
    right: Any
    scales: tuple[Any, ...] = ()

    def multiply(self, out: Any) -> None:
        """Write ``left @ right.T`` to ``out``."""
        import torch  # noqa: PLC0415 - torch is loaded only where it runs

        if not self.scales:
            torch.mm(self.left, self.right.t(), out=out)
            return
        left, right = (side.values if isinstance(side, Blocks) else side for side in (self.left, self.right))
        torch._scaled_mm(  # noqa: SLF001 - its public name is younger than many an image
            left, right.t(), *self.scales, out_dtype=out.dtype, out=out
        )

    def block(self, rows: list[int], columns: list[int]) -> tuple[Any, Any]:
        """Give some rows of both operands in double precision on the processor."""
        return double(self.left[rows]), double(self.right[columns])


def operands(name: str, sizes: tuple[int, int, int], device: Device, seed: int) -> Operands:
    """Make operands for m, n, k of seeded normal values, which toggle as many bits as real data does."""
    import torch  # noqa: PLC0415

    m, n, k = sizes
    # "high" is TF32 on NVIDIA's GPUs; "highest" keeps float32 what it says.
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    generator = torch.Generator(device=device.place).manual_seed(seed)
    sides = [_side(name, rows, k, device, generator) for rows in (m, n)]
    return Operands(name, sides[0], sides[1], _scales(name, sides, device))


def _side(name: str, rows: int, k: int, device: Device, generator: Any) -> Any:
    import torch  # noqa: PLC0415

    made = torch.randn(rows, k, generator=generator, device=device.place, dtype=torch.float32)
    return rounded(made, name, device)


def rounded(made: Any, name: str, device: Device, groups: Sequence[int] = ()) -> Any:
    """Round values to a format; of ``groups`` of rows, the scales of blocks are laid out apart."""
    import torch  # noqa: PLC0415

    if name in ("float32", "tf32"):
        return made
    if name in ("bfloat16", "float16"):
        return made.to(getattr(torch, name))
    if name in blocks.SIZES:
        return blocks.lay_out(blocks.quantise(made, name), tiled=device.kind != "rocm", groups=groups)
    return made.to(torch.float8_e4m3fnuz if device.capability in FNUZ else torch.float8_e4m3fn)


def _scales(name: str, sides: Sequence[Any], device: Device) -> tuple[Any, ...]:
    """Give the scales of both sides: FP8's are one, whose every layout is the same."""
    import torch  # noqa: PLC0415

    if name in blocks.SIZES:
        return tuple(side.laid for side in sides)
    if name != "float8_e4m3":
        return ()
    one = torch.ones((), device=device.place, dtype=torch.float32)
    return one, one


def double(block: Any) -> Any:
    """Read operands in double precision on the processor."""
    return block.double() if isinstance(block, Blocks) else block.float().cpu().double()
