"""The ssh target on real sshd: nodes in every state, of which each gets a complete row in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.recording import Recording, read_recording
from gpuassay.judge.reach import SshReach
from gpuassay.probe.items import QUESTIONS
from gpuassay.target import TargetError
from gpuassay.target.channel import Ending
from gpuassay.target.ssh import Ssh, explained
from nodes import Node, Rack, needs
from plugging import QUICK, ROOT
from sshd import Access

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.evidence.item import Item

pytestmark = needs("sshd", "ssh", "ssh-keygen", "fish", "tcsh")

OLD_DRIVER = """
<nvidia_smi_log><driver_version>470.57.02</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:18:00.0"><product_name>NVIDIA B200</product_name></gpu></nvidia_smi_log>
"""
GPUASSAY = (sys.executable, "-c", "import sys; from gpuassay.cli import main; sys.exit(main())")
HANGS = "#!/bin/sh\ntrap '' TERM HUP PIPE\nsleep 1000 &\nsleep 1000\n"


class Cluster:
    """A login node from which the others are reached, and how they are."""

    def __init__(self, rack: Rack, access: Access, folder: Path) -> None:
        self.rack = rack
        self.access = access
        self.folder = folder

    def record(self, nodes: str, *words: str, ssh: Mapping[str, object] | None = None) -> Recording:
        """Record from the login node; ``ssh`` is the table of the site file."""
        run = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
        argv = self.command(run, nodes, *words, ssh=ssh)
        done = self.rack["login"].run(*argv, env=environment(), check=False)
        assert done.returncode == 0, done.stderr
        return read_recording(run / "recording")

    def command(
        self, run: Path, nodes: str, *words: str, ssh: Mapping[str, object] | None = None
    ) -> list[str]:
        """Give the command that records into a new folder."""
        table = {"config": str(self.access.config), "connect_timeout": "3s", **(ssh or {})}
        keys = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
        site = self.folder / f"{run.name}.toml"
        site.write_text(f'[cluster]\nname = "ssh"\n[[pool]]\nnodes = "{nodes}"\n[ssh]\n{keys}\n')
        return [*GPUASSAY, "record", "--target=ssh", f"--site={site}", *words, str(run)]


def environment() -> dict[str, str]:
    """Give the environment in which the command finds this package, and no agent."""
    path = os.pathsep.join(filter(None, sys.path))
    return {**{k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"}, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot a login node and nine nodes with sshd, in every state of the target's list."""
    folder = tmp_path_factory.mktemp("ssh")
    with Rack(folder, "login", *(f"n{number}" for number in range(1, 12))) as rack:
        access = Access.create(folder)
        for number in range(1, 11):
            access.serve(rack[f"n{number}"])
        rack["n2"].power_off()
        rack["n3"].install("nvidia-smi", HANGS)
        rack["n4"].install("python3", "#!/bin/sh\nhead -c 300000 /dev/urandom\n")
        rack["n5"].install("python3", "#!/bin/sh\nexec cat /dev/zero\n")
        rack["n6"].run("hostname", "elsewhere")
        rack["n6"].install(
            "systemd-detect-virt", "#!/bin/sh\necho none\n"
        )  # also where tests run in a container
        access.mistake("n7")
        rack["n8"].install("nvidia-smi", f"#!/bin/sh\ncat <<'END'\n{OLD_DRIVER}\nEND\n")
        access.forget("n9")
        rack["n10"].pull_cable()
        yield Cluster(rack, access, folder)


def whole(items: Mapping[str, Item]) -> bool:
    """Tell whether each question has an answer, or needed none."""
    answers = {key: item.status for key, item in items.items()}
    return all(
        question.id in answers
        or any(answers.get(other) == "ok" for other in question.unless.split(" ")[0].split("/"))
        for question in QUESTIONS
    )


def rows(recording: Recording) -> dict[str, dict[str, Item]]:
    """Give the items of each node by id."""
    return {name: {item.id: item for item in node.items} for name, node in recording.nodes.items()}


def test_a_cluster_in_every_state(cluster: Cluster) -> None:
    """Each node has a complete row, with the reason where it gave no answer; all within one's deadline."""
    recording = cluster.record("n[1-12]", "--deadline=12s")
    begin, end = recording.meta.begin, recording.meta.end
    assert begin
    assert end
    assert (end - begin).total_seconds() < 12 + 8  # the deadline, and the graces to end what hangs
    items = rows(recording)
    assert list(items) == sorted(f"n{number}" for number in range(1, 13))
    assert {name for name, row in items.items() if not whole(row)} == set()
    why = {name: row["probe"].why for name, row in items.items() if "probe" in row}
    assert why.keys() == {"n2", "n3", "n4", "n5", "n7", "n9", "n10", "n11", "n12"}
    assert "it does not answer: it is down" in why["n2"]
    assert why["n3"] == "the probe was not done within 12 s"
    assert why["n4"].startswith("the probe ended early: exit 0")
    assert why["n5"].startswith("the probe sent more than 256 MiB")
    assert "its host key has changed" in why["n7"]
    assert "ssh-keygen -R" in why["n7"]
    assert "its host key is not known" in why["n9"]
    assert "it does not answer: it is down" in why["n10"]
    assert "it refuses the connection" in why["n11"]
    assert "its name cannot be resolved" in why["n12"]
    assert "n12" in items["n12"]["probe"].err
    status = {name: row["probe"].status for name, row in items.items() if "probe" in row}
    assert {name for name, one in status.items() if one == "timed_out"} == {"n2", "n3", "n10"}
    assert json.loads(items["n6"]["host"].out)["hostname"] == "elsewhere"
    assert b"470.57.02" in items["n8"]["nvidia-smi-xml"].out
    assert items["n3"]["host"].status == "ok"
    assert_nothing_runs(cluster.rack)


def test_the_audit_of_such_a_cluster(cluster: Cluster) -> None:
    """A lying name and an old driver are found, and a node that is not reached is an error."""
    run = cluster.folder / "audited"
    site = cluster.command(run, "n[1,6-8]")[-2]
    words = [str(ROOT / "tests_audit"), "-c", str(ROOT / "pyproject.toml"), *QUICK]
    audit = [sys.executable, "-m", "pytest", *words, "--target=ssh", site, f"--run-dir={run}"]
    done = cluster.rack["login"].run(*audit, env=environment(), check=False)
    assert done.returncode == 1, done.stdout
    results = json.loads((run / "results.json").read_text())
    checks = results["checks"]
    said = [
        f"{row['verdict']} {row['where']}: {row['reason']}"
        for check in ("audit.host.node_name", "audit.versions.driver_floor")
        for row in checks[check]["observations"]
    ]
    assert "fail n6: is_called_so is false, expected true — it calls itself elsewhere" in said
    assert any(row.startswith("error n7: ") and "its host key has changed" in row for row in said)
    assert any(row.startswith("fail n8: version is 470.57.02") for row in said)
    assert results["coverage"]["nodes"] == {"declared": 4, "answered": 3, "out": 0}


def test_every_login_shell_is_told_the_same(tmp_path: Path) -> None:
    """The probe gets through csh, fish and a talkative bash; what that says is no harm."""
    shells = {"n1": "/usr/bin/fish", "n2": "/usr/bin/tcsh", "n3": "/bin/bash"}
    with Rack(tmp_path, "login", *shells) as rack:
        access = Access.create(tmp_path)
        for name, shell in shells.items():
            access.serve(rack[name], shell=shell)
        (access.home(rack["n3"]) / ".bashrc").write_text("echo Welcome!; echo of n3 >&2; printf 'no end: '\n")
        cluster = Cluster(rack, access, tmp_path)
        items = rows(cluster.record("n[1-3]"))
        assert all("probe" not in row and whole(row) for row in items.values())
        assert {name: json.loads(row["host"].out)["hostname"] for name, row in items.items()} == {
            name: name for name in shells
        }
        assert_nothing_runs(rack)


def test_a_jump_host(cluster: Cluster) -> None:
    """A node behind another is reached through it; one that has no power lets nobody through."""
    assert "probe" not in rows(cluster.record("n8", ssh={"jump": "n1"}))["n8"]
    through = rows(cluster.record("n8", ssh={"jump": "n2"}))["n8"]["probe"].why
    assert "did not reach the node through n2: it does not answer" in through


def test_a_node_that_does_not_let_us_in(cluster: Cluster) -> None:
    """The wrong user is denied, in so many words; nobody is asked for a password."""
    told = rows(cluster.record("n1", ssh={"user": "nobody"}))["n1"]["probe"]
    assert told.status == "denied"
    assert "it does not let us in" in told.why
    assert "Permission denied (publickey)" in told.err


def test_a_python_that_is_not_there(cluster: Cluster) -> None:
    """Its name is in the reason, and what to do."""
    told = rows(cluster.record("n1", ssh={"python": "/opt/python9"}))["n1"]["probe"]
    assert told.status == "not_found"
    assert "found no /opt/python9" in told.why
    assert "python in [ssh]" in told.why


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_runs_on_after_a_run_that_is_ended(cluster: Cluster, tmp_path: Path, number: int) -> None:
    """However it ends while a tool hangs there, the probe on the node notices, and ends both."""
    node = cluster.rack["n3"]
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    node.install("nvidia-smi", HANGS.replace("sleep", f"echo > {begun}\nsleep", 1))
    cluster.folder.joinpath(f"ended-{number}").mkdir()
    argv = cluster.command(cluster.folder / f"ended-{number}" / "run", "n3")
    controller = cluster.rack["login"].start(*argv, env=environment(), stderr=subprocess.DEVNULL)
    begun.read_text()
    inside = next(pid for pid, args in cluster.rack["login"].processes().items() if "cli import" in args)
    cluster.rack["login"].run("kill", f"-{number}", str(inside))
    assert controller.wait(60) != 0
    assert_nothing_runs(cluster.rack)


MEET = """
import os, socket
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", place[1]), backlog=world) as server:
        met = [server.accept()[0] for _ in range(world - 1)]
    print(sorted(int(one.makefile().readline()) for one in met))
    for one in met:
        one.sendall(b"all here")
else:
    while True:
        try:
            with socket.create_connection(place) as one:
                one.sendall(b"%d\\n" % rank)
                print(one.makefile().read())
            break
        except ConnectionRefusedError:
            pass
print(socket.gethostname(), os.environ["GROUP_RANK"], os.environ["LOCAL_RANK"])
"""
RUN = """
import json, sys
from gpuassay.judge.reach import SshReach
from gpuassay.target import Job
from gpuassay.target.progress import Tally
from gpuassay.target.ssh import Ssh
config, nodes, argv, ranks, deadline = json.loads(sys.argv[1])
job = Job("job", tuple(argv), tuple(nodes), ranks, deadline_s=deadline)
results = Ssh(job.nodes, SshReach(config=config)).run(job, Tally(len(nodes), lambda line: None))
print(json.dumps([[*key, item.status, item.out.decode(), item.why] for key, item in results.items()]))
"""


def run_job(cluster: Cluster, nodes: list[str], *argv: str, deadline_s: float = 30) -> list[list[object]]:
    """Run a job of two ranks a node from the login node; give node, number, status, output and reason."""
    words = json.dumps([str(cluster.access.config), nodes, argv, 2, deadline_s])
    done = cluster.rack["login"].run(sys.executable, "-c", RUN, words, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    results: list[list[object]] = json.loads(done.stdout)
    return results


def test_ranks_of_two_nodes_meet(cluster: Cluster) -> None:
    """Two ranks on each of two nodes find each other at the address and port that all are told."""
    results = run_job(cluster, ["n8", "n1"], "python3", "-c", MEET)
    assert results == [
        ["n8", 0, "ok", "[1, 2, 3]\nn8 0 0\n", ""],
        ["n8", 1, "ok", "all here\nn8 0 1\n", ""],
        ["n1", 0, "ok", "all here\nn1 1 0\n", ""],
        ["n1", 1, "ok", "all here\nn1 1 1\n", ""],
    ]
    assert_nothing_runs(cluster.rack)


def test_a_job_with_a_node_that_is_not_there(cluster: Cluster) -> None:
    """Its ranks have the reason; those of the other node end with the deadline, and nothing runs on."""
    results = run_job(cluster, ["n12", "n1"], "sleep", "1000", deadline_s=1)
    assert [result[:3] for result in results] == [
        ["n12", 0, "failed"],
        ["n12", 1, "failed"],
        ["n1", 0, "timed_out"],
        ["n1", 1, "timed_out"],
    ]
    assert "the launcher did not reach the node: its name cannot be resolved" in str(results[0][4])
    assert_nothing_runs(cluster.rack)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_job_that_is_cancelled_ends_everywhere(cluster: Cluster, tmp_path: Path, number: int) -> None:
    """Ranks on other machines end when we do, also those that left their process groups."""
    begun = [tmp_path / name for name in ("n1", "n8")]
    for fifo in begun:
        os.mkfifo(fifo)
    code = f"setsid sh -c 'echo > {tmp_path}/$(hostname); trap \"\" TERM HUP PIPE; sleep 1000; sleep 1000'"
    words = json.dumps([str(cluster.access.config), ["n1", "n8"], ["sh", "-c", code], 1, 100])
    login = cluster.rack["login"]
    controller = login.start(sys.executable, "-c", RUN, words, env=environment(), stderr=subprocess.DEVNULL)
    for fifo in begun:
        fifo.read_text()
    inside = next(pid for pid, args in login.processes().items() if "gpuassay.target.ssh" in args)
    login.run("kill", f"-{number}", str(inside))
    assert controller.wait(60) != 0
    assert_nothing_runs(cluster.rack)


def test_a_name_of_the_user_s_own(cluster: Cluster) -> None:
    """Where ssh's configuration makes another host of a name, that is told, and the node goes by both."""
    with cluster.access.config.open("a") as config:
        config.write("\nHost mine\n  HostName n1\n  HostKeyAlias n1\n")
    recording = cluster.record("mine", "--deadline=60s")
    hosts = recording.cluster.item("ssh/hosts")
    assert hosts is not None
    assert json.loads(hosts.out) == {"mine": "n1"}
    assert json.loads(rows(recording)["mine"]["host"].out)["hostname"] == "n1"


def test_ssh_itself_needs_to_be_told_the_nodes() -> None:
    """There is no list of nodes to fall back upon, and an address is no name."""
    with pytest.raises(TargetError, match="Name them with --nodes"):
        Ssh((), SshReach()).declared()
    with pytest.raises(TargetError, match="2001:db8::1 is no name of a node"):
        Ssh(("2001:db8::1",), SshReach()).declared()


@pytest.mark.parametrize(
    ("last_words", "why", "meaning"),
    [
        (
            "kex_exchange_identification: read: Connection reset by peer",
            "ended early: exit 255",
            "MaxStartups",
        ),
        ("Timeout, server n1 not responding.", "ended early: exit 255", "fell silent"),
        ("unheard of", "ended early: exit 255", "lost its ssh: unheard of"),
        ("", "ended early: exit 255", "no word of it"),
        ("gpuassay needs Python 3.9 or newer, this is 3.6.8", "ended early: exit 1", "this is 3.6.8"),
        ("Unknown option: -I\nusage: python2", "ended early: exit 2", "too old"),
        ("Permission denied (publickey).", "ended early: exit 1", "ended early: exit 1"),
    ],
)
def test_what_ssh_says_is_put_into_words(last_words: str, why: str, meaning: str) -> None:
    """Each way to fail has its own words; what is not ssh's is not taken for its."""
    assert meaning in explained(Ending("failed", why, last_words), SshReach()).why


def assert_nothing_runs(rack: Rack) -> None:
    """Nothing but sshd itself is left on any node that is up; what is just ending is waited for."""
    for node in rack:
        if Path(f"/proc/{node.pid}").exists():
            for pid in started(node):
                node.run("timeout", "15", "tail", "--pid", str(pid), "-f", "/dev/null", check=False)
            assert started(node) == {}


def started(node: Node) -> dict[int, str]:
    """Give what runs on a node beside the sshd that listens."""
    return {pid: args for pid, args in node.processes().items() if "[listener]" not in args}
