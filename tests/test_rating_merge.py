"""Which evidence of several runs is rated: whole gathers, the same hardware, each measurement's newest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.judge.services import Mount, Services
from gpuassay.judge.waivers import Replaced
from gpuassay.rating.merge import plan
from gpuassay.rating.source import Source, read_source
from gpuassay.rating.words import RatingError
from gpuassay.rating.write import write_merged
from rating import catalog
from recorded import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.rating.merge import Plan

DAY = datetime(2026, 11, 30, tzinfo=UTC)
PARTS = {"n1": frozenset({"A"}), "n2": frozenset({"B"})}
SWAP = Replaced("n2", "n2", "ticket 1")


def source(
    day: int,
    hardware: Mapping[str, frozenset[str]] = PARTS,
    measured: Mapping[str, frozenset[str]] | None = None,
    **other: object,
) -> Source:
    """Make a run of that day."""
    told: dict[str, object] = {
        "folder": Path(f"run{day}"),
        "digest": f"{day:064x}",
        "seal": "sealed",
        "clock": DAY + timedelta(days=day),
        "begin": DAY + timedelta(days=day),
        "target": "ssh",
        "cluster": "c",
        "synthetic": False,
        "hardware": hardware,
        "measured": measured or {},
        "services": Services(),
        **other,
    }
    return Source(**told)  # type: ignore[arg-type]


def on(*nodes: str) -> frozenset[str]:
    """Name the nodes of a measurement."""
    return frozenset(nodes)


def taken(found: Plan) -> dict[str, tuple[str, frozenset[str]]]:
    """Say from which run each measurement is taken, and on which nodes."""
    return {take.measurement: (str(take.source.folder), take.nodes) for take in found.takes}


def test_the_newest_of_each_measurement_is_taken() -> None:
    """Whatever the order: the gather is the newest, and each measurement is the newest there is of it."""
    old = source(1, measured={"gemm": on("n1", "n2"), "memory": on("n1", "n2"), "s3": on()})
    new = source(2, measured={"gemm": on("n1", "n2")})
    for found in (plan([old, new]), plan([new, old, old])):
        assert found.base is new
        assert len(found.sources) == 2
        assert taken(found) == {
            "gemm": ("run2", on("n1", "n2")),
            "memory": ("run1", on("n1", "n2")),
            "s3": ("run1", on()),
        }


@given(st.permutations(range(5)), st.data())
def test_no_order_of_runs_matters(order: list[int], data: st.DataObject) -> None:
    """The same runs in any order, some of them named twice, give the same plan."""
    names = st.sampled_from(["a", "b", "c"])
    runs = [
        source(day % 3, measured=dict.fromkeys(data.draw(st.sets(names)), on("n1")), digest=f"{day:064x}")
        for day in range(5)
    ]
    assert plan([runs[n] for n in order]) == plan([*runs, runs[order[0]]])


def test_a_run_of_a_subset_does_not_merge() -> None:
    """It is named with its nodes, whichever of the two is the newer one."""
    part = {"n1": PARTS["n1"]}
    for runs in ([source(1, part), source(2)], [source(1), source(2, part)]):
        with pytest.raises(RatingError, match=r"subset.*n2 only in run"):
            plan(runs)


def test_another_cluster_does_not_merge() -> None:
    """Also where its nodes go by the same names."""
    with pytest.raises(RatingError, match="of cluster d"):
        plan([source(1, cluster="d"), source(2)])


def test_an_exchanged_node_needs_a_record() -> None:
    """Without one it is refused; with one what was measured on it counts no longer, the others' does."""
    old = source(1, measured={"gemm": on("n1", "n2"), "alone": on("n2")})
    new = source(2, {**PARTS, "n2": frozenset({"C"})})
    with pytest.raises(RatingError, match=r"n2 has other parts.*--replaced 'n2=n2:REASON'"):
        plan([old, new])
    found = plan([old, new], [SWAP])
    assert taken(found) == {"gemm": ("run1", on("n1"))}
    assert found.takes[0].left_out == {"n2": "n2 was replaced since: ticket 1"}
    assert [(name, why) for name, _, why in found.refused] == [("alone", "n2 was replaced since: ticket 1")]


def test_a_node_that_was_set_up_anew() -> None:
    """With its name it needs no record; with another one it does, and the message has it ready."""
    renamed = {"n1": PARTS["n1"], "n7": PARTS["n2"]}
    old, new = source(1, measured={"gemm": on("n1", "n2")}), source(2, renamed)
    with pytest.raises(RatingError, match="n7 has the parts of n2: --replaced 'n2=n7:REASON'"):
        plan([old, new])
    found = plan([old, new], [Replaced("n2", "n7", "reinstalled")])
    assert taken(found) == {"gemm": ("run1", on("n1"))}
    assert taken(plan([old, source(2)], [Replaced("n1", "n1", "reinstalled")]))["gemm"][1] == on("n1", "n2")


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (Replaced("n9", "n1", "x"), "no run has a node n9"),
        (Replaced("n1", "n9", "x"), "has no node n9"),
    ],
)
def test_a_record_about_nothing_is_refused(record: Replaced, why: str) -> None:
    """A slip of the pen must not excuse another node; nor may two records speak of one."""
    with pytest.raises(RatingError, match=why):
        plan([source(1), source(2)], [record])
    with pytest.raises(RatingError, match="two records"):
        plan([source(1), source(2)], [SWAP, Replaced("n2", "n2", "another")])


def test_what_cannot_be_known_again_does_not_count() -> None:
    """A node that was silent in one run is not refused, and its old measurement is left out."""
    old = source(1, {**PARTS, "n2": frozenset()}, {"gemm": on("n1", "n2")})
    found = plan([old, source(2)])
    assert taken(found) == {"gemm": ("run1", on("n1"))}
    assert "not known again" in found.takes[0].left_out["n2"]


def test_another_service_is_not_the_same_measurement() -> None:
    """What was asked of a store counts only while the same one is declared."""
    old = source(1, measured={"s3": on()}, services=Services(mounts=(Mount("/home", "home", shared=True),)))
    found = plan([old, source(2)])
    assert found.takes == ()
    assert "other services" in found.refused[0][2]


def test_hardware_is_read_from_a_recording() -> None:
    """GPUs by their UUIDs, all of them; a machine without any GPU or card of a known kind has no identity."""
    read = read_source(build("hgx-b200-measured"), catalog())
    assert {name: len(parts) for name, parts in read.hardware.items()} == {"gpu001": 8, "gpu002": 8}
    assert read.measured["gemm_bf16"] == on("gpu001", "gpu002")
    assert read.measured["inference"] == on()
    lost = read_source(build("gpu-lost"), catalog())
    assert sorted(len(parts) for parts in lost.hardware.values()) == [0, 8, 8, 8]


def test_a_merge_of_what_is_not_sealed_is_not_sealed(tmp_path: Path) -> None:
    """Nothing becomes trustworthy by being copied."""
    sound = read_source(build("hgx-b200-measured"), catalog())
    damaged = read_source(build("recording-damaged"), catalog())
    assert damaged.seal == "altered"
    for name, read in (("a", sound), ("b", damaged)):
        write_merged(plan([read]), tmp_path / name)
    assert (tmp_path / "a" / "SHA256SUMS").is_file()
    assert not (tmp_path / "b" / "SHA256SUMS").exists()
    assert read_source(tmp_path / "a", catalog()).digest == sound.digest
