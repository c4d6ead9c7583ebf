"""Limits of Slurm against what was bought: which one counts, which choice is best, and a real database."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.facts.slurm import CONFIG, PARTITIONS, Slurm
from gpuassay.facts.slurm_choice import Wanted
from gpuassay.facts.slurm_limits import ACCOUNTS, OWN, OWN_COLUMNS, QOS, QOS_COLUMNS, Limits
from gpuassay.judge.fact import Read, Unread
from nodes import Rack
from slurmd import LOGIN
from slurmdbd import Accounted, needs_accounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.fact import Fact

ROOT = Path(__file__).parents[1]
JOB = Wanted(frozenset({"n1", "n2"}), 2, 8, 48.0)
PARTITION = """\
PartitionName=batch
   AllowAccounts=ALL AllowQos=ALL QoS=N/A
   MaxNodes=UNLIMITED MaxTime=UNLIMITED
   Nodes=n[1-2]
   RootOnly=NO State=UP
"""
ROOT_ROW = {"Cluster": "c", "Account": "root"}
OWN_ROW = {"Cluster": "c", "Account": "team", "ParentName": "", "QOS": "normal"}
TEAM = {"Cluster": "c", "Account": "team", "ParentName": "root"}


class Evidence:
    """What Slurm said."""

    problems: tuple[str, ...] = ()

    def __init__(self, items: Mapping[str, Item]) -> None:
        self._items = items

    def item(self, item_id: str, /) -> Item | None:
        """Give an item."""
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        """Name it."""
        return f"cluster#{item.id}"


def table(columns: str, *rows: Mapping[str, str]) -> str:
    """Write what sacctmgr prints."""
    names = columns.split(",")
    return (
        "\n".join(["|".join(names), *("|".join(row.get(name, "") for name in names) for row in rows)]) + "\n"
    )


def judged(  # noqa: PLR0913 - each is what one test changes
    *,
    partition: str = PARTITION,
    own: tuple[Mapping[str, str], ...] = (OWN_ROW,),
    above: tuple[Mapping[str, str], ...] = (ROOT_ROW, TEAM),
    qos: tuple[Mapping[str, str], ...] = ({"Name": "normal"},),
    enforce: str = "associations,limits,qos",
    job: Wanted = JOB,
    **lost: Item,
) -> Fact[int]:
    """Judge a job by these limits."""
    said = {
        CONFIG: f"AccountingStorageEnforce = {enforce}\nClusterName = c\n",
        PARTITIONS: partition,
        OWN: table(OWN_COLUMNS, *own),
        ACCOUNTS: table(OWN_COLUMNS, *above),
        QOS: table(QOS_COLUMNS, *qos),
    }
    items = {name: Item(name, 1, out=text.encode()) for name, text in said.items()}
    evidence = Evidence({**items, **{item.id: item for item in lost.values()}})
    return Limits(Slurm(evidence), evidence).stopping(job)


def stops(fact: Fact[int]) -> tuple[int, str]:
    """Give how many stop it, and the words."""
    assert isinstance(fact, Read), fact
    return fact.value, fact.note


def test_nothing_stops_a_job_where_nothing_is_limited() -> None:
    """The note says which choice lets it run."""
    count, note = stops(judged())
    assert count == 0
    assert note == "2 nodes, 16 GPUs, 48 h: partition batch, account team, QOS normal"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"own": ({**OWN_ROW, "MaxTRES": "gres/gpu=8"},)}, "this user: MaxTRES=gres/gpu=8"),
        ({"own": ({**OWN_ROW, "MaxTRESPerNode": "gres/gpu=4"},)}, "MaxTRESPerNode=gres/gpu=4"),
        ({"own": ({**OWN_ROW, "MaxSubmit": "0"},)}, "MaxSubmit=0"),
        ({"own": ({**OWN_ROW, "MaxWall": "1-00:00:00"},)}, "MaxWall=1-00:00:00"),
        ({"above": (ROOT_ROW, {**TEAM, "GrpTRES": "cpu=64,gres/gpu=8"})}, "account team: GrpTRES=gres/gpu=8"),
        ({"above": ({**ROOT_ROW, "GrpTRES": "node=1"}, TEAM)}, "account root: GrpTRES=node=1"),
        ({"above": (ROOT_ROW, {**TEAM, "GrpTRESMins": "gres/gpu=1000"})}, "GrpTRESMins=gres/gpu=1000"),
        ({"qos": ({"Name": "normal", "MaxTRESPU": "gres/gpu=8"},)}, "QOS normal: MaxTRESPU=gres/gpu=8"),
        ({"qos": ({"Name": "normal", "MaxJobsPU": "0"},)}, "QOS normal: MaxJobsPU=0"),
        ({"partition": PARTITION.replace("MaxNodes=UNLIMITED", "MaxNodes=1")}, "its MaxNodes=1"),
        ({"partition": PARTITION.replace("MaxTime=UNLIMITED", "MaxTime=12:00:00")}, "its MaxTime=12:00:00"),
        ({"partition": PARTITION.replace("n[1-2]", "n1")}, "it has 1 of the nodes"),
        ({"partition": PARTITION.replace("State=UP", "State=DOWN")}, "no partition of its nodes is open"),
        ({"partition": PARTITION.replace("AllowAccounts=ALL", "AllowAccounts=other")}, "no partition"),
    ],
)
def test_each_limit_that_is_short_of_the_contract_is_named(changed: dict[str, Any], says: str) -> None:
    """One limit too small, wherever it stands, stops the job, and the row says which."""
    count, note = stops(judged(**changed))
    assert count == 1
    assert says in note


def test_the_first_limit_counts_and_the_best_choice_is_taken() -> None:
    """A QOS's limit stands before the association's; a second QOS that lets the job run is enough."""
    own = ({**OWN_ROW, "MaxTRES": "gres/gpu=8", "QOS": "normal,big"},)
    qos = ({"Name": "normal"}, {"Name": "big", "MaxTRES": "gres/gpu=64"})
    assert stops(judged(own=own, qos=qos)) == (
        0,
        "2 nodes, 16 GPUs, 48 h: partition batch, account team, QOS big",
    )
    assert stops(judged(own=own))[0] == 1


def test_the_partitions_qos_comes_first_unless_the_jobs_goes_over_it() -> None:
    """OverPartQOS turns the two around."""
    partition = PARTITION.replace("QoS=N/A", "QoS=part")
    part = {"Name": "part", "MaxTRESPU": "gres/gpu=8"}
    own_qos = {"Name": "normal", "MaxTRESPU": "gres/gpu=64"}
    assert stops(judged(partition=partition, qos=(part, own_qos)))[0] == 1
    over = {**own_qos, "Flags": "OverPartQOS"}
    assert stops(judged(partition=partition, qos=(part, over)))[0] == 0


@pytest.mark.parametrize(
    ("short", "flag"), [("MaxTime=12:00:00", "PartitionTimeLimit"), ("MaxNodes=1", "PartitionMaxNodes")]
)
def test_a_qos_may_go_over_the_limits_of_a_partition(short: str, flag: str) -> None:
    """With that flag, and only as the job's own QOS; its own limits hold all the same."""
    partition = PARTITION.replace(f"{short.partition('=')[0]}=UNLIMITED", short)
    over = {"Name": "normal", "Flags": f"DenyOnLimit,{flag}"}
    assert stops(judged(partition=partition))[0] == 1
    assert stops(judged(partition=partition, qos=(over,)))[0] == 0
    assert stops(judged(partition=partition, qos=({**over, "MaxWall": "1-00:00:00"},)))[0] == 1
    of_partition = (partition.replace("QoS=N/A", "QoS=part"), ({"Name": "normal"}, {**over, "Name": "part"}))
    assert stops(judged(partition=of_partition[0], qos=of_partition[1]))[0] == 1


def test_an_association_for_the_partition_comes_before_that_of_the_account() -> None:
    """Slurm takes the other one only where there is none for the partition."""
    account = {**OWN_ROW, "MaxWall": "1:00:00"}
    here, elsewhere = {**account, "Partition": "batch"}, {**account, "Partition": "other", "MaxWall": ""}
    assert stops(judged(own=(account, {**here, "MaxWall": ""})))[0] == 0
    assert stops(judged(own=({**account, "MaxWall": ""}, here)))[0] == 1
    assert stops(judged(own=(account, elsewhere)))[0] == 1


def test_limits_that_do_not_hold_stop_nobody() -> None:
    """Without `limits` in AccountingStorageEnforce they are only written down; hours count only if agreed."""
    own = ({**OWN_ROW, "MaxTRES": "gres/gpu=1"},)
    count, note = stops(judged(own=own, enforce="associations"))
    assert (count, "no limit by account holds" in note) == (0, True)
    assert stops(judged(own=({**OWN_ROW, "MaxWall": "1:00:00"},), job=Wanted(JOB.nodes, 2, 8)))[0] == 0


@pytest.mark.parametrize("name", [OWN, ACCOUNTS, QOS, PARTITIONS, CONFIG])
@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"status": "denied", "why": "no"}, "denied"),
        ({"out": b""}, None),
        ({"out": b"sacctmgr: what?"}, None),
    ],
)
def test_what_is_not_seen_lets_nothing_pass(name: str, item: dict[str, Any], kind: str | None) -> None:
    """Without one of the tables nobody knows what stops a job; an empty list has no partition for it."""
    found = judged(lost=Item(name, 1, **item))
    assert isinstance(found, Unread) or found.value > 0
    assert kind is None or (isinstance(found, Unread) and found.kind == kind)


def test_a_user_without_an_account_is_no_pass() -> None:
    """A provider's support user may have none: then it is not for him to see."""
    found = judged(own=())
    assert isinstance(found, Unread)
    assert found.kind == "denied"


@given(st.binary())
def test_reading_never_raises(out: bytes) -> None:
    """Whatever sacctmgr prints, it is a count or unread, and rubbish lets no job pass."""
    for name in (OWN, ACCOUNTS, QOS):
        found = judged(lost=Item(name, 1, out=out))
        assert isinstance(found, Unread) or found.value >= 0


@needs_accounts()
def test_the_limits_of_a_real_database_are_read(tmp_path: Path) -> None:
    """A real slurmdbd: a limit of the account above, then none; its words stand in the row."""
    with Rack(tmp_path, LOGIN, "n1", "n2") as rack:
        part = {"batch": "Nodes=n[1-2] Default=YES MaxTime=1:00:00"}
        slurm = Accounted(rack, tmp_path / "slurm", part, enforced="associations,limits,qos")
        slurm.start()
        slurm.run("sacctmgr", "-i", "add", "account", "team", "GrpTRES=node=1")
        slurm.run("sacctmgr", "-i", "add", "user", "root", "account=team")
        site = tmp_path / "site.toml"
        site.write_text(
            '[cluster]\nname = "c"\n[[pool]]\nname = "all"\nnodes = "n[1-2]"\nhas = ["gpu"]\ngpus = 8\n'
            '[slurm]\naccount = "team"\n'
        )
        first = audited(slurm, site, tmp_path / "first")
        slurm.run("sacctmgr", "-i", "modify", "account", "team", "set", "GrpTRES=node=-1")
        second = audited(slurm, site, tmp_path / "second")

    assert first["verdict"] == "fail"
    assert "account team: GrpTRES=node=1" in first["observations"][0]["reason"]
    assert second["verdict"] == "pass"


def audited(slurm: Accounted, site: Path, run: Path) -> Any:
    """Run the check where one logs in."""
    suite = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
    checks = (f"{ROOT}/tests_audit/test_slurm.py", "-k", "account_limits", "--target=slurm")
    done = slurm.run(*suite, *checks, f"--site={site}", f"--run-dir={run}", check=False)
    assert (run / "results.json").exists(), done.stdout + done.stderr
    return json.loads((run / "results.json").read_text())["checks"]["audit.slurm.account_limits"]
