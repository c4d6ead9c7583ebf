"""Formats with a scale for each block of a row: MXFP8 and NVFP4, how values are rounded, laid out, and read.

MXFP8 (OCP Microscaling Formats 1.0): 32 values of E4M3 share a power of two, one byte of E8M0. NVFP4 (NVIDIA,
cuDNN and cuBLAS): 16 values of E2M1 share a scale of E4M3; the second, of the whole tensor, is one here.
NVIDIA's chips want the scales in tiles of 128 rows by 4 blocks (cuBLAS, "1D block scaling factors layout");
AMD's want them as they are. A scale that is laid out wrongly meets other values, and the product is wrong by
far more than rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = {"mxfp8": 32, "nvfp4": 16}
TILE_ROWS, TILE_BLOCKS = 128, 4
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of E2M1; the fourth bit is the sign
_E4M3_EXPONENT, _E4M3_MOST = 8, 448.0
_E8M0_BIAS = 127


@dataclass(frozen=True)
class Blocks:
    """Rounded rows and their scales, both as bytes; ``laid`` are the scales as a chip wants them.

    ``data`` is (…, rows, bytes of a row), ``scales`` (…, rows, blocks). It can be indexed as a tensor is,
    which takes rows, or matrices of a stack; what was laid out is of the whole alone.
    """

    format: str
    data: Any
    scales: Any
    laid: Any = None

    def __getitem__(self, where: Any) -> Blocks:
        """Take some of it."""
        return Blocks(self.format, self.data[where], self.scales[where])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its bytes."""
        return tuple(self.data.shape)

    @property
    def values(self) -> Any:
        """The rows in the type that a product takes."""
        import torch  # noqa: PLC0415 - torch is loaded only where it runs

        return self.data.view(torch.float4_e2m1fn_x2 if self.format == "nvfp4" else torch.float8_e4m3fn)

    def double(self) -> Any:
        """Read it in double precision on the processor."""
        import torch  # noqa: PLC0415

        if self.format == "nvfp4":
            values, scales = unpack_fp4(self.data.cpu()), _as_float8(self.scales.cpu()).double()
        else:
            values = _as_float8(self.data.cpu()).double()
            scales = torch.exp2(self.scales.cpu().double() - _E8M0_BIAS)
        return values * scales.repeat_interleave(SIZES[self.format], dim=-1)


def quantise(values: Any, name: str) -> Blocks:
    """Round values, (…, rows, k), to a format; ``k`` is a multiple of its block."""
    import torch  # noqa: PLC0415

    blocks = values.float().unflatten(-1, (-1, SIZES[name]))
    largest = blocks.abs().amax(-1)
    if name == "mxfp8":
        # Of zeros the exponent does not matter; frexp's is one more than that of the leading bit.
        exponents = (torch.frexp(largest).exponent - 1 - _E4M3_EXPONENT).clamp(-_E8M0_BIAS, _E8M0_BIAS)
        scaled = torch.ldexp(blocks, -exponents[..., None]).clamp(-_E4M3_MOST, _E4M3_MOST)
        data = scaled.flatten(-2).to(torch.float8_e4m3fn).view(torch.uint8)
        return Blocks(name, data, (exponents + _E8M0_BIAS).to(torch.uint8))
    scales = (largest / _MAGNITUDES[-1]).to(torch.float8_e4m3fn)
    scaled = (
        blocks / scales.float().clamp_min(2**-9)[..., None]
    )  # the least E4M3: of smaller ones none is left
    return Blocks(name, pack_fp4(scaled.flatten(-2)), scales.view(torch.uint8))


def pack_fp4(values: Any) -> Any:
    """Round to E2M1, and put two of them into a byte, the even one into its low half."""
    import torch  # noqa: PLC0415

    edges = torch.tensor([(a + b) / 2 for a, b in pairwise(_MAGNITUDES)], device=values.device)
    codes = torch.bucketize(values.abs(), edges).to(torch.uint8) | (values < 0).to(torch.uint8) << 3
    return (codes[..., 0::2] | codes[..., 1::2] << 4).contiguous()


def unpack_fp4(packed: Any) -> Any:
    """Read such bytes in double precision."""
    import torch  # noqa: PLC0415

    codes = torch.stack([packed & 0xF, packed >> 4], dim=-1).flatten(start_dim=-2).long()
    magnitudes = torch.tensor(_MAGNITUDES, dtype=torch.float64)[codes & 7]
    return torch.where(codes >= 8, -magnitudes, magnitudes)  # noqa: PLR2004 - the sign bit


def lay_out(made: Blocks, *, tiled: bool, groups: Sequence[int] = ()) -> Blocks:
    """Lay its scales out as a chip wants them: ``tiled``, or row by row, with room for whole tiles in both.

    A stack gives a row for each of its matrices. Of rows in ``groups`` each group begins with a tile of its
    own, and all of them stand in as many columns as there are blocks, with room.
    """
    import torch  # noqa: PLC0415

    def one(scales: Any) -> Any:
        padded = _padded(scales)
        return (_tiled(padded) if tiled else padded).flatten()

    if made.scales.dim() == 3:  # noqa: PLR2004 - a stack of matrices
        laid = torch.stack([one(scales) for scales in made.scales])
    elif groups:
        parts = [one(scales) for scales in made.scales.split(list(groups)) if len(scales)]
        laid = torch.cat(parts).view(-1, _up(made.scales.shape[-1], TILE_BLOCKS))
    else:
        laid = one(made.scales)
    kind = torch.float8_e4m3fn if made.format == "nvfp4" else torch.float8_e8m0fnu
    return Blocks(made.format, made.data, made.scales, laid.view(kind))


def _tiled(padded: Any) -> Any:
    """Order the scales tile by tile; in a tile, row r and block b lie at 16 (r mod 32) + 4 (r div 32) + b."""
    rows, blocks = padded.shape
    tiles = padded.view(rows // TILE_ROWS, 4, 32, blocks // TILE_BLOCKS, TILE_BLOCKS)
    return tiles.permute(0, 3, 2, 1, 4).contiguous()


def _padded(scales: Any) -> Any:
    import torch  # noqa: PLC0415

    rows, blocks = scales.shape
    more = (0, _up(blocks, TILE_BLOCKS) - blocks, 0, _up(rows, TILE_ROWS) - rows)
    return torch.nn.functional.pad(scales, more)


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def _as_float8(data: Any) -> Any:
    """Read bytes of E4M3."""
    import torch  # noqa: PLC0415

    return data.contiguous().view(torch.float8_e4m3fn).float()
