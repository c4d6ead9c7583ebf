"""``gpuassay sla``: what it prints and how it ends, with maintenance, racks, our faults and mistakes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.cli import main
from gpuassay.sla.outages import Actor
from sla_sample import BEGUN, one_trial

if TYPE_CHECKING:
    from pathlib import Path

SPAN = ("--from=2025-11-01", "--until=2025-12-01")


def line(node: str, begin: str, end: str | None, by: Actor = Actor.PROVIDER, state: str = "down") -> str:
    """Write an outage by hand; times are of November 2025, such as ``12T10:00``."""
    times = {"from": f"2025-11-{begin}:00Z", "until": end and f"2025-11-{end}:00Z"}
    return json.dumps({"node": node, "state": state, **times, "by": by.value, "reason": "made up"})


class Checked:
    """One run of ``gpuassay sla check`` on outages by hand."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        """Take how it ended and what it wrote."""
        self.status = status
        self.document = document

    def __getitem__(self, unit: str) -> dict[str, Any]:
        """Give the only line of a unit."""
        found: dict[str, Any]
        (found,) = [line for line in self.document["lines"] if line["unit"] == unit]
        return found


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Check outages by hand against terms."""

    def run(*lines: str, options: tuple[str, ...] = ("--nodes=n1",), sla: str = "gold") -> Checked:
        events = tmp_path / "events.jsonl"
        events.write_text("\n".join(lines) or "\n", encoding="utf-8")
        span = () if any(one.startswith("--from") for one in options) else SPAN
        status = main(["sla", "check", str(events), f"--sla={sla}", *span, *options, "--json"])
        return Checked(status, json.loads(capsys.readouterr().out))

    return run


def test_agreed_maintenance_is_taken_out_up_to_its_most(check: Any) -> None:
    """Gold allows four hours of a month: the fifth counts. A window of other nodes excuses nobody else."""
    outage = line("n1", "12T00:00", "12T05:00")
    window = "--maintenance=agreed/2025-11-12T00:00Z/2025-11-12T05:00Z"
    found = check(outage, options=("--nodes=n1", window))["n1"]
    assert (found["by"]["maintenance"], found["by"]["down"], found["counted_s"]) == (5 * 3600, 0, "3600")
    found = check(outage, options=("--nodes=n1", f"{window}=n2"))["n1"]
    assert (found["by"]["maintenance"], found["counted_s"]) == (0, str(5 * 3600))


def test_maintenance_of_a_rack(check: Any) -> None:
    """A rack that is serviced as a whole for two agreed hours was available."""
    lines = [line(f"a{number:03}", "12T00:00", "12T02:00") for number in range(1, 19)]
    window = "--maintenance=agreed/2025-11-12T00:00Z/2025-11-12T02:00Z"
    found = check(*lines, options=("--rack=a=a[001-018]", window))["a"]
    assert (found["by"]["maintenance"], found["counted_s"], found["outcome"]) == (7200, "0", "met")
    assert found["credit_percent"] == [0, 0]


def test_a_node_of_a_rack_has_no_credit_of_its_own(check: Any) -> None:
    """One tray out for ten days costs its own availability, and no credit: the rack was up."""
    found = check(line("a001", "10T00:00", "20T00:00"), options=("--rack=a=a[001-018]",))
    assert (found["a001"]["outcome"], found["a001"]["credit_percent"], found["a001"]["rack"]) == (
        "missed",
        [0, 0],
        "a",
    )
    assert (found["a"]["outcome"], found.status, found.document["outcome"]) == ("met", 0, "met")


@pytest.mark.parametrize(("sla", "counted"), [("bronze", "0"), ("silver", "3600"), ("gold", "7200")])
def test_degraded_counts_as_the_template_says(check: Any, sla: str, counted: str) -> None:
    """Two degraded hours are nothing to bronze, one to silver and two to gold."""
    found = check(line("n1", "12T00:00", "12T02:00", state="degraded"), sla=sla)["n1"]
    assert (found["counted_s"], found["by"]["degraded"]) == (counted, 7200)


def test_overlapping_outages_count_once(check: Any) -> None:
    """A node that is down while degraded is down; two sources of one outage are one."""
    twice = line("n1", "12T00:00", "12T02:00")
    found = check(twice, twice, line("n1", "12T01:00", "12T03:00", state="degraded"))["n1"]
    assert (found["by"]["down"], found["by"]["degraded"], found["counted_s"]) == (7200, 3600, "10800")


def test_an_outage_over_the_turn_of_a_month_and_an_open_one(check: Any) -> None:
    """Each month gets its own part; an outage without an end lasts to the end of the account."""
    options = ("--nodes=n[1-2]", "--from=2025-11-01", "--until=2025-12-16", "--zone=Europe/Berlin")
    crossing = line("n1", "30T22:00", None).replace("null", '"2025-12-01T01:00:00Z"')
    found = check(crossing, line("n2", "30T22:00", None), options=options).document
    down = {(one["unit"], one["month"]): (one["by"]["down"], one["whole_month"]) for one in found["lines"]}
    # In Berlin, December begins at 23:00 UTC.
    assert down == {
        ("n1", "2025-11"): (3600, True),
        ("n1", "2025-12"): (7200, False),
        ("n2", "2025-11"): (3600, True),
        ("n2", "2025-12"): (15 * 86_400, False),
    }
    assert {one["seconds"] for one in found["lines"]} == {30 * 86_400, 15 * 86_400}


def test_a_month_in_which_clocks_change(check: Any) -> None:
    """October 2025 has one hour more in Berlin, and that hour is part of the month."""
    options = ("--nodes=n1", "--from=2025-10-01", "--until=2025-11-01", "--zone=Europe/Berlin")
    found = check(line("n1", "12T10:00", None), options=options)["n1"]
    assert (found["seconds"], found["outcome"]) == (31 * 86_400 + 3600, "met")


def test_rights_to_terminate(check: Any) -> None:
    """Three missed months of six give a right, two do not; so does one month below 90 %."""
    days = [line("n1", "10T00:00", "11T00:00").replace("2025-11", f"2025-{month:02}") for month in (6, 8, 10)]
    options = ("--nodes=n1", "--from=2025-06-01", "--until=2025-12-01")
    assert check(*days[:2], options=options).document["termination"] == []
    (right,) = check(*days, options=options).document["termination"]
    assert right == {"unit": "n1", "why": "missed in 2025-06, 2025-08, 2025-10, 3 of 6 months"}
    (right,) = check(line("n1", "10T00:00", "14T00:00")).document["termination"]
    assert right == {"unit": "n1", "why": "below 90 % in 2025-11"}


def test_our_own_fault_is_not_the_providers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A drain that followed our injection is ours for the trial and the replacement time, and timed."""
    recording, events = one_trial(tmp_path / "recording"), tmp_path / "provider.jsonl"
    times = {"from": str(BEGUN + 40), "until": str(BEGUN + 3 * 3600)}
    outage = {"node": "gpu001", "state": "down", **times, "by": "provider", "reason": "slurmd hangs"}
    events.write_text(json.dumps(outage), encoding="utf-8")
    span = ("--from=2026-11-01", "--until=2026-12-01", "--nodes=gpu001", "--json")
    status = main(["sla", "check", str(events), str(recording), "--sla=gold", *span])
    found = json.loads(capsys.readouterr().out)
    (only,) = found["lines"]
    ours = 3600 - 31  # the drain was seen 31 s after the trial began; the provider's own history says 40
    assert (only["by"]["ours"], only["by"]["down"]) == (ours, 2 * 3600)
    (timed,) = found["times"]
    assert (timed["detect"]["outcome"], timed["replace"]["outcome"]) == ("met", "met")
    assert status == 1  # what lies behind the replacement time is the provider's


def test_the_table_says_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People get one line for each unit and month, the credits, and what was not counted."""
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join([line("n1", "12T10:00", "12T11:00"), line("n9", "12T10:00", None)]))
    assert main(["sla", "check", str(events), "--sla=gold", *SPAN, "--nodes=n[1-2]"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert (
        shown[0]
        == "Gold: missed (unknown: retest, spares), 2025-11-01 00:00+00:00 to 2025-12-01 00:00+00:00 (UTC)"
    )
    assert shown[2].split()[:5] == ["unit", "month", "availability", "promised", "outcome"]
    assert shown[3].split()[:9] == ["n1", "2025-11", "99.8611", "%", "99.9", "%", "missed", "10", "%"]
    assert shown[4].split()[:9] == ["n2", "2025-11", "100", "%", "99.9", "%", "met", "0", "%"]
    assert "credits: 10 % of the monthly fee of one node" in shown
    assert "note: histories also speak of n9, which --nodes does not name: not counted" in shown


def test_show_writes_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The text of a template is printed, whole."""
    assert main(["sla", "show", "silver"]) == 0
    assert capsys.readouterr().out.startswith("# Service level: Silver\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sla=golde",), "SLA golde: there is no such template"),
        (("--sla=gold",), "--nodes or --rack: expected the nodes that were sold"),
        (("--sla=gold", "--rack=a=a[1-16]"), "--rack=a: 16 nodes; a rack of gold has 18"),
        (("--sla=gold", "--rack=a=a[1-18]", "--rack=b=a[1-18]"), "--rack: named twice: a1"),
        (("--sla=gold", "--nodes=n1", "--until=2025-10-01"), "--until: it does not come after --from"),
        (("--sla=gold", "--nodes=n1", "--until=2999-01-01"), "--until: it lies in the future"),
        (("--sla=gold", "--nodes=n1", "--until=later"), "--until: 'later' is no time"),
        (("--sla=gold", "--nodes=n1", "--maintenance=now"), "expected BEGIN/END"),
        (("--sla=gold", "--nodes=n1", "--maintenance=2025-11-02/2025-11-01"), "it ends before it begins"),
        (
            ("--sla=gold", "--nodes=n1", "--zone=Europe/Berlin", "--until=2026-10-25T02:30"),
            "clocks in Europe/Berlin show 2026-10-25T02:30 twice",
        ),
    ],
)
def test_mistakes_are_told(
    options: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was asked wrongly ends with 2 and one line that says where and what to do."""
    events = tmp_path / "events.jsonl"
    events.write_text(line("n1", "12T10:00", None))
    assert main(["sla", "check", str(events), *SPAN, *options]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert words in shown.err


def test_a_zone_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown time zone is named."""
    with pytest.raises(SystemExit) as ended:
        main(["sla", "check", "x", "--sla=gold", *SPAN, "--nodes=n1", "--zone=Europe/Atlantis"])
    assert ended.value.code == 2
    assert "there is no time zone 'Europe/Atlantis'" in capsys.readouterr().err
