"""One product, again and again, whose result is known to the last bit: what comes out otherwise is wrong.

Operands come of a fixed seed, the kernel and its workspace are pinned (``PINNED``), and one stream uses them:
so each result has the same bits as the first one. Each tile of a result has a checksum of whole numbers that
does not depend on the order in which it is added up. Before a tile is called wrong, it is computed again
while nothing else works on the device.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import counts, verify
from gpuassay.measure.work.formats import FORMATS, operands, require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.measure.work.device import Device

# cuBLAS, "Results reproducibility": bits are the same where a stream has a workspace of its own. rocBLAS: no
# atomic additions, whose order is nobody's.
PINNED: Mapping[str, str] = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "ROCBLAS_DEFAULT_ATOMICS_MODE": "0"}
_SEED = 20261201
_TINY, _TINY_TILE, _TINY_RESULTS = 128, 32, 3  # on a processor, where figures show only that all of it works
_ALONE = 3
"""How often a suspect tile is computed again alone: what differs between these cannot be relied on."""
_TOLD = 8


class Products:
    """A product made ready: its operands, and results that go round through memory."""

    def __init__(self, name: str, args: Mapping[str, Any], device: Device) -> None:
        """Allocate. Raises UnsupportedError where the device has no such format."""
        import torch  # noqa: PLC0415 - torch is loaded only where it runs

        require(name, device)
        self.format, self.device = name, device
        self.side = int(args["side"]) if device.accelerator else _TINY
        self.tile = int(args["tile"]) if device.accelerator else _TINY_TILE
        self.flops = counts.gemm_flops(self.side, self.side, self.side)
        self._operands = operands(name, (self.side,) * 3, device, _SEED)
        kind = getattr(torch, FORMATS[name].result)
        one = self.side * self.side * kind.itemsize
        fit = int(float(args["memory"]) * device.free_memory()) // one
        count = max(2, min(fit, int(args["results"]))) if device.accelerator else _TINY_RESULTS
        self.results = [
            torch.empty(self.side, self.side, device=device.place, dtype=kind) for _ in range(count)
        ]
        self._known: Any = None
        self._given: Any = None

    def multiply(self, number: int) -> None:
        """Queue one product, into the result whose turn it is."""
        self._operands.multiply(self.results[number % len(self.results)])

    def learn(self) -> dict[str, Any]:
        """Compute every result alone, compare them with each other and a block with double precision.

        ``digest`` is what all devices of one kind have to agree on.
        """
        for number in range(len(self.results)):
            self.multiply(number)
        self.device.wait()
        self._known, self._given = self._sums(self.results[0]), self._operand_sums()
        alike = all(bool((self._sums(one) == self._known).all()) for one in self.results[1:])
        rows = verify.spread_over(self.side)
        block = self.results[0][rows][:, rows].float().cpu().double()
        found = verify.compare(*self._operands.block(rows, rows), block, verify.TOLERANCES[self.format])
        text = str(self._known.flatten().tolist())
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return {"digest": digest, "alike": alike, "wrong": found.wrong, "results": len(self.results)}

    def look(self, touched: Iterable[int]) -> dict[str, Any]:
        """Compare every tile of these results with what is known of it, and look into each suspect."""
        tiles, suspects = 0, list[tuple[int, int, int, int]]()
        for number in touched:
            sums = self._sums(self.results[number])
            tiles += sums.numel()
            for row, column in (sums != self._known).nonzero().tolist():
                suspects.append((number, row, column, int(sums[row, column])))
        told = [self._alone(*one) for one in suspects[:_TOLD]]
        return {"tiles": tiles, "wrong": len(suspects), **({"told": told} if told else {})}

    def _alone(self, number: int, row: int, column: int, found: int) -> dict[str, Any]:
        """Compute a suspect tile again, by the very same kernel, while nothing else works here."""
        known, again = int(self._known[row, column]), list[int]()
        for _ in range(_ALONE):
            self.results[number].zero_()
            self.multiply(number)
            self.device.wait()
            again.append(int(self._sums(self.results[number])[row, column]))
        kept = bool((self._operand_sums() == self._given).all())
        return {"format": self.format, "tile": [row, column], "result": number, "found": found} | {
            "known": known,
            "alone": again,
            "operands_kept": kept,
        }

    def flip(self, number: int) -> None:
        """Change one bit of a result: how a test shows that this is noticed."""
        import torch  # noqa: PLC0415

        kind = torch.int16 if self.results[number].itemsize == 2 else torch.int32  # noqa: PLR2004
        bits = self.results[number].view(kind)
        bits[self.side // 3, self.side // 2] ^= 1 << 4

    def _sums(self, result: Any) -> Any:
        """Give a checksum for each tile; each bit of it counts, and its place too."""
        import torch  # noqa: PLC0415

        kind = torch.int16 if result.itemsize == 2 else torch.int32  # noqa: PLR2004
        across, size = self.side // self.tile, self.tile
        bits = result.view(kind).to(torch.int64).view(across, size, across, size)
        places = torch.arange(1, size + 1, device=result.device, dtype=torch.int64)
        columns, rows = 2 * places + 1, (2 * places + 1) * 0x9E3779B1
        return ((bits * columns).sum(3) * rows[None, :, None]).sum(1)

    def _operand_sums(self) -> Any:
        """Give checksums of both operands: what changes them is memory, not arithmetic."""
        import torch  # noqa: PLC0415

        sides = (self._operands.left, self._operands.right)
        flat = [side.data.contiguous().view(torch.uint8).flatten() for side in sides]
        every = [torch.arange(one.numel(), device=one.device) % 65521 + 1 for one in flat]
        return torch.stack([(one.to(torch.int64) * by).sum() for one, by in zip(flat, every, strict=True)])
