"""NVLink and its fabric: the real nvidia-ml-py on a stand-in for the driver's library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import fakenvml
from probing import python

if TYPE_CHECKING:
    from pathlib import Path

ASK = """
import json
from gpuassay.probe import nvml
from gpuassay.probe.items import QUESTIONS
question = next(question for question in QUESTIONS if question.id == "nvml")
print(nvml.ask(question).out.decode())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library, once."""
    return fakenvml.build(tmp_path_factory.mktemp("nvml") / "lib")


def gpu(library: Path, answers: Path, **changed: str) -> dict[str, Any]:
    """Ask for one GPU that answers so."""
    environment = fakenvml.environment(library, answers / "answers", count="1", **changed)
    return dict(json.loads(python(ASK, **environment))["devices"][0])


def test_the_list_of_links_ends_where_the_library_says_so(library: Path, tmp_path: Path) -> None:
    """An A100 has 12 links and the library knows of 18 numbers: the rest are no links that are down."""
    links = gpu(library, tmp_path, **{"0.nvlinks": "12 7", "0.field_164": "25000"})["nvlink"]
    assert links["active"] == [link != 7 for link in range(12)]
    assert links["speed_mbps"] == [25000] * 12


def test_a_gpu_without_nvlink_says_so(library: Path, tmp_path: Path) -> None:
    """What is not supported at the first link is no empty list."""
    links = gpu(library, tmp_path, **{"0.nvlinks": "!3", "0.fabric": "!3"})
    marks = [*links["nvlink"].values(), links["fabric"]]
    assert [mark["unread"] for mark in marks] == ["unsupported"] * 4


def test_an_older_driver_tells_the_speed_by_fields_of_their_own(library: Path, tmp_path: Path) -> None:
    """Link 6 and up lie elsewhere in its numbering, and it has none for the links after 12."""
    fields = {f"0.field_{field}": "25781" for field in (*range(84, 90), *range(132, 138))}
    links = gpu(library, tmp_path, **{"0.nvlinks": "13", "0.field_164": "!3", **fields})["nvlink"]
    assert links["speed_mbps"][:12] == [25781] * 12
    assert links["speed_mbps"][12]["unread"] == "unsupported"


def test_the_counters_of_older_links(library: Path, tmp_path: Path) -> None:
    """A Hopper counts replays and recoveries, and has none of the error rates of NVLink 5."""
    younger = {f"0.field_{field}": "!2" for field in (206, 207, 208, 209, 211, 213, 214, 220, 222)}
    older = {f"0.counter_{counter}": str(counter) for counter in range(4)}
    counters = gpu(library, tmp_path, **younger, **older)["nvlink"]["counters"]
    assert counters["recovery"] == [1] * 18
    assert counters["crc_data"] == [3] * 18
    assert counters["effective_ber"]["unread"] == "unsupported"


def test_one_link_that_refuses_spoils_no_other(library: Path, tmp_path: Path) -> None:
    """Its place holds the reason; the others hold their values."""
    speeds = gpu(library, tmp_path, **{"0.field_164_5": "!999"})["nvlink"]["speed_mbps"]
    assert speeds[5] == {"unread": "failed", "why": "NVML: Unknown Error (999)", "code": 999}
    assert speeds[:5] + speeds[6:] == [53125] * 17


@pytest.mark.parametrize(("form", "mask", "summary"), [("3", 426, 1), ("2", 426, None), ("1", None, None)])
def test_every_form_of_the_fabric_question(
    library: Path, tmp_path: Path, form: str, mask: int | None, summary: int | None
) -> None:
    """A driver that knows an older form is asked in that one; what it does not tell is unread."""
    changed = {"0.fabric": "3 0 32766 426 1", "0.cluster": "171", "0.fabric_form": form}
    fabric = gpu(library, tmp_path, **changed)["fabric"]
    assert (fabric["state"], fabric["status"], fabric["clique"]) == (3, 0, 32766)
    assert fabric["cluster"] == "ab000000-0000-0000-0000-000000000000"
    for told, value in ((fabric["health_mask"], mask), (fabric["health_summary"], summary)):
        assert told == value if value is not None else told["unread"] == "not_found"


def test_a_library_without_the_younger_question(tmp_path: Path) -> None:
    """The older one is asked instead."""
    fabric = gpu(fakenvml.build(tmp_path / "lib", "-DOLD"), tmp_path)["fabric"]
    assert (fabric["state"], fabric["health_mask"]["unread"]) == (3, "not_found")


def test_the_reason_for_no_fabric_at_all_is_the_first_one(library: Path, tmp_path: Path) -> None:
    """What is refused for itself is not asked again in an older form."""
    assert gpu(library, tmp_path, **{"0.fabric": "!15"})["fabric"] == {
        "unread": "failed",
        "why": "NVML: GPU is lost (15)",
        "code": 15,
    }
