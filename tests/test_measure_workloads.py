"""What ranks print becomes figures of GPUs; what cannot be relied on is unread, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement, read_recording
from gpuassay.facts import fleet
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.grading import ABSENT
from gpuassay.judge.site import undeclared
from gpuassay.judge.verdict import Verdict
from gpuassay.measure.collectives import Together
from gpuassay.measure.perftest import PortRun
from gpuassay.measure.ranks import join, tell
from gpuassay.measure.training import Trained
from gpuassay.measure.workloads import WORKLOADS
from recorded import build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.facts import Node

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
GEMM = CATALOG.measurements["gemm_bf16"]


@pytest.fixture(scope="module")
def node() -> Node:
    """Give a measured node."""
    return fleet(read_recording(build("hgx-b200-measured")), undeclared(CATALOG)).nodes[0]


@pytest.fixture(scope="module")
def printed() -> list[Item]:
    """Give what its ranks printed."""
    return list(read_measurement(build("hgx-b200-measured"), GEMM.name, ["gpu001"])["gpu001"].items)


def read(node: Node, items: Sequence[Item]) -> Sequence[Any]:
    """Read what ranks printed."""
    told = {node.name: [tell(item, f"m#{item.seq}") for item in items]}
    return WORKLOADS["gemm"].subjects([node], GEMM.args, told)


def changed(item: Item, change: Callable[[dict[str, Any]], object]) -> Item:
    """Give what a rank printed after a change of its document."""
    document = json.loads(item.out)
    change(document)
    return Item(item.id, item.seq, asked=item.asked, out=json.dumps(document).encode())


def test_a_figure_is_work_over_the_median_of_its_repeats(node: Node, printed: list[Item]) -> None:
    """Counted here again by hand, for the fastest shape, with its reference."""
    first = read(node, printed)[0]
    rows = json.loads(printed[0].out)["rows"]
    by_hand = max(row["flops"] / sorted(row["seconds"])[1] / 1e12 for row in rows)

    assert isinstance(first.tflops, Read)
    assert first.tflops.value == pytest.approx(by_hand)
    assert first.tflops.evidence == "m#" + str(printed[0].seq)
    assert first.where == "gpu001/gpu0"
    assert "NVIDIA B200" in first.models


def test_ranks_are_joined_to_gpus_by_address(node: Node, printed: list[Item]) -> None:
    """The order in which they answer, and their own numbers, mean nothing."""
    straight, mixed = read(node, printed), read(node, printed[::-1])

    assert [gpu.tflops for gpu in straight] == [gpu.tflops for gpu in mixed]


def test_a_gpu_whose_rank_died_says_so_and_the_others_stand(node: Node, printed: list[Item]) -> None:
    """Its reason is the rank's own, and no other GPU is given for it."""
    died = Item("gemm_bf16/3", 4, status="failed", why="ended with exit status -9", err="Killed\n")
    gpus = read(node, [*printed[:3], died, *printed[4:]])

    assert gpus[3].tflops == Unread("failed", "ended with exit status -9: Killed", "m#4")
    assert sum(isinstance(gpu.tflops, Read) for gpu in gpus) == 7


def test_a_node_that_was_too_busy_has_one_reason_for_all_gpus(node: Node) -> None:
    """Nothing was run there, and each GPU says why."""
    busy = Item("gemm_bf16/0", 1, status="failed", why="not run: its GPUs are in use by 2 processes")

    assert {gpu.tflops for gpu in read(node, [busy])} == {Unread("failed", busy.why, "m#1")}
    assert {gpu.wrong for gpu in read(node, [busy])} == {Unread("failed", busy.why, "m#1")}


def test_repeats_that_lie_too_far_apart_are_inconclusive(node: Node, printed: list[Item]) -> None:
    """Neither pass nor fail: an error; also where a slower shape would have been a figure."""

    def shake(document: dict[str, Any]) -> None:
        rows = sorted(document["rows"], key=lambda row: -row["flops"] / row["seconds"][1])
        rows[0]["seconds"][0] *= 1.08

    found = read(node, [changed(printed[0], shake), *printed[1:]])[0].tflops
    assert isinstance(found, Unread)
    assert "inconclusive" in found.why
    assert ABSENT[found.kind] is Verdict.ERROR


@pytest.mark.parametrize(
    "seconds",
    [[], [1.0], [1.0, 1.0], [0.0, 1.0, 1.0], [-1.0, 1.0, 1.0], [None] * 3, ["1"] * 3, [True] * 3, 1.0],
)
def test_times_that_cannot_be_are_no_figure(node: Node, printed: list[Item], seconds: object) -> None:
    """Too few, none, negative, or no numbers."""

    def replace(document: dict[str, Any]) -> None:
        for row in document["rows"]:
            row["seconds"] = seconds

    assert isinstance(read(node, [changed(printed[0], replace), *printed[1:]])[0].tflops, Unread)


def test_a_case_that_is_not_reported_is_missed(node: Node, printed: list[Item]) -> None:
    """A rank that leaves out the shape on which it is wrong does not get away with it."""
    gpu = read(node, [changed(printed[0], lambda document: document["rows"].pop()), *printed[1:]])[0]

    assert isinstance(gpu.wrong, Unread)
    assert gpu.wrong.why == "its rank did not report this case"


def test_what_a_processor_gave_is_no_figure_of_a_gpu(node: Node, printed: list[Item]) -> None:
    """A torch that sees no GPU falls back to tiny work on the processor, which must not be judged."""

    def processor(document: dict[str, Any]) -> None:
        document["device"] |= {"kind": "cpu", "address": ""}

    gpus = read(node, [changed(item, processor) for item in printed])
    assert all(isinstance(gpu.tflops, Unread) and "torch saw no GPU" in gpu.tflops.why for gpu in gpus)


def test_wrong_elements_add_up_before_and_under_the_load(node: Node, printed: list[Item]) -> None:
    """Over all shapes, also beside one that failed: what is proven wrong stays."""

    def damage(document: dict[str, Any]) -> None:
        document["rows"][0] |= {"wrong": 2, "changed": 3}
        document["rows"][1] |= {"status": "failed", "why": "RuntimeError: no more memory"}

    found = read(node, [changed(printed[0], damage), *printed[1:]])[0].wrong
    assert isinstance(found, Read)
    assert found.value == 5


def test_a_lower_power_limit_is_said_beside_the_figure(node: Node, printed: list[Item]) -> None:
    """It explains a low figure, and excuses nothing."""

    def cap(document: dict[str, Any]) -> None:
        for row in document["rows"]:
            row["samples"][0]["power_limit_w"] = 700

    found = read(node, [changed(printed[0], cap), *printed[1:]])[0].tflops
    assert isinstance(found, Read)
    assert found.note.endswith("power limit 700 W of 1000 W")


@given(st.binary(max_size=300))
def test_any_bytes_give_a_reason_or_a_document(output: bytes) -> None:
    """A rank may print anything before it dies."""
    found = tell(Item("x", 1, out=output), "m#1")
    assert found.unread is None or found.unread.why


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    )
)
def test_any_document_is_read_without_an_exception(content: object) -> None:
    """Whatever stands where rows, cases or samples should be is unread, and never a figure."""
    document = {"rows": content, "device": content, "versions": content}
    item = Item("x", 1, out=json.dumps(document).encode())
    bare = fleet(read_recording(build("cpu-vm")), undeclared(CATALOG)).nodes[0]
    for measurement in (one for one in CATALOG.measurements.values() if one.workload in WORKLOADS):
        told = {bare.name: [tell(item, "m#1")]}
        for gpu in WORKLOADS[measurement.workload].subjects([bare], measurement.args, told):
            assert all(isinstance(fact, Unread) for fact in figures(gpu))


def figures(gpu: Any) -> list[object]:
    """Give every figure that a check observes on a measured GPU, or on all that worked together."""
    if isinstance(gpu, Together):
        return together(gpu)
    if isinstance(gpu, Trained):
        of_node = ("tokens_per_s", "model_tflops", "step_spread", "finite", "loss_left")
        return [gpu.of_alone, *(getattr(node, name) for node in gpu.nodes for name in of_node)]
    if isinstance(gpu, PortRun):
        return [gpu.write_of_line, gpu.read_of_line, gpu.send_of_line, gpu.gpu_write_of_line, gpu.write_us]
    names = ("tflops", "wrong", "copy_gbps", "triad_gbps", "read_gbps", "gemv_of_triad", "held_share")
    stored = ("save_gbps", "load_gbps", "blocked_share", "wrong_anew", "lacking")
    waited = (
        "pip_seconds",
        "uv_seconds",
        "uv_first_seconds",
        "warm_seconds",
        "cold_seconds",
        "first_token_seconds",
    )
    found = [getattr(gpu, name) for name in (*names, *stored, *waited) if hasattr(gpu, name)]
    products = getattr(gpu, "products", ())
    return [*found, *(fact for one in products for fact in (one.of_dense, one.gbps, one.wrong))]


def together(job: Together) -> list[object]:
    """Give every figure of a job of collectives."""
    names = ("broken", "wrong", "sockets", "direct", "across_gbps", "across_of_line", "within_gbps")
    in_domain = ("all_reduce_gbps", "all_gather_gbps", "reduce_scatter_gbps", "all_to_all_gbps")
    found = [getattr(gpu, name) for gpu in job.gpus for name in (*names, *in_domain)]
    found += [point.busbw_gbps for point in job.points] + [group.of_smaller for group in job.grown]
    found += [one.of_line for one in job.leaving] + [one.through_cards for one in job.counted]
    return [*found, job.share_of([job])]


def test_a_node_without_gpus_has_the_processor_in_their_place() -> None:
    """So that tiny numbers can be shown somewhere."""
    bare = fleet(read_recording(build("cpu-vm")), undeclared(CATALOG)).nodes[0]
    assert [gpu for gpu, _ in join(bare, [])] == [None]


FIGURES = {"tflops": "bf16_sustained_tflops", "copy_gbps": "hbm_copy_gbps", "triad_gbps": "hbm_triad_gbps"}
CHECKS = [check for check in CATALOG.checks.values() if check.phase == "perf"]


@pytest.mark.parametrize("product", [one.name for one in CATALOG.accelerators.values()])
def test_each_public_healthy_figure_passes_its_own_limit(product: str) -> None:
    """And what is ten percent below it does not: the limits are about the figures that they refer to."""
    judged = 0
    for check in CHECKS:
        for limit in check.limits.values():
            figure = CATALOG.accelerators[product].figures.get(limit.of.name) if limit.of else None
            if (
                limit.of is None
                or limit.of.root != "accelerator"
                or figure is None
                or "rated" in limit.of.name
            ):
                continue
            value = float(figure.value)
            assert limit.grade(value, figure.value).verdict is Verdict.PASS
            assert limit.grade(0.899 * value, figure.value).verdict in (Verdict.FAIL, Verdict.WARN)
            assert len(figure.source) > 5
            judged += 1
    known = {"bf16_sustained_tflops", "host_link_gbps"} & CATALOG.accelerators[product].figures.keys()
    assert bool(judged) is bool(known)


@pytest.mark.parametrize(
    ("product", "check", "metric", "slowest"),
    [
        ("h200", "perf.gemm.bf16", "tflops", 745),  # the slowest of a healthy node, mamf-finder's page
        ("b200", "perf.gemm.bf16", "tflops", 1421),
        ("mi300x", "perf.gemm.fp32", "tflops", 94.1),  # AMD's pass marks
        ("mi300x", "perf.memory.bandwidth", "copy_gbps", 4177),
        ("mi300x", "perf.memory.bandwidth", "triad_gbps", 3885),
    ],
)
def test_the_slowest_healthy_gpu_that_is_public_does_not_fail(
    product: str, check: str, metric: str, slowest: float
) -> None:
    """A limit that fails a machine which others found healthy is a false alarm."""
    limit = CATALOG.checks[check].limits[metric]
    assert limit.of is not None
    reference = CATALOG.accelerators[product].figures[limit.of.name].value

    assert limit.grade(slowest, reference).verdict is not Verdict.FAIL
