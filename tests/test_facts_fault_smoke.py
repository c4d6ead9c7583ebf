"""The load on a node that serves again: what passes, what says that it is none, what says nothing of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.breaking import _not_whole
from gpuassay.evidence.item import Item
from gpuassay.facts.fault_smoke import SMOKE, passed
from gpuassay.facts.fault_story import stories
from gpuassay.facts.fault_trial import FaultTrial, trials
from gpuassay.fault.smoke import Smoke
from gpuassay.judge.fact import Read, Unread
from gpuassay.target import Job, TargetError
from recorded import faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.judge.fact import Fact
    from gpuassay.target import Results

RIGHT = list(faults.loads("gpu1", 2))


def said(items: Sequence[Item]) -> Fact[bool]:
    """Read what came of the load."""
    return passed([(item, f"#{number}") for number, item in enumerate(items)])


def told(**changes: Any) -> Item:
    """Give what the second rank told, with something changed in its only row."""
    document = json.loads(RIGHT[1].out)
    document["rows"][0] |= changes
    return replace(RIGHT[1], out=json.dumps(document).encode())


def document(**changes: Any) -> Item:
    """Give what the second rank told, with something changed in its document."""
    return replace(RIGHT[1], out=json.dumps(json.loads(RIGHT[1].out) | changes).encode())


def lost(status: Any, why: str, out: bytes = b"") -> Item:
    """Give what is known of a second rank that has not ended well."""
    return replace(RIGHT[1], status=status, why=why, out=out)


def test_a_load_that_is_right_everywhere_passes() -> None:
    """It is said what ran, and on how many GPUs."""
    found = said(RIGHT)
    assert isinstance(found, Read)
    assert found.value is True
    assert found.note == "the load was right, bfloat16 4096x4096x4096 on 2 GPUs"


@pytest.mark.parametrize(
    ("second", "note"),
    [
        (told(wrong=3), "rank 1 of the load computed wrong numbers: 3 of 1024 elements were wrong"),
        (told(changed=5), "rank 1 of the load computed wrong numbers: .*, 5 changed under it"),
        (told(status="failed", why="AcceleratorError: CUDA error"), "did not run: AcceleratorError: CUDA"),
        (document(failed="IndexError: torch sees 1"), "rank 1 of the load did not run: IndexError"),
        (lost("failed", "ended with exit status -9"), "rank 1 of the load did not run: ended with exit"),
        (lost("timed_out", "was not over after 300 s"), "did not run: was not over after 300 s"),
    ],
)
def test_one_gpu_that_is_wrong_or_ends_with_an_error_decides(second: Item, note: str) -> None:
    """The others being right, or unknown, the load has failed, and it is said on which rank and how."""
    found = said([RIGHT[0], second])
    assert isinstance(found, Read)
    assert found.value is False
    assert re.search(note, found.note), found.note
    unknown = replace(RIGHT[0], status="denied", out=b"", why="busy")
    assert isinstance(said([unknown, second]), Read)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (document(failed="ModuleNotFoundError: No module named 'torch'"), "torch is missing there"),
        (document(device={"kind": "cpu"}), "no load was run on its GPUs: torch 2.13.0 saw none"),
        (told(status="unsupported", why="no bfloat16"), "no bfloat16"),
        (told(checked=0), "compared nothing"),
        (told(wrong="none"), "wrong"),
        (document(rows=[]), "reports nothing"),
        (lost("denied", "Slurm gave no nodes"), "was given no place: Slurm gave no nodes"),
        (lost("failed", "the launcher was not started: no image is named"), "no image is named"),
    ],
)
def test_what_says_nothing_of_the_node_is_unknown(second: Item, why: str) -> None:
    """Neither a pass nor the node's fail, and the reason is said."""
    found = said([RIGHT[0], second])
    assert isinstance(found, Unread)
    assert why in found.why


def test_a_rank_of_which_nothing_is_known_is_no_pass() -> None:
    """The load of which a rank is lacking, or all, is not known."""
    assert isinstance(said(RIGHT[:1]), Unread)
    assert isinstance(said([]), Unread)


def trial(change: Callable[[Item], Item | None]) -> FaultTrial:
    """Give the recorded trial of a frozen slurmd, with items changed or left out."""
    items = [
        item for item in faults.on_slurm(["gpu1", "gpu2"]) if item.id.startswith("survey/frozen_slurmd/")
    ]
    named = [replace(item, id=item.id.removeprefix("survey/frozen_slurmd/")) for item in items]
    kept = [one for item in named if (one := change(item))]
    (found,) = trials([(item, f"#{number}") for number, item in enumerate(kept)])
    return found


def test_a_node_is_replaced_once_the_load_was_right() -> None:
    """The time is when it was let in, and the story tells of the load."""
    found = trial(lambda item: item)
    assert isinstance(found.replaced, Read)
    assert found.replaced.value is True
    assert isinstance(found.replace_s, Read)
    assert _not_whole(found) == ""
    words = [event["words"] for event in stories([found])[0]["events"]]
    assert "a load is put on the node that serves now: rank 7 of the load was right" in words


def test_a_node_that_computes_wrong_numbers_replaces_none() -> None:
    """It was let in, and is no replacement; and nothing more is broken."""
    wrong = told(wrong=3).out
    found = trial(lambda item: replace(item, out=wrong) if item.id == SMOKE else item)
    assert isinstance(found.replaced, Read)
    assert found.replaced.value is False
    assert "computed wrong numbers" in found.replaced.note
    assert isinstance(found.replace_s, Unread)
    assert "computed wrong numbers" in _not_whole(found)


def test_a_node_on_which_no_load_was_run_is_not_known_to_replace() -> None:
    """A trial that was cut before claims no pass; one that had no load to run says what it saw."""
    found = trial(lambda item: None if item.id == SMOKE else item)
    assert isinstance(found.replaced, Unread)
    assert isinstance(found.replace_s, Unread)
    assert "let in after 1513.4 s, but no load was run on it" in found.replace_s.why

    def old(item: Item) -> Item | None:
        args = dict(item.asked.get("args", {}))
        args.pop("smoke", None)
        return None if item.id == SMOKE else replace(item, asked={**item.asked, "args": args})

    assert isinstance(trial(old).replace_s, Read)


def test_a_job_has_a_rank_for_each_gpu_and_one_without_any() -> None:
    """What came of each is kept with what was asked; a place that was not given is no fail."""
    jobs: list[Job] = []

    def run(job: Job) -> Results:
        jobs.append(job)
        return {(job.nodes[0], rank): Item(f"rank{rank}", rank + 1) for rank in range(job.ranks)}

    smoke = Smoke(faults.PRODUCT, "image", run)
    kept = [*smoke("gpu1", 2), *smoke("gpu2", 0)]
    assert [(job.nodes, job.ranks, job.image) for job in jobs] == [
        (("gpu1",), 2, "image"),
        (("gpu2",), 1, "image"),
    ]
    asked = [(item.id, item.asked["rank"], item.asked["ranks"], item.asked["gpus"]) for item in kept]
    assert asked == [(SMOKE, 0, 2, 2), (SMOKE, 1, 2, 2), (SMOKE, 0, 1, 0)]

    def refuse(_job: Job) -> Results:
        raise TargetError("no place")

    found = said(list(Smoke(faults.PRODUCT, "", refuse)("gpu1", 2)))
    assert isinstance(found, Unread)
    assert "no place" in found.why
