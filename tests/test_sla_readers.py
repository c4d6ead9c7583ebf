"""Histories as Slurm, Kubernetes, our own recordings and people write them, and what is wrong with some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpuassay.sla.outages import Actor, History, Outage, Window
from gpuassay.sla.readers import ReadError, Reading, kube, plain, sacctmgr
from gpuassay.sla.readers.any import read
from gpuassay.sla.spans import ALWAYS
from recorded.build import build
from sla_sample import BEGUN, one_trial

RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded"
UTC = Reading(ZoneInfo("UTC"), tenants=frozenset({"alice"}))
BERLIN = Reading(ZoneInfo("Europe/Berlin"))
HEAD = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
NOVEMBER = 1_761_955_200  # 2025-11-01T00:00:00Z
HOUR = 3600
JUDGING = Reading(ZoneInfo("UTC"), grace_s=HOUR, suite=RECORDED.parents[1])


def slurm(*lines: str, how: Reading = UTC, head: str = HEAD) -> History:
    """Read what sacctmgr wrote."""
    text = "\n".join((head, *lines)) + "\n"
    assert sacctmgr.is_it(text)
    return sacctmgr.read(text, "events.txt", how)


def one(history: History) -> Outage:
    """Give the only outage."""
    (outage,) = history.outages
    return outage


# --- Slurm: the lines are as the sacctmgr of a real cluster wrote them, but for their times ---


def test_slurm_lines_with_pipes_and_open_ends() -> None:
    """A reason may hold the separator; an open outage lasts; cluster lines say since when all is known."""
    found = slurm(
        "test||2025-10-01T00:00:00|Unknown||Cluster Registered TRES|",
        "test|n1|2025-11-01T00:00:00|2025-11-01T01:00:00|DRAIN|bad | pipe GPU|root(0)",
        "test|n2|2025-11-01T02:00:00|Unknown|DOWN*|Not responding|slurm(64030)",
    )
    first, second = found.outages
    assert (first.node, first.begin, first.until) == ("n1", NOVEMBER, NOVEMBER + HOUR)
    assert (first.reason, first.by, first.source) == ("bad | pipe GPU", Actor.PROVIDER, "events.txt:3")
    assert (second.until, second.state) == (None, "down")
    assert found.throughout == ((NOVEMBER - 31 * 24 * HOUR, ALWAYS[1]),)
    assert not found.notes


def test_slurm_with_a_closing_separator_and_seconds() -> None:
    """--parsable ends each line with one more separator; SLURM_TIME_FORMAT=%s gives seconds since 1970."""
    found = slurm(
        f"test|n1|{NOVEMBER}|{NOVEMBER + 60}|DRAIN|bad | pipe|root(0)|", head=HEAD + "|", how=BERLIN
    )
    assert (one(found).begin, one(found).until, one(found).reason) == (NOVEMBER, NOVEMBER + 60, "bad | pipe")
    assert "since when" in found.notes[0]


@pytest.mark.parametrize(
    ("reason", "user", "actor"),
    [
        ("our upgrade", "alice(1001)", Actor.TENANT),
        ("alice(1001)", "root(0)", Actor.PROVIDER),
        ("gpuassay: frozen slurmd", "alice(1001)", Actor.OURS),
        ("maintenance", "alice2(1002)", Actor.PROVIDER),
    ],
)
def test_slurm_actors(reason: str, user: str, actor: Actor) -> None:
    """The tenant's are those who were named so; ours is told by our reason; all else is the provider's."""
    outage = one(slurm(f"test|n1|2025-11-01T00:00:00|Unknown|DRAIN|{reason}|{user}"))
    assert outage.by is actor


def test_slurm_maintenance_is_no_excuse() -> None:
    """A node that is drained in a maintenance reservation is out; one that is only reserved is not."""
    found = slurm(
        "test|n1|2025-11-01T00:00:00|Unknown|DRAIN$|in maint|root(0)",
        "test|n2|2025-11-01T00:00:00|Unknown|MAINT||root(0)",
    )
    assert (one(found).node, one(found).by) == ("n1", Actor.PROVIDER)
    assert any("n2 was" in note and "no outage" in note for note in found.notes)


def test_clocks_that_were_put_forward() -> None:
    """A night of summer time: 01:30 to 03:30 in Berlin is one hour; 02:30 never was."""
    outage = one(slurm("t|n1|2026-03-29T01:30:00|2026-03-29T03:30:00|DOWN|x|root(0)", how=BERLIN))
    assert outage.until == outage.begin + HOUR
    with pytest.raises(
        ReadError, match=r"events\.txt:2: 2026-03-29T02:30:00: clocks in Europe/Berlin skipped"
    ):
        slurm("t|n1|2026-03-29T02:30:00|Unknown|DOWN|x|root(0)", how=BERLIN)


def test_clocks_that_were_put_back() -> None:
    """02:30 in Berlin came twice: the outage is certain from the second on, the hour before is in doubt."""
    found = slurm("t|n1|2025-10-26T02:30:00|2025-10-26T04:30:00|DOWN|x|root(0)", how=BERLIN)
    assert one(found).until == one(found).begin + 2 * HOUR
    assert found.doubts == {"n1": ((one(found).begin - HOUR, one(found).begin),)}
    assert found.known_of("n1") == ((ALWAYS[0], one(found).begin - HOUR), (one(found).begin, ALWAYS[1]))


@pytest.mark.parametrize(
    ("lines", "head", "words"),
    [
        (["t|n1|2025-11-01T00:00:00|Unknown|DOWN|x"], HEAD, "events.txt:2: 6 columns; expected 7"),
        (["t|n1|soon|Unknown|DOWN|x|root(0)"], HEAD, "events.txt:2: 'soon' is no time"),
        (["t|n1|2025-11-01T00:00:00|2025-10-01T00:00:00|DOWN|x|r"], HEAD, "ends before it begins"),
        (["t|n1|2025-11-01T00:00:00|Unknown|?!|x|root(0)"], HEAD, "is no state of a node"),
        (["n1|2025-11-01T00:00:00"], "NodeName|TimeStart", "events.txt:1: no column TimeEnd"),
        (
            ["a|n1|2025-11-01T00:00:00|Unknown|DOWN|x|r", "b|n1|2025-11-01T00:00:00|Unknown|DOWN|x|r"],
            HEAD,
            "of several clusters (a, b)",
        ),
    ],
)
def test_slurm_that_cannot_be_used(lines: list[str], head: str, words: str) -> None:
    """Each mistake is named with its line and what was expected."""
    with pytest.raises(ReadError) as error:
        slurm(*lines, head=head)
    assert words in str(error.value)


# --- Kubernetes ---


def condition(kind: str, status: str, since: str, beat: str = "2025-11-01T12:00:00Z") -> dict[str, str]:
    """Write a condition of a node."""
    return {"type": kind, "status": status, "lastTransitionTime": since, "lastHeartbeatTime": beat}


def node(name: str, *conditions: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Write a node."""
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": list(conditions)},
    }


def answers(*documents: Any, how: Reading = UTC) -> History:
    """Read answers of the API."""
    text = "\n".join(json.dumps(document) for document in documents)
    assert kube.is_it(text)
    return kube.read(text, "nodes.json", how)


READY = condition("Ready", "True", "2025-11-01T06:00:00Z")


def test_a_snapshot_makes_known_what_it_tells() -> None:
    """Of a ready node all is known since its last change; of one that is not, that it is down since then."""
    lost = condition("Ready", "Unknown", "2025-11-01T10:00:00Z")
    found = answers({"kind": "List", "items": [node("n1", READY), node("n2", lost)]})
    noon = NOVEMBER + 12 * HOUR
    assert found.known == {
        "n1": ((NOVEMBER + 6 * HOUR, noon),),
        "n2": ((NOVEMBER + 10 * HOUR, noon),),
    }
    assert (one(found).node, one(found).state, one(found).begin) == ("n2", "down", NOVEMBER + 10 * HOUR)
    assert one(found).until == noon
    assert not found.throughout


def test_between_snapshots_nothing_is_known() -> None:
    """A node that was ready at noon and again since 14:00 may have been anything in between."""
    later = condition("Ready", "True", "2025-11-01T14:00:00Z", "2025-11-01T18:00:00Z")
    found = answers(node("n1", READY), {"type": "MODIFIED", "object": node("n1", later)})
    assert found.known["n1"] == (
        (NOVEMBER + 6 * HOUR, NOVEMBER + 12 * HOUR),
        (NOVEMBER + 14 * HOUR, NOVEMBER + 18 * HOUR),
    )


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("DiskPressure", "True", "degraded"),
        ("DiskPressure", "False", None),
        ("GpuNvlinkWatch", "True", "degraded"),
        ("AcceleratedHardwareReady", "False", "degraded"),
        ("AcceleratedHardwareReady", "True", None),
    ],
)
def test_health_conditions_degrade(kind: str, status: str, state: str | None) -> None:
    """A health condition that is bad makes a node degraded, whichever way round it is written."""
    found = answers(node("n1", READY, condition(kind, status, "2025-11-01T08:00:00Z")))
    assert [outage.state for outage in found.outages] == ([state] if state else [])


def test_conditions_that_nobody_knows_are_said() -> None:
    """Whether CWActive is good or bad is not known here: it is not counted, and that is said."""
    found = answers(node("n1", READY, condition("CWActive", "True", "2025-11-01T08:00:00Z")))
    assert not found.outages
    assert "n1: whether the condition CWActive is good or bad" in found.notes[0]


@pytest.mark.parametrize("whose", [None, Actor.TENANT, Actor.PROVIDER])
def test_cordons_are_whose_it_is_said(whose: Actor | None) -> None:
    """Kubernetes does not tell who has cordoned: unless the user says it, it stays unsaid."""
    taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": "2025-11-01T09:00:00Z"}
    cordoned = node("n1", READY, unschedulable=True, taints=[taint])
    found = answers(cordoned, how=Reading(ZoneInfo("UTC"), cordons=whose))
    assert (one(found).begin, one(found).by) == (NOVEMBER + 9 * HOUR, whose or Actor.UNSAID)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"kind": "PodList", "items": [{"kind": "Pod", "metadata": {"name": "a"}}]}', "expected nodes"),
        ('{"kind": "List", "items": 3}', "items: expected a list"),
        ('{"kind": "Node", "metadata": {"name": "n1"}}', "no condition says a time"),
        ('{"kind": "List", "items": []} {', "nodes.json"),
    ],
)
def test_kubernetes_that_cannot_be_used(text: str, words: str) -> None:
    """What is not a list of nodes is refused, with its place."""
    with pytest.raises(ReadError) as error:
        kube.read(text, "nodes.json", UTC)
    assert words in str(error.value)
    assert "nodes.json" in str(error.value)


# --- by hand, and what is what ---

LINE = {
    "node": "n1",
    "state": "degraded",
    "from": "2025-11-01T01:00:00+01:00",
    "until": None,
    "by": "tenant",
    "reason": "a GPU is lent",
}


def test_the_normal_form_is_read_as_it_is() -> None:
    """A line by hand is an outage; its offset counts, not the zone of the reading."""
    found = plain.read(json.dumps(LINE) + "\n\n", "mine.jsonl", BERLIN)
    assert one(found) == Outage(
        "n1", "degraded", NOVEMBER, None, Actor.TENANT, "a GPU is lent", "mine.jsonl:1"
    )
    assert found.throughout == (ALWAYS,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "broken"}, "state: expected down or degraded, found 'broken'"),
        ({"by": "fate"}, "by: expected one of provider, tenant, ours, unsaid, found 'fate'"),
        ({"from": "yesterday"}, "from: 'yesterday' is no time"),
        ({"from": 5}, "from: expected a text"),
        ({"until": "2025-10-01T00:00Z"}, "ends before it begins"),
        ({"whom": "?"}, "expected one object with the keys node, state"),
    ],
)
def test_a_mistake_by_hand_is_named(change: dict[str, Any], words: str) -> None:
    """Each is named with its line, key and what was expected."""
    with pytest.raises(ReadError) as error:
        plain.read(json.dumps(LINE | change), "mine.jsonl", UTC)
    assert str(error.value).startswith("mine.jsonl:1: ")
    assert words in str(error.value)


def test_files_are_told_by_what_they_hold(tmp_path: Path) -> None:
    """Each kind finds its reader, and what is none of them is refused with what was expected."""
    kinds = {
        "slurm": f"{HEAD}\nt|n1|2025-11-01T00:00:00|Unknown|DOWN|x|root(0)\n",
        "hand": json.dumps(LINE) + "\n",
        "kube": json.dumps(
            {"kind": "List", "items": [node("n1", condition("Ready", "False", "2025-11-01T00:00:00Z"))]},
            indent=1,
        ),
    }
    for name, text in kinds.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert one(read(tmp_path / name, UTC)).node == "n1"
    for text in ("", "hello\n", "[1, 2]", '"x"'):
        (tmp_path / "other").write_text(text, encoding="utf-8")
        with pytest.raises(ReadError, match="not a history of nodes; expected"):
            read(tmp_path / "other", UTC)
    with pytest.raises(ReadError, match="cannot be read"):
        read(tmp_path / "nowhere", UTC)
    with pytest.raises(ReadError, match="not a recording"):
        read(tmp_path, UTC)


# --- our own recordings ---


def test_a_watched_fault_gives_its_time_and_how_fast_the_provider_was(tmp_path: Path) -> None:
    """As the provider took the node, our fault is ours for the time that he may need to replace it."""
    recording = one_trial(tmp_path / "recording")
    found = read(recording, JUDGING)
    assert found.windows == (Window(BEGUN, BEGUN + HOUR, ours=True, nodes=frozenset({"gpu001"})),)
    (times,) = found.times
    assert times.seconds == {"detect": 30.6, "isolate": 30.6, "replace": 1513.4}
    outage = found.outages[0]
    assert (outage.begin, outage.by, outage.state) == (BEGUN + 31, Actor.PROVIDER, "down")
    ((begin, end),) = found.known["gpu001"]
    assert begin == BEGUN
    assert end >= BEGUN + 1513
    assert not found.throughout


def test_a_lesser_node_in_its_place_has_replaced_nothing() -> None:
    """What serves is held to what the failed one had, by the recording's own site file."""
    times = {timed.what: timed for timed in read(build("fault-replaced-by-a-lesser-one"), JUDGING).times}
    assert "replace" not in times["frozen_slurmd"].seconds
    assert "7 of 8 network cards" in times["frozen_slurmd"].why["replace"]


@pytest.mark.parametrize(
    ("how", "site", "says"),
    [
        (UTC, "", "compared with nothing"),
        (JUDGING, "[unheard_of]\n", "the recording's own site file cannot be read: "),
    ],
)
def test_what_cannot_be_compared_leaves_the_replacement_unknown(
    how: Reading, site: str, says: str, tmp_path: Path
) -> None:
    """Without the suite's tables, or a site file that can be read, nobody knows whether it is whole."""
    recording = one_trial(tmp_path / "recording")
    (recording / "site.toml").write_text(site, encoding="utf-8")
    (times,) = read(recording, how).times
    assert times.seconds == {"detect": 30.6, "isolate": 30.6}
    assert says in times.why["replace"]


def test_a_fault_that_nobody_noticed_has_no_times() -> None:
    """Its time is ours until it was undone; whether somebody should have noticed is not told here."""
    found = read(build("fault-unnoticed"), UTC)
    assert "frozen_slurmd" not in {timed.what for timed in found.times}
    assert any("frozen_slurmd, gpu001: the provider did nothing" in note for note in found.notes)
    assert BEGUN + 601 in {window.until for window in found.windows}


def test_a_recording_of_kubernetes_is_a_snapshot() -> None:
    """Its nodes are known from their last change until the recording ended, and no longer."""
    found = read(RECORDED / "k8s-b200-2" / "recording", UTC)
    assert set(found.known) == {"gpu001", "gpu002"}
    assert all(len(spans) == 1 for spans in found.known.values())


def test_a_recording_that_tells_nothing_of_time_says_so() -> None:
    """A recording over ssh knows nothing of how its nodes were before."""
    found = read(RECORDED / "cpu-vm" / "recording", UTC)
    assert not found.known
    assert "says nothing of nodes over time" in found.notes[0]
