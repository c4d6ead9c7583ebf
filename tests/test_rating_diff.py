"""gpuassay diff: what fails or passes newly, what drifted beyond noise, and what is judged no longer."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.cli import main
from gpuassay.rating.diff import compare, markdown
from gpuassay.report.places import nodes
from recorded import build
from recorded.judge import judge
from report_sample import check, results, row

if TYPE_CHECKING:
    from pathlib import Path


def run(**verdicts: str) -> dict[str, Any]:
    """Make results whose checks came out so."""
    checks = {f"audit.a.{name}": check(row("gpu1", word)) for name, word in verdicts.items()}
    return dict(results(checks))


def measured(value: float, spread: float | None) -> dict[str, Any]:
    """Make results with one measured value."""
    told = row("gpu1", "pass") | {"metric": "tflops", "value": value, "at": {"size": "8k"}}
    if spread:
        told["spread"] = spread
    return dict(results({"perf.gemm.bf16": check(told)}))


def names(found: dict[str, Any], key: str) -> list[str]:
    """Name the checks of one kind."""
    return [one["check"].rsplit(".", 1)[-1] for one in found[key]]


def test_each_change_has_its_kind() -> None:
    """A fail is new from whatever it was before; what is lost was judged, and is so no longer."""
    old = run(a="pass", b="fail", c="pass", d="fail", e="unseen", f="warn", g="pass", h="fail")
    new = run(a="fail", b="pass", c="unseen", d="fail", e="fail", f="pass", g="warn", i="fail")
    found = compare(old, new)
    assert names(found, "newly_failing") == ["a", "e", "i"]
    assert names(found, "newly_passing") == ["b", "f"]
    assert names(found, "newly_warning") == ["g"]
    assert names(found, "coverage_lost") == ["c", "h"]


def test_nothing_differs_from_itself() -> None:
    """Nothing is said of two equal runs, in numbers or in words."""
    found = compare(measured(100.0, 0.01), measured(100.0, 0.01))
    kinds = ("newly_failing", "newly_passing", "newly_warning", "coverage_lost", "drifted")
    assert [found[key] for key in kinds] == [[]] * 5
    assert "Newly failing: none." in markdown(found)


@pytest.mark.parametrize(
    ("before", "after", "drifts"),
    [
        ((100.0, 0.02), (97.0, 0.02), False),
        ((100.0, 0.01), (97.0, 0.01), True),
        ((100.0, 0.01), (103.0, 0.01), True),
        ((100.0, None), (50.0, 0.01), False),
    ],
)
def test_only_what_exceeds_the_noise_drifts(
    before: tuple[float, float | None], after: tuple[float, float | None], *, drifts: bool
) -> None:
    """Noise is how far the repeats of both lie apart; where there were none it is not known."""
    found = compare(measured(*before), measured(*after))
    assert bool(found["drifted"]) is drifts
    assert ("tflops at size 8k" in markdown(found)) is drifts


def test_which_places_share_a_row_hides_no_drift() -> None:
    """Four GPUs of one value, of which one drifts: it is found, though no row is of the same places."""
    told = {"metric": "tflops", "value": 100.0, "spread": 0.01}
    old = results({"perf.a.b": check(row("gpu[1-2]/gpu[0-1]", count=4) | told)})
    rows = (row("gpu1/gpu[0-1],gpu2/gpu0", count=3) | told, row("gpu2/gpu1") | told | {"value": 90.0})
    found = compare(old, results({"perf.a.b": check(*rows)}))
    assert [(one["where"], one["change"]) for one in found["drifted"]] == [("gpu2/gpu1", -0.1)]


@pytest.fixture(scope="module")
def real() -> dict[str, dict[str, Any]]:
    """Judge a recorded cluster, and the same where the products of one node have become slower."""
    found: dict[str, dict[str, Any]] = {
        name: json.loads(json.dumps(judge(build(name)).results))
        for name in ("hgx-b200-measured", "perf-one-node-slow")
    }
    return found


def test_two_recorded_runs_differ_in_what_was_made_to(real: dict[str, dict[str, Any]]) -> None:
    """The node that drifted, and no other, in a line for each figure; and nothing that stayed as it was."""
    found = compare(real["hgx-b200-measured"], real["perf-one-node-slow"])
    assert names(found, "newly_warning") == ["bf16"]
    assert (found["newly_failing"], found["coverage_lost"]) == ([], [])
    assert {nodes(one["where"]) for one in found["drifted"]} == {("gpu002",)}
    assert all(one["change"] < 0 for one in found["drifted"])
    text = markdown(found)
    lines = text.partition("### Drifted beyond noise (")[2].splitlines()[2:]
    assert text.count("### ") == 2
    assert lines
    assert all(line.startswith("- `perf.gemm.bf16` gpu002/gpu") for line in lines)
    assert len(lines) == len({(one["metric"], one["at"]) for one in found["drifted"]})
    assert compare(real["perf-one-node-slow"], real["perf-one-node-slow"])["drifted"] == []


def test_what_a_cluster_says_is_no_markdown() -> None:
    """Nobody is mentioned, and nothing becomes a tag, by a reason that a node wrote."""
    new = run(a="fail")
    new["checks"]["audit.a.a"]["reason"] = "<img src=x> @everyone **all** is well"
    text = markdown(compare(run(a="pass"), new))
    assert "<img" not in text
    assert "@everyone" not in text
    assert "**all**" not in text


def test_the_command_is_for_a_ci(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It exits with 1 on a new fail alone; takes a run's folder or its results; and names what is no run."""
    old, new = tmp_path / "old", tmp_path / "new.json"
    old.mkdir()
    (old / "results.json").write_text(json.dumps(run(a="pass", b="fail")))
    new.write_text(json.dumps(run(a="fail", b="fail")))
    assert main(["diff", str(old), str(new)]) == 1
    assert "### Newly failing (1)" in capsys.readouterr().out
    assert main(["diff", str(new), str(old), "--json"]) == 0
    assert names(json.loads(capsys.readouterr().out), "newly_passing") == ["a"]
    wrong = copy.deepcopy(run(a="pass"))
    wrong["schema"] = 99
    new.write_text(json.dumps(wrong))
    assert main(["diff", str(old), str(new)]) == 2
    assert "expected a results.json of schema 1" in capsys.readouterr().err
    assert main(["diff", str(tmp_path / "none"), str(new)]) == 2
    assert "none: cannot be read" in capsys.readouterr().err
