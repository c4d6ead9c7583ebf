"""The examples of docs/sla.md, which were computed by hand, against the code; and its table of templates."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from gpuassay.earlier import stamp
from gpuassay.judge.config import MOMENT
from gpuassay.sla.cli import answer
from gpuassay.sla.judged import percent
from gpuassay.sla.run import hold, promises
from gpuassay.sla.template import TEMPLATES, load

PAGE = (Path(__file__).parents[1] / "docs" / "sla.md").read_text(encoding="utf-8")
EXAMPLES = PAGE.partition("\n## Examples\n")[2]
COMMANDS = re.findall(r"```sh\n(gpuassay sla check [^\n]+)\n```\n\n((?:\|[^\n]*\n?)+)", EXAMPLES)
CLAUSES = re.findall(
    r"```sh\n(gpuassay sla check [^\n]+)\n```\n\n(?:\|[^\n]*\n)+\n((?:\|[^\n]*\n?)+)", EXAMPLES
)
FILES = dict(re.findall(r"\n`([a-z.]+)`\n```(?:json|text)\n(.*?)```", EXAMPLES, flags=re.DOTALL))


def rows(table: str) -> list[list[str]]:
    """Give the cells of a table below its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize(("command", "table"), COMMANDS, ids=[command[19:60] for command, _ in COMMANDS])
def test_hand_computed_examples(
    command: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command gives, to the second and as exact fractions, what was computed by hand."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown, _ = answer([*shlex.split(command)[2:], "--json"])
    lines = {line["unit"]: line for line in json.loads("\n".join(shown))["lines"]}
    found = [
        [
            unit,
            lines[unit]["counted_s"],
            str(lines[unit]["seconds"]),
            lines[unit]["availability"]["exact"][0],
            lines[unit]["outcome"],
            str(lines[unit]["credit_percent"][0]),
        ]
        for unit, *_ in rows(table)
    ]
    assert found == rows(table)
    assert all(
        line["availability"]["exact"][0] == line["availability"]["exact"][1] for line in lines.values()
    )


@pytest.mark.parametrize(("command", "table"), CLAUSES, ids=[command.split()[3] for command, _ in CLAUSES])
def test_clauses_of_the_examples(
    command: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command says of notice, tests of swapped nodes and spares what the page says."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown, _ = answer([*shlex.split(command)[2:], "--json"])
    found = json.loads("\n".join(shown))
    assert [[one["clause"], one["outcome"]] for one in found["clauses"]] == rows(table)
    assert found["outcome"] == "missed"


def test_the_acceptance_window_of_the_page() -> None:
    """Each line of the example gives, to the second, what was computed by hand: both ends are within."""
    part = PAGE.partition("\n## The acceptance window\n")[2].partition("\n## ")[0]
    (declared,) = re.findall(r"`(2026[^`]+)`", part)
    handed_over = stamp(MOMENT.read(tomllib.loads(f"at = {declared}")["at"]))
    won = {"won": "gold", "ceiling": "gold"}
    lines = rows(part.partition("\n|")[2])
    for begin, end, measured, *expected in lines:
        times = {"begin": begin, "end": end, "measured": measured or None, "handed_over": handed_over}
        context = {"profile": "acceptance", "recording": {"seal": "sealed", **times}}
        terms = {
            one["term"]: one["outcome"] for one in hold(promises(load("gold")), context, won, {})["terms"]
        }
        assert [terms["acceptance_window"], terms["acceptance"]] == expected, begin
    assert len(lines) == 6


def test_every_example_is_there() -> None:
    """The swap against both promises, racks, a flapping node, a drain, and the clauses are all run."""
    named = [command.split()[3] for command, _ in COMMANDS]
    clauses = ["serviced.jsonl", "retest.jsonl", "pool.jsonl"]
    before = ["swap.jsonl", "swap.jsonl", "trays.jsonl", "flapping.jsonl", "events.txt"]
    assert named == [*before, *clauses]
    assert [command.split()[3] for command, _ in CLAUSES] == clauses


def test_seconds_of_the_drain_are_told_by_actor(tmp_path: Path) -> None:
    """Of the tenant's 48 hours 46 are his, and the two in which the node was down are the provider's."""
    events = tmp_path / "events.txt"
    events.write_text(FILES["events.txt"], encoding="utf-8")
    span = ["--from=2025-11-01", "--until=2025-12-01", "--nodes=gpu001", "--tenant=alice", "--json"]
    shown, status = answer(["check", str(events), "--sla=gold", *span])
    (line,) = json.loads("\n".join(shown))["lines"]
    assert (line["by"]["tenant"], line["by"]["down"], status) == (46 * 3600, 2 * 3600, 1)


def test_the_table_of_templates_is_theirs() -> None:
    """The page says of each template what its file says."""
    lines = {cells[0]: cells[1:] for cells in rows(PAGE.partition("| | bronze")[2].partition("\n\n")[0])}
    found = [load(name) for name in TEMPLATES]
    assert lines["availability of a node in a month"] == [percent(one.availability.node) for one in found]
    assert lines["of a rack"] == [percent(one.availability.rack) for one in found]
    assert lines["spares"] == [percent(one.spares.share) for one in found]
    refills = lines["a used spare made good within"]
    assert [seconds(cell) for cell in refills] == [[one.spares.refill_s] for one in found]
    assert lines["first credit"] == [f"{one.credits.node[0].percent} %" for one in found]
    weights = {"not": 0, "half": 1 / 2, "in full": 1}
    assert [weights[word] for word in lines["degraded time counts"]] == [
        float(one.down.degraded_counts) for one in found
    ]
    times = [[one.times.detect_s, one.times.isolate_s, one.times.replace_s] for one in found]
    assert [seconds(cell) for cell in lines["detected, isolated, replaced within"]] == times
    windows = [[one.maintenance.most_s, one.maintenance.notice_s] for one in found]
    assert [seconds(cell) for cell in lines["maintenance in a month, announced"]] == windows
    tests = lines["acceptance: tier, window, re-test of swapped nodes"]
    assert [cell.split(", ")[0] for cell in tests] == [one.acceptance.tier for one in found]
    assert [seconds(cell.partition(", ")[2]) for cell in tests] == [
        [one.acceptance.window_s, one.acceptance.retest_within_s] for one in found
    ]


def seconds(cell: str) -> list[int]:
    """Read times such as ``15 m, 24 h``."""
    units = {"m": 60, "h": 3600, "d": 86_400}
    return [int(number) * units[unit] for number, unit in (part.split() for part in cell.split(", "))]
