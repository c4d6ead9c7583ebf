"""The Slurm target on a real Slurm: nodes in every state, from outside and inside an allocation."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.recording import Recording, read_recording
from gpuassay.probe.items import QUESTIONS
from nodes import Rack
from slurmd import LOGIN, Slurm, needs_slurm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpuassay.evidence.item import Item

pytestmark = needs_slurm()

GPUASSAY = (sys.executable, "-c", "import sys; from gpuassay.cli import main; sys.exit(main())")
OLD_DRIVER = "<nvidia_smi_log><driver_version>470.57.02</driver_version></nvidia_smi_log>"
HANGS = "#!/bin/sh\ntrap '' TERM HUP PIPE\nsleep 1000 &\nsleep 1000\n"
HUNG_S = 8
ALL = "n[1-12]"


class Cluster:
    """A Slurm whose nodes are in every state, and where its recordings lie."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm = slurm
        self.folder = folder

    def command(self, *words: str, reach: str = "") -> tuple[list[str], Path]:
        """Give the command that records, and the folder into which it does."""
        number = len(list(self.folder.glob("site-*")))
        site, run = self.folder / f"site-{number}", self.folder / f"run-{number}"
        site.write_text(
            f'[cluster]\nname = "slurm"\n[[pool]]\nnodes = "{ALL}"\n[slurm]\nwait = "4s"\n{reach}\n'
        )
        argv = [*GPUASSAY, "record", "--target=slurm", f"--site={site}", f"--deadline={HUNG_S}s", *words]
        return [*argv, str(run)], run / "recording"

    def record(self, *words: str, reach: str = "", before: tuple[str, ...] = ()) -> Recording:
        """Record from where one logs in, started by ``before``."""
        argv, run = self.command(*words, reach=reach)
        done = self.slurm.run(*before, *argv, check=False)
        assert done.returncode == 0, done.stderr
        return read_recording(run)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot a Slurm of eleven nodes, and bring them into the states of which each test speaks."""
    folder = tmp_path_factory.mktemp("slurm")
    names = [f"n{number}" for number in range(1, 12)]
    partitions = {
        "batch": "Nodes=n[1-8,10] Default=YES MaxTime=1:00:00 State=UP",
        "old": "Nodes=n9 MaxTime=1 State=UP",
        "closed": "Nodes=n11 State=DOWN",
    }
    with Rack(folder, LOGIN, *names) as rack:
        slurm = Slurm(rack, folder / "slurm", partitions)
        slurm.start()
        slurm.drain("n2", "fan State=IDLE")
        slurm.drain("n3", "power supply", state="down")
        slurm.occupy("n4", "--gres=gpu:8", "--cpus-per-task=2")
        rack["n5"].install("nvidia-smi", HANGS)
        rack["n6"].install("python3", "#!/bin/sh\nhead -c 300000 /dev/urandom\n")
        rack["n7"].install("python3", "#!/bin/sh\nexec cat /dev/zero\n")
        rack["n8"].run("hostname", "elsewhere")
        slurm.occupy("n8", "--cpus-per-task=2")
        rack["n9"].install("nvidia-smi", f"#!/bin/sh\necho '{OLD_DRIVER}'\n")
        slurm.occupy("n10", "--gres=gpu:8", "--exclusive")
        yield Cluster(slurm, folder)


def rows(recording: Recording) -> dict[str, dict[str, Item]]:
    """Give the items of each node by id."""
    return {name: {item.id: item for item in node.items} for name, node in recording.nodes.items()}


def whole(items: Mapping[str, Item]) -> bool:
    """Tell whether each question has an answer, or needed none."""
    answers = {key: item.status for key, item in items.items()}
    return all(
        question.id in answers
        or any(answers.get(other) == "ok" for other in question.unless.split(" ")[0].split("/"))
        for question in QUESTIONS
    )


def seconds(recording: Recording) -> float:
    """Tell how long gathering took."""
    begin, end = recording.meta.begin, recording.meta.end
    assert begin
    assert end
    return (end - begin).total_seconds()


def test_a_cluster_in_every_state(cluster: Cluster) -> None:
    """Each node has a row: what it answered, or why it did not; all within the deadline of one that hangs."""
    recording = cluster.record()
    items = rows(recording)
    assert items.keys() == {f"n{number}" for number in range(1, 13)}
    told = {name: (row["probe"].status, row["probe"].why) for name, row in items.items() if "probe" in row}
    assert told.keys() == {f"n{number}" for number in (2, 3, 5, 6, 7, 10, 11, 12)}
    assert told["n2"][0] == "denied"
    assert told["n2"][1].startswith("Slurm says IDLE+DRAIN: fan State=IDLE [root@")
    assert told["n3"][0] == "failed"
    assert told["n3"][1].startswith("Slurm says DOWN: power supply [root@")
    assert told["n5"] == ("timed_out", f"the probe was not done within {HUNG_S} s")
    assert told["n6"][1].startswith("the probe ended early: exit 0")
    assert any(words in told["n7"][1] for words in ("sent more than 256 MiB", "was not done within"))
    assert told["n10"][0] == "denied"
    assert told["n10"][1].startswith("busy: held by job ")
    assert told["n11"] == ("failed", "no partition leads to it: closed is DOWN")
    assert told["n12"] == ("not_found", "Slurm lists no node of this name, host name or address")
    asked = {name: row for name, row in items.items() if "nvml" in row}
    assert asked.keys() == {f"n{number}" for number in (1, 4, 5, 6, 7, 8, 9)}
    assert {name for name, row in asked.items() if not whole(row)} == set()
    assert json.loads(items["n8"]["host"].out)["hostname"] == "elsewhere"
    assert items["n8"]["nvml"].status == "not_found"  # a job runs beside, and holds no GPU
    assert b"470.57.02" in items["n9"]["nvidia-smi-xml"].out
    assert seconds(recording) < HUNG_S + 8  # the deadline, and the graces to end what hangs
    cluster.slurm.assert_nothing_runs()


def test_a_busy_node_shows_its_host(cluster: Cluster) -> None:
    """Beside the job that holds its GPUs, the host is asked; of its GPUs it is said who has them."""
    row = rows(cluster.record("--nodes=n4"))["n4"]
    assert row["host"].status == row["pci"].status == "ok"
    assert {row[item].status for item in ("nvml", "nvidia-smi-xml")} == {"denied"}
    assert row["nvml"].why.startswith("busy: held by job ")


def test_what_slurm_says_is_recorded(cluster: Cluster) -> None:
    """The cluster's own words are kept as they came, and none of them is a job's command or name."""
    said = {item.id: item for item in cluster.record("--nodes=n1").cluster.items}
    always = {f"slurm/{name}" for name in ("version", "nodes", "partitions", "config", "jobs")}
    assert {name for name, item in said.items() if item.status == "ok"} >= always
    assert b"NodeName=n11" in said["slurm/nodes"].out
    assert b"PartitionName=closed" in said["slurm/partitions"].out
    assert {len(line.split()) for line in said["slurm/jobs"].out.splitlines()} == {2}
    assert not any(b"theirs" in item.out or b"sleep 7200" in item.out for item in said.values())


def test_inside_an_allocation(cluster: Cluster) -> None:
    """The nodes of the job are asked in steps of it; the others were not, and the rest is as outside."""
    before = ("salloc", "--nodelist=n1,n5", "--gres=gpu:8", "--exclusive", "--immediate=10")
    recording = cluster.record(before=before)
    items = rows(recording)
    assert seconds(recording) < HUNG_S + 8
    assert "probe" not in items["n1"]
    assert whole(items["n1"])
    assert items["n1"]["nvml"].status == "not_found"  # there is no library, and no job is in the way
    assert items["n5"]["probe"].why == f"the probe was not done within {HUNG_S} s"
    assert "does not hold it" in items["n9"]["probe"].why
    assert items["n2"]["probe"].why.startswith("Slurm says ")
    cluster.slurm.assert_nothing_runs()


def test_an_allocation_without_gpus(cluster: Cluster) -> None:
    """A step that was given none is not told from one that was given some by what it sees: it is said."""
    row = rows(cluster.record("--nodes=n1", before=("salloc", "--nodelist=n1", "--immediate=10")))["n1"]
    assert row["nvml"].status == "denied"
    assert row["nvml"].why.endswith("holds none of its 8 GPUs")
    assert row["host"].status == "ok"


def test_the_programs_are_those_of_the_users_path(cluster: Cluster, tmp_path: Path) -> None:
    """A site has its Slurm in a folder of its own; one that the system has too is another one."""
    used = tmp_path / "used"
    program = tmp_path / "srun"
    program.write_text(f'#!/bin/sh\ntouch {used}\nexec {shutil.which("srun")} "$@"\n')
    program.chmod(0o755)
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    assert "probe" not in rows(cluster.record("--nodes=n1", before=("env", path)))["n1"]
    assert used.exists()


def test_a_job_that_finds_no_place(cluster: Cluster) -> None:
    """Where Slurm gives nothing in time, or refuses, its own words are the reason."""
    told = rows(cluster.record("--nodes=n1", reach='constraint = "nowhere"'))["n1"]["probe"]
    assert told.status == "failed"
    assert "Invalid feature specification" in told.why
    told = rows(cluster.record("--nodes=n1", reach='partition = "old"'))["n1"]["probe"]
    assert told.why == "it is not in partition old, which the site file names"
    told = rows(cluster.record("--nodes=n1", reach='arguments = ["--exclude=n1"]'))["n1"]["probe"]
    assert told.status == "failed"
    assert "srun: " in told.why


PLAN = """
import json, sys
from gpuassay.judge.reach import Reach
from gpuassay.target import Job
from gpuassay.target.choice import Wanted, choose
from gpuassay.target.progress import Tally
target = choose("slurm", Wanted((), 900.0, Reach()))
what, *argv = sys.argv[1:]
if what == "run":
    job = Job("job", tuple(argv[1:]), tuple(argv[0].split(",")), 2)
    results = target.run(job, Tally(2, lambda line: None))
    print(json.dumps([[*key, item.status, item.out.decode(), item.why] for key, item in results.items()]))
else:
    print(json.dumps(getattr(target, what)()))
"""


def test_the_plan(cluster: Cluster) -> None:
    """It says what would run where, through which partition, for how long, and what is not asked."""
    plan = json.loads(cluster.slurm.run(sys.executable, "-c", PLAN, "plan").stdout)
    assert "n[1,5-7]: the probe, in a job for the whole node through partition batch, at most 16 min" in plan
    short = "at most 1 min, which is all that partition old allows"
    assert f"n9: the probe, in a job for the whole node through partition old, {short}" in plan
    (busy,) = (line for line in plan if line.startswith("n4: "))
    assert "the probe, in a job beside others, without GPUs" in busy
    assert "GPUs unseen: busy: held by job " in busy
    assert any(line.startswith("n8: the probe, in a job beside others, with all GPUs") for line in plan)
    assert any(line.startswith("n2: not asked: Slurm says IDLE+DRAIN") for line in plan)
    assert cluster.slurm.jobs() == []


def test_a_job_on_two_nodes(cluster: Cluster) -> None:
    """Its ranks are told their places and their GPUs; the allocation is given back."""
    words = "echo $(hostname) $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $CUDA_VISIBLE_DEVICES"
    done = cluster.slurm.run(sys.executable, "-c", PLAN, "run", "n5,n1", "sh", "-c", words)
    address = cluster.slurm.rack["n5"].address
    assert json.loads(done.stdout) == [
        [name, local, "ok", f"{name} {2 * number + local} {local} 4 {address} 0,1,2,3,4,5,6,7\n", ""]
        for number, name in enumerate(("n5", "n1"))
        for local in range(2)
    ]
    cluster.slurm.assert_nothing_runs()


def test_a_job_on_a_node_that_is_out_of_service(cluster: Cluster) -> None:
    """Its ranks have Slurm's reason, those of other nodes run; where nothing can run nothing is asked for."""
    done = cluster.slurm.run(sys.executable, "-c", PLAN, "run", "n1,n2", "hostname")
    first, _, drained, _ = json.loads(done.stdout)
    assert first == ["n1", 0, "ok", "n1\n", ""]
    assert drained[:3] == ["n2", 0, "denied"]
    assert drained[4].startswith("the launcher was not started: Slurm says IDLE+DRAIN: fan")
    done = cluster.slurm.run(sys.executable, "-c", PLAN, "run", "n2", "hostname")
    assert {status for _, _, status, _, _ in json.loads(done.stdout)} == {"denied"}
    cluster.slurm.assert_nothing_runs()


def hang(cluster: Cluster, begun: Path) -> int:
    """Start a run that hangs on n5, and give its number once it does."""
    os.mkfifo(begun)
    cluster.slurm.rack["n5"].install("nvidia-smi", HANGS.replace("sleep", f"echo > {begun}\nsleep", 1))
    argv, _ = cluster.command("--nodes=n[1,5]", "--deadline=600s")
    cluster.slurm.begin(*argv)
    begun.read_text()
    running = cluster.slurm.rack[LOGIN].processes()
    return next(pid for pid, args in running.items() if "cli import" in args)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_run_that_is_ended(cluster: Cluster, tmp_path: Path, number: int) -> None:
    """Ctrl-C, or being told to stop, in the middle leaves no job, and no process on any node."""
    pid = hang(cluster, tmp_path / "begun")
    cluster.slurm.run("kill", f"-{number}", str(pid))
    cluster.slurm.assert_nothing_runs()


def test_what_is_left_of_a_run_that_is_killed_can_be_removed(cluster: Cluster, tmp_path: Path) -> None:
    """After SIGKILL, cleaning finds our jobs by their names, and ends them and no other."""
    pid = hang(cluster, tmp_path / "begun")
    cluster.slurm.run("kill", "-9", str(pid))
    cluster.slurm.run(*GPUASSAY, "clean", "--target=slurm")
    cluster.slurm.assert_nothing_runs()
    theirs = cluster.slurm.run("squeue", "--noheader", "--name=theirs", "--format=%N").stdout.split()
    assert sorted(theirs) == ["n10", "n4", "n8"]
    assert json.loads(cluster.slurm.run(sys.executable, "-c", PLAN, "clean").stdout) == []


def test_a_srun_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """It leaves no job: the node's row says what happened, and the others are as they were."""
    hang(cluster, tmp_path / "begun")
    running = cluster.slurm.rack[LOGIN].processes()
    ours = [str(pid) for pid, args in running.items() if "--nodelist=n5" in args and "gpuassay-" in args]
    assert ours
    cluster.slurm.run("kill", "-9", *ours, check=False)  # one of them may end with another
    cluster.slurm.assert_nothing_runs()


def test_a_controller_that_does_not_answer(cluster: Cluster, tmp_path: Path) -> None:
    """It is said in words, not waited for for ever."""
    conf = tmp_path / "slurm.conf"
    text = (cluster.slurm.folder / "slurm.conf").read_text()
    text = text.replace("SlurmctldHost=login", "SlurmctldHost=nobody(10.77.0.250)")
    conf.write_text(text.replace("MessageTimeout=6", "MessageTimeout=2"))
    argv, _ = cluster.command()
    done = cluster.slurm.run("env", f"SLURM_CONF={conf}", *argv, check=False)
    assert done.returncode == 2
    assert "Slurm cannot be asked for its nodes: scontrol " in done.stderr
