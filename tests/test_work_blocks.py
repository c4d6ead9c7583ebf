"""MXFP8 and NVFP4 on this processor: values rounded, scales laid out, products by a stand-in for a chip."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from gpuassay.measure.work import blocks, case, device, experts, formats, gemm, grouped, verify
from gpuassay.measure.work.blocks import Blocks
from gpuassay.measure.work.meeting import Meeting
from gpuassay.measure.work.timing import TINY

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
functional = torch.nn.functional

CPU = device.Device("cpu", "cpu", "a processor")
NAMES = sorted(blocks.SIZES)
EXPERTS = {
    "library": "torch",
    "projection": "gate_up",
    "n": 64,
    "k": 64,
    "rows": 50,
    "groups": 4,
    "routing": "gap",
}


def normal(*shape: int, seed: int = 1) -> Any:
    """Make normal values."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_rounding_is_as_exact_as_its_bits(name: str, size: float) -> None:
    """Of any size: within half a step of its element, where the scale of its block puts the largest."""
    values = normal(64, 256) * size
    read = blocks.quantise(values, name).double()
    largest = values.double().unflatten(-1, (-1, blocks.SIZES[name])).abs().amax(-1)
    room = largest.repeat_interleave(blocks.SIZES[name], -1)
    # E4M3: half a step is 2^-4 of a value, and what is cut off at 448 of 512 is 2^-3. E2M1: steps of 2 below
    # 6, the largest; its scale has three bits too, which is 2^-4 of all, and no steps below 2^-9.
    bound = {
        "mxfp8": values.double().abs() * 2**-4
        + room * 2**-17
        + (values.double().abs() > room * 0.87) * room / 8,
        "nvfp4": room * (1 / 6 + 2**-4) + 6 * 2**-10,
    }[name]
    assert bool(((read - values.double()).abs() <= bound).all())


def test_a_shared_exponent_is_that_of_the_largest_value() -> None:
    """By the MX specification: floor(log2(largest)) less 8, the largest exponent of E4M3; 0 is read as 0."""
    values = torch.zeros(1, 128)
    values[0, 5], values[0, 40], values[0, 70] = 1.0, -300.0, 2.0**-20
    made = blocks.quantise(values, "mxfp8")

    assert [int(one) - 127 for one in made.scales[0]][:3] == [0 - 8, 8 - 8, -20 - 8]
    # 300 has two neighbours in steps of 32: 288 and 320.
    assert made.double()[0, [5, 40, 70, 100]].tolist() == [1.0, -288.0, 2.0**-20, 0.0]


def test_a_block_of_four_bits_is_read_by_hand() -> None:
    """The largest becomes 6 times its scale, others the nearest of eight; two to a byte, the even low."""
    values = torch.tensor([[6.0, -3.0, 0.4, 0.0, 1.6, -0.1] + [0.0] * 10]) * 0.5
    made = blocks.quantise(values, "nvfp4")

    assert made.scales.view(torch.float8_e4m3fn).float().tolist() == [[0.5]]
    assert made.data[0, :3].tolist() == [0x7 | 0xD << 4, 0x1 | 0x0 << 4, 0x3 | 0x8 << 4]
    assert made.double()[0, :6].tolist() == [3.0, -1.5, 0.25, 0.0, 0.75, 0.0]


def test_four_bit_values_survive_packing() -> None:
    """Reading gives what was packed, for each of the sixteen values."""
    exact = torch.tensor([[0.5, -1.0, 6.0, -6.0, 0.0, 3.0, 1.5, -2.0, 4.0, -0.5]])

    assert blocks.unpack_fp4(blocks.pack_fp4(exact)).tolist() == exact.double().tolist()


def place(row: int, block: int, across: int) -> int:
    """Tell where a scale lies, by the formula of cuBLAS's documentation, ``across`` tiles wide."""
    tile = row // 128 * across + block // 4
    return 512 * tile + (row % 32) * 16 + row % 128 // 32 * 4 + block % 4


@pytest.mark.parametrize(("rows", "count"), [(128, 4), (200, 6), (1, 1), (300, 9)])
def test_tiles_of_scales_are_as_documented(rows: int, count: int) -> None:
    """Each scale lies where cuBLAS says, whole tiles have room, and the room is empty."""
    made = blocks.quantise(normal(rows, 32 * count), "mxfp8")
    laid = blocks.lay_out(made, tiled=True).laid.view(torch.uint8)
    across = -(-count // 4)

    assert laid.numel() == 128 * 4 * across * -(-rows // 128)
    places = [place(row, block, across) for row in range(rows) for block in range(count)]
    assert torch.equal(laid[places], made.scales.flatten())
    laid[places] = 0
    assert not laid.any()


def untiled(laid: Any, rows: int, count: int) -> Any:
    """Read scales back from their tiles, as a chip does."""
    across = -(-count // 4)
    where = [[place(row, block, across) for block in range(count)] for row in range(rows)]
    return laid.flatten()[torch.tensor(where)]


def read(values: Any, laid: Any) -> Any:
    """Read operands as a chip does: the bytes of its rows, and the scales from their tiles alone."""
    data = values.contiguous().view(torch.uint8)
    name = "nvfp4" if values.dtype == torch.float4_e2m1fn_x2 else "mxfp8"
    size = blocks.SIZES[name]
    count = data.shape[-1] * (2 if name == "nvfp4" else 1) // size
    return Blocks(name, data, untiled(laid.view(torch.uint8), data.shape[0], count)).double()


def chip_dense(left: Any, right: Any, first: Any, second: Any, **how: Any) -> Any:
    """Multiply as Blackwell does: both operands with the scales of their tiles."""
    result = (read(left, first) @ read(right.t(), second).T).to(torch.bfloat16)
    return how["out"].copy_(result) if "out" in how else result


def chip_grouped(left: Any, right: Any, **how: Any) -> Any:
    """Multiply group by group: a group's scales begin with a tile of its own."""
    ends = [0, *how["offs"].tolist()]
    laid, parts, begin = how["scale_a"][0].view(torch.uint8), [], 0
    for group, (first, last) in enumerate(pairwise(ends)):
        room = -(-(last - first) // 128) * 128
        own = (
            read(left[first:last], laid[begin : begin + room])
            if last > first
            else torch.empty(0, 64).double()
        )
        weights = read(right[group].t(), how["scale_b"][0][group])
        parts.append(own @ weights.T)
        begin += room
    assert begin == len(laid)
    return torch.cat(parts).to(how["output_dtype"])


def supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this processor have the formats, by a stand-in for what a chip does."""
    monkeypatch.setattr(formats, "_cpu_lacks", lambda *_: "")
    monkeypatch.setattr(torch, "_scaled_mm", chip_dense)
    monkeypatch.setattr(functional, "scaled_grouped_mm", chip_grouped)


def row(prepare: Any, one: dict[str, Any]) -> dict[str, Any]:
    """Measure a case here."""
    return case.measure(prepare, one, CPU, TINY, Meeting({}))


@pytest.mark.parametrize("name", NAMES)
def test_a_dense_product_is_right_with_scales_where_a_chip_reads_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against double precision, of the very operands."""
    supported(monkeypatch)
    found = row(gemm.prepare, {"format": name, "m": 96, "n": 64, "k": 64})

    assert (found["status"], found["wrong"], found["changed"]) == ("ok", 0, 0), found
    assert found["via"] == "torch._scaled_mm"


@pytest.mark.parametrize("name", NAMES)
def test_a_grouped_product_is_right_with_an_empty_group(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are padded to 32 rows, only real rows count, and the dense yardstick goes the same way."""
    supported(monkeypatch)
    found = row(grouped.prepare, {"format": name, **EXPERTS})
    dense = row(grouped.prepare, {"format": name, **EXPERTS, "groups": 1, "routing": "even"})

    assert (found["status"], found["wrong"], found["changed"]) == ("ok", 0, 0), found
    assert found["via"] == "torch.nn.functional.scaled_grouped_mm"
    assert (found["flops"], found["sizes"]["rows"]) == (2 * 50 * 64 * 64, 50)
    assert found["sizes"]["padded_rows"] % 32 == 0
    assert (dense["status"], dense["wrong"], dense["via"]) == ("ok", 0, "torch._scaled_mm"), dense


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", ["row by row", "one", "another group's"])
def test_scales_that_are_read_otherwise_give_wrong_elements(
    name: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chip that reads another layout than we write, no scales at all, or those of another expert."""
    supported(monkeypatch)

    def chip(left: Any, right: Any, **how: Any) -> Any:
        (laid, *whole), (other, *more) = how["scale_a"], how["scale_b"]
        if wrong == "row by row":
            laid = laid.view(torch.uint8).view(-1, 32, 4, laid.shape[-1]).transpose(1, 2).reshape(laid.shape)
        elif wrong == "one":
            laid = torch.full(laid.shape, 127 if name == "mxfp8" else 0x38, dtype=torch.uint8)
        else:
            other = other.view(torch.uint8).roll(1, 0)
        return chip_grouped(left, right, **{**how, "scale_a": [laid, *whole], "scale_b": [other, *more]})

    monkeypatch.setattr(functional, "scaled_grouped_mm", chip)
    assert row(grouped.prepare, {"format": name, **EXPERTS})["wrong"] > 100


@pytest.mark.parametrize("name", NAMES)
def test_what_this_torch_has_not_is_unsupported_with_its_words(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a processor torch's own call refuses, and an older torch has none: said, and never a figure."""
    monkeypatch.setattr(formats, "_cpu_lacks", lambda *_: "")
    found = row(grouped.prepare, {"format": name, **EXPERTS})
    assert found["status"] == "unsupported", found
    assert found["why"].startswith("torch.nn.functional.scaled_grouped_mm: ")

    monkeypatch.delattr(functional, "scaled_grouped_mm")
    with pytest.raises(formats.UnsupportedError, match="has no grouped product with scales of blocks"):
        experts.choose(name, "torch", [8, 8], (64, 64), CPU)


@pytest.mark.parametrize("name", NAMES)
def test_the_tolerance_is_what_cutting_off_each_step_explains(name: str) -> None:
    """Sums of 14 bits, cut off after each step of the longest row that we multiply, lie within it."""
    tolerance = verify.TOLERANCES[name]
    made = blocks.quantise(normal(16, verify.LONGEST), name).double()
    steps = (made[:8, None] * made[None, 8:]).unflatten(-1, (-1, verify.STEPS[name])).sum(-1)
    total = torch.zeros(8, 8, dtype=torch.float64)
    for step in steps.unbind(-1):
        total += step
        unit = torch.exp2(torch.floor(torch.log2(total.abs().clamp_min(1e-9))) - verify.SUM_BITS + 1)
        total = torch.trunc(total / unit) * unit
    found = verify.compare(made[:8], made[8:], total, tolerance)
    assert found.wrong == 0
    assert 0 < found.worst < tolerance.inside


def test_amd_reads_scales_row_by_row() -> None:
    """Its chips have no tiles: the same scales, with room for whole ones."""
    made = blocks.lay_out(blocks.quantise(normal(96, 96), "mxfp8"), tiled=False)
    padded = made.laid.view(torch.uint8).view(128, 4)

    assert torch.equal(padded[:96, :3], made.scales)
    assert not padded[96:].any()
    assert math.prod(padded.shape) == made.laid.numel()
