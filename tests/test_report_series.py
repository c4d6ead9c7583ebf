"""Figures over time: kept by a check, thinned, drawn with what is out of order over the rest."""

from __future__ import annotations

from dataclasses import dataclass

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.observe import Observe
from gpuassay.report.series import MOST_POINTS, MOST_SUBJECTS, documents, pictures


@dataclass(frozen=True)
class Gpu:
    """A subject."""

    where: str
    node: str = "gpu001"
    models: tuple[str, ...] = ()


def shown(count: int, length: int) -> Observe:
    """Observe the power of many GPUs over a long time."""
    observe = Observe()
    for number in range(count):
        line = tuple((float(second), 900.0 + number) for second in range(length))
        observe.show(Gpu(f"gpu001/gpu{number}"), power_w=Read(line))
    return observe


def test_the_sick_are_kept_and_lines_are_thinned() -> None:
    """Of many subjects some are left out, never one that is out of order; a line keeps so many points."""
    kept = documents(shown(MOST_SUBJECTS + 9, 1000).series, frozenset({"gpu001/gpu40"}))
    assert len(kept) == MOST_SUBJECTS
    assert "gpu001/gpu40" in {one["where"] for one in kept}
    assert all(len(one["points"]) <= MOST_POINTS for one in kept)


def test_what_is_unread_is_left_out() -> None:
    """A device without telemetry has no line, and no place in the picture."""
    observe = Observe()
    observe.show(Gpu("gpu001/gpu0"), power_w=Unread("unsupported", "a processor"))
    assert documents(observe.series, frozenset()) == []


def test_a_picture_tells_who_is_out_of_order() -> None:
    """The line of a subject with a failing row is drawn apart, and named in words."""
    rows = [{"where": "gpu001/gpu1", "verdict": "fail"}]
    check = {"series": documents(shown(3, 10).series, frozenset()), "observations": rows}
    (picture,) = pictures({"checks": {"perf.gemm.bf16": check}})
    assert [place for place, _ in picture.sick] == ["gpu001/gpu1"]
    assert len(picture.lines) == 2
    assert "from 900 to 902 over 9 s" in picture.summary
