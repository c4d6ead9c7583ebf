"""The kernels for real, on this processor: what is right is right, and what is wrong is seen."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.measure.work import case, device, experts, formats, gemm, grouped, memory, verify
from gpuassay.measure.work.meeting import Meeting
from gpuassay.measure.work.timing import TINY

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = device.Device("cpu", "cpu", "a processor")
SHAPE = {"m": 96, "n": 64, "k": 80}
GROUPED = {
    "format": "bfloat16",
    "library": "torch",
    "projection": "gate_up",
    "n": 64,
    "k": 48,
    "rows": 50,
    "groups": 4,
    "routing": "gap",
}
FP8 = {**GROUPED, "format": "float8_e4m3"}


def row(prepare: Any, one: dict[str, Any]) -> dict[str, Any]:
    """Measure a case here."""
    return case.measure(prepare, one, CPU, TINY, Meeting({}))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float8_e4m3"])
def test_a_product_in_each_format_of_a_processor(name: str) -> None:
    """It runs, is right, is counted by its real size, and says by which call."""
    found = row(gemm.prepare, {"format": name, **SHAPE})

    assert (found["status"], found["wrong"], found["changed"]) == ("ok", 0, 0), found
    assert found["flops"] == 2 * 96 * 64 * 80
    assert found["checked"] == 1024
    assert len(found["seconds"]) == 3
    assert all(0 < seconds < math.inf for seconds in found["seconds"])
    assert found["via"] == ("torch._scaled_mm" if name == "float8_e4m3" else "torch.mm")


@pytest.mark.parametrize("name", ["tf32", "mxfp8", "nvfp4"])
def test_what_a_processor_lacks_is_unsupported_and_not_zero(name: str) -> None:
    """There is a reason, and no figure."""
    found = row(gemm.prepare, {"format": name, **SHAPE})

    assert found["status"] == "unsupported"
    assert name in found["why"]
    assert not {"seconds", "flops", "wrong"} & set(found)


@pytest.mark.parametrize("kernel", ["copy", "read", "triad", "gemv"])
def test_each_memory_kernel(kernel: str) -> None:
    """It runs, is right, and counts its bytes."""
    found = row(memory.prepare, {"kernel": kernel, "side": 16384})

    assert (found["status"], found["wrong"], found["changed"]) == ("ok", 0, 0), found
    assert found["bytes"] > 0


def test_a_grouped_product_with_an_empty_group() -> None:
    """Every group that has rows is compared, and the empty one does no harm."""
    found = row(grouped.prepare, GROUPED)

    assert (found["status"], found["wrong"], found["changed"]) == ("ok", 0, 0), found
    assert found["flops"] == 2 * 50 * 64 * 48
    assert found["via"] == "torch._grouped_mm"


def test_a_loop_stands_in_where_torch_has_no_grouped_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives the same result, and says that it is another method."""
    monkeypatch.delattr(torch, "_grouped_mm")
    found = row(grouped.prepare, GROUPED)

    assert (found["status"], found["wrong"]) == ("ok", 0), found
    assert found["via"] == "a loop of torch.mm"


def test_a_grouped_product_in_fp8_that_torch_has_not_is_unsupported() -> None:
    """It is said by which call, and there is no figure; its dense yardstick is there."""
    found = row(grouped.prepare, FP8)
    dense = row(grouped.prepare, {**FP8, "groups": 1, "projection": "dense", "routing": "even"})

    assert found["status"] == "unsupported", found
    assert found["why"].startswith("torch._scaled_grouped_mm: ")
    assert not {"seconds", "flops", "wrong"} & set(found)
    assert (dense["status"], dense["wrong"], dense["via"]) == ("ok", 0, "torch._scaled_mm"), dense


def stand_in(left: Any, right: Any, *_scales: Any, offs: Any, out_dtype: Any) -> Any:
    """Multiply as torch does on a chip that has the call: each group's rows with its own weights."""
    ends = [0, *offs.tolist()]
    parts = [left[a:b].float() @ right[group].float() for group, (a, b) in enumerate(pairwise(ends))]
    return torch.cat(parts).to(out_dtype)


def test_a_grouped_product_in_fp8_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the chip's call it is right, and one that takes another expert's weights is not."""
    monkeypatch.setattr(torch, "_scaled_grouped_mm", stand_in)
    found = row(grouped.prepare, FP8)
    assert (found["status"], found["wrong"], found["changed"]) == ("ok", 0, 0), found
    assert found["flops"] == 2 * 50 * 64 * 48

    monkeypatch.setattr(
        torch,
        "_scaled_grouped_mm",
        lambda left, right, *rest, **how: stand_in(left, right.flip(0), *rest, **how),
    )
    assert row(grouped.prepare, FP8)["wrong"] > 100


def test_deep_gemm_that_is_not_built_is_unsupported_with_how_to_get_it() -> None:
    """On a chip that it is for; on a processor it is no matter of building."""
    hopper = replace(CPU, kind="cuda", capability="9.0")
    with pytest.raises(formats.UnsupportedError, match="deepseek-ai/DeepGEMM"):
        experts.choose("float8_e4m3", "deep_gemm", [8, 8], (256, 256), hopper)
    found = row(grouped.prepare, {**FP8, "library": "deep_gemm"})
    assert (found["status"], found["why"]) == (
        "unsupported",
        "DeepGEMM needs a GPU of NVIDIA with compute capability 9.0 or more",
    )


def test_deep_gemm_is_given_padded_groups_and_only_real_rows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in of the library: each real row meets its own expert, rows of padding meet none."""

    def multiply(left: Any, weights: Any, out: Any, groups: Any) -> None:
        assert (left[1].shape, weights[1].shape) == ((384, 2), (3, 3, 2))
        for at, group in enumerate(groups.tolist()):
            out[at] = left[0][at].float() @ weights[0][group].float().T if group >= 0 else math.nan

    library = SimpleNamespace(m_grouped_fp8_gemm_nt_contiguous=multiply)
    monkeypatch.setitem(sys.modules, "deep_gemm", library)
    experts.library.cache_clear()
    rows, hopper = [100, 0, 130], replace(CPU, kind="cuda", capability="9.0")
    call = experts.choose("float8_e4m3", "deep_gemm", rows, (384, 256), hopper)
    experts.library.cache_clear()
    experts.forget()
    left, weights = (
        torch.randn(*shape).to(torch.float8_e4m3fn) for shape in ((call.total, 256), (3, 384, 256))
    )
    result = call.unpadded(call.run(left, weights))
    expected = torch.cat(
        [left[:100].float() @ weights[0].float().T, left[128:258].float() @ weights[2].float().T]
    )

    assert call.total == 128 + 256
    assert torch.allclose(result.float(), expected, rtol=0.02, atol=0.1)


def test_a_case_that_raises_is_a_row_and_the_others_go_on() -> None:
    """The reason is the first line of what torch said."""
    found = row(gemm.prepare, {"format": "float32", "m": -1, "n": 1, "k": 1})

    assert found["status"] == "failed"
    assert "RuntimeError" in found["why"]


def block(name: str = "bfloat16") -> tuple[Any, Any, Any, Callable[[Any], verify.Check]]:
    """Give operands and their product in a format, and what compares a result with them."""
    made = formats.operands(name, (32, 32, 512), CPU, 1)
    left, right = made.block(list(range(32)), list(range(32)))
    out = torch.empty(32, 32, dtype=getattr(torch, formats.FORMATS[name].result))
    made.multiply(out)
    result = out.float().double()
    return left, right, result, lambda one: verify.compare(left, right, one, verify.TOLERANCES[name])


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float8_e4m3"])
@pytest.mark.parametrize("damage", [math.nan, math.inf, -math.inf, 0.0, 40.0])
def test_one_wrong_element_is_counted(name: str, damage: float) -> None:
    """A NaN, an infinity, a lost and a shifted value: one among 1,024 is one wrong element."""
    _, _, result, compare = block(name)
    assert compare(result).wrong == 0

    largest = int(result.abs().argmax())
    result.view(-1)[largest] = damage if damage != 40.0 else result.view(-1)[largest] + 40.0
    assert compare(result).wrong == 1


def test_operands_of_another_row_are_all_wrong() -> None:
    """A kernel that reads the wrong operands is not merely inexact."""
    _, _, result, compare = block()

    assert compare(result.roll(1, dims=0)).wrong > 900


def test_float32_with_the_precision_of_tf32_is_wrong() -> None:
    """A library that quietly computes in a shorter format does not pass for float32."""
    left, right, _, compare = block("float32")
    short = left.float().bfloat16().double() @ right.float().bfloat16().double().T

    assert compare(short).wrong > 0


def test_tf32_that_did_not_take_effect_is_refused() -> None:
    """The figure would be that of another format."""
    with pytest.raises(RuntimeError, match="TF32 did not take effect"):
        gemm._proven("tf32", verify.Check(1024, 0, 2**-20))  # noqa: SLF001 - needs a GPU to come about


def test_what_changes_under_load_is_counted() -> None:
    """The same operands must give the same result after minutes at full power."""
    before = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)) * 8
    after = before.clone()
    after[3, 5] += 30.0
    after[9, 9] = math.nan

    assert verify.changed(before, before.clone(), verify.TOLERANCES["bfloat16"], 64) == 0
    assert verify.changed(before, after, verify.TOLERANCES["bfloat16"], 64) == 2


def test_operands_are_seeded_and_normal() -> None:
    """Two runs multiply the same numbers, two sets do not, and they toggle bits as real ones do."""
    one, same, other = (formats.operands("float32", (64, 64, 64), CPU, seed).left for seed in (1, 1, 2))

    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert abs(float(one.mean())) < 0.05
    assert abs(float(one.std()) - 1) < 0.05


@pytest.mark.parametrize(
    ("kind", "capability", "name", "lacks"),
    [
        ("cuda", "8.0", "float8_e4m3", True),
        ("cuda", "9.0", "float8_e4m3", False),
        ("cuda", "9.0", "mxfp8", True),
        ("cuda", "10.0", "nvfp4", False),
        ("cuda", "12.0", "nvfp4", False),
        ("cuda", "7.5", "tf32", True),
        ("rocm", "gfx942", "float8_e4m3", False),
        ("rocm", "gfx942", "mxfp8", True),
        ("rocm", "gfx950", "mxfp8", False),
        ("rocm", "gfx950", "nvfp4", True),
        ("rocm", "gfx90a", "float8_e4m3", True),
    ],
)
def test_what_a_chip_has_is_known_by_its_capability(
    kind: str, capability: str, name: str, *, lacks: bool
) -> None:
    """A format that a chip does not have is said before anything is tried."""
    chip = replace(CPU, kind=kind, capability=capability)
    try:
        formats.require(name, chip)
    except formats.UnsupportedError:
        assert lacks
    else:
        assert not lacks


def test_sets_of_operands_outgrow_every_cache() -> None:
    """A set larger than the cache is alone; small ones are as many as it takes, as far as memory goes."""
    assert case.copies(2 * CPU.flush, CPU) == 1
    assert case.copies(CPU.flush // 4, CPU) == 4
    gpu = replace(CPU, cache=600 << 20, kind="rocm")
    assert gpu.flush == 1200 << 20
    assert replace(CPU, kind="rocm").flush == 512 << 20
