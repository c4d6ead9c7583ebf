"""Operations and bytes are counted by formula, and come to what a person gets by hand."""

from __future__ import annotations

import pytest

from gpuassay.measure.work import counts, grouped
from gpuassay.measure.work.formats import FORMATS


def test_a_product_of_two_by_three_by_four_by_hand() -> None:
    """Six elements, four multiplications and additions each; 8 + 12 read and 6 written, of 2 bytes."""
    assert counts.gemm_flops(2, 3, 4) == 48
    assert counts.gemm_bytes(2, 3, 4, 2, 2) == (8 + 12 + 6) * 2


def test_scales_of_blocks_are_read_too() -> None:
    """NVFP4 is half a byte an element and a byte for 16: 9 bytes for 16; MXFP8 is 33 bytes for 32."""
    assert counts.gemm_bytes(1, 16, 1, FORMATS["nvfp4"].operand, 2) == round(17 * 9 / 16 + 32)
    assert counts.gemm_bytes(32, 32, 32, FORMATS["mxfp8"].operand, 2) == 2 * 33 * 32 + 2048


def test_a_group_counts_its_real_rows_and_an_empty_one_reads_no_weights() -> None:
    """Rows 3, 0 and 1, N 2, K 5: 4 * 2 * 5 * 2 operations; 20 + 2 * 10 read, 8 written, of 2 bytes."""
    assert counts.grouped_flops([3, 0, 1], 2, 5) == 80
    assert counts.grouped_bytes([3, 0, 1], 2, 5, 2, 2) == (20 + 20 + 8) * 2


@pytest.mark.parametrize(("kernel", "arrays"), [("copy", 2), ("read", 1), ("triad", 3)])
def test_a_memory_kernel_counts_each_array_that_it_touches(kernel: str, arrays: int) -> None:
    """A copy reads and writes, a sum only reads, a triad reads two and writes one."""
    assert counts.stream_bytes(kernel, 1000, 4) == arrays * 4000


def prefill(**changes: object) -> list[dict[str, object]]:
    """Give the cases of DeepSeek V3 at EP 8 and 4,096 tokens, after changes of the arguments."""
    args = {
        "models": "deepseek_v3",
        "ep": "8",
        "tokens": "4096",
        "routing": "even",
        "least_m": 1,
        "most_m": 1e9,
        "format": "bfloat16",
        "library": "torch",
    }
    return grouped.cases({**args, **changes})


def test_a_layer_of_deepseek_v3_by_hand() -> None:
    """256 experts over 8 ranks are 32 groups; 4,096 tokens times top 8 are 32,768 rows, 1,024 a group."""
    dense, gate_up, down = prefill()

    assert dense["projection"] == "dense"
    assert (gate_up["groups"], gate_up["rows"], gate_up["n"], gate_up["k"]) == (32, 32768, 4096, 7168)
    assert (down["n"], down["k"]) == (7168, 2048)
    # 8,192 tokens: 3.85 and 1.92 TFLOP, as others have counted it.
    twice = [2 * case["rows"] * case["n"] * case["k"] * 2 / 1e12 for case in (gate_up, down)]  # type: ignore[operator]
    assert [round(one, 2) for one in twice] == [3.85, 1.92]


def test_the_experts_of_kimi_k3_work_in_half_its_width() -> None:
    """A helper that took the model's own width of 7,168 counted twice the operations."""
    _, gate_up, down = prefill(models="kimi_k3")

    assert (gate_up["n"], gate_up["k"], gate_up["groups"]) == (6144, 3584, 112)
    assert (down["n"], down["k"]) == (3584, 3072)


def test_cases_outside_the_bounds_are_left_out() -> None:
    """1,024 rows a group are within 1,000 and 2,000, and not within 2,000 and 3,000."""
    assert len(prefill(least_m=1000, most_m=2000)) == 3
    assert len(prefill(least_m=2000, most_m=3000)) == 1


@pytest.mark.parametrize("routing", ["even", "skewed", "gap"])
@pytest.mark.parametrize(("rows", "groups"), [(32768, 32), (7, 3), (1, 8), (640, 1)])
def test_rows_are_shared_out_whole_and_the_same_each_time(routing: str, rows: int, groups: int) -> None:
    """Nothing is lost, nothing is negative, and two runs compare."""
    shares = grouped.split(rows, groups, routing)

    assert sum(shares) == rows
    assert len(shares) == groups
    assert min(shares) >= 0
    assert shares == grouped.split(rows, groups, routing)


def test_routing_is_uneven_as_it_says() -> None:
    """A skewed router gives one group many times what another gets, and a gap leaves one without any."""
    even, skewed, gap = (grouped.split(32768, 32, routing) for routing in ("even", "skewed", "gap"))

    assert len(set(even)) > 16
    assert max(even) < 1.5 * min(even)
    assert max(skewed) > 20 * min(skewed)
    assert gap.count(0) == 1


def test_every_model_names_its_source_and_no_key_is_unknown() -> None:
    """A shape without a source is a guess."""
    keys = {"hidden", "intermediate", "experts", "top_k", "source"}
    for name, model in grouped.models().items():
        assert set(model) == keys, name
        assert len(model["source"]) > 20
        assert model["experts"] % 32 == 0, "it is shared out over 32 ranks"
