"""What is open to other tenants: export lists as they are printed, and two accounts at real HTTP servers."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Monitoring, Services
from gpuassay.measure import TOOLS
from gpuassay.measure.errands import exports
from gpuassay.measure.second_account import SecondAccount, Sight
from serving import served, surveyed

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.judge.fact import Fact
    from serving import Answer, Asked

MOUNTS = """\
proc /proc proc rw 0 0
nfs1:/export/home/team /home nfs4 rw,vers=4.2,sec=sys,hard 0 0
[fd00::1]:/data /data nfs rw,sec=krb5p 0 0
10.0.0.1@o2ib:/lfs /lfs lustre rw 0 0
"""
SHOWMOUNT = "#!/bin/sh\ncase $3 in nfs1) echo '/export/home {}';; *) echo '/data *';; esac\n"


def of_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, clients: str
) -> dict[str, Fact[bool]]:
    """Run the errand with a showmount that prints as the real one, and read what it gives."""
    table = tmp_path / "mounts"
    table.write_text(MOUNTS)
    monkeypatch.setattr(exports, "MOUNTS", table)
    if clients:
        program = tmp_path / "showmount"
        program.write_text(SHOWMOUNT.format(clients))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if clients else str(tmp_path))
    assert exports.main({"seconds": 10}) == 0
    item = Item("exports", 1, out=capsys.readouterr().out.encode())
    read = TOOLS["exports"].read("n1", {}, item, "n1#1")
    return {one.where: one.for_everybody for one in read.exports}


@pytest.mark.parametrize(
    ("clients", "everybody"),
    [
        ("10.0.0.0/16", False),
        ("*", True),
        ("(everyone)", True),
        ("n1,n2,0.0.0.0/0", True),
        ("*.example.com", False),
    ],
)
def test_an_export_for_everybody_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    clients: str,
    *,
    everybody: bool,
) -> None:
    """The export above the mount counts; with Kerberos the list alone lets nobody in; Lustre has no list."""
    found = of_node(tmp_path, monkeypatch, capsys, clients)

    assert found.keys() == {"n1/home", "n1/data"}
    home = found["n1/home"]
    assert isinstance(home, Read)
    assert home.value is everybody
    assert clients in home.note
    assert found["n1/data"] == Read(value=False, evidence="n1#1", note="/data is exported to *")


def test_without_showmount_it_is_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No program, no list: that proves nothing, either way."""
    found = of_node(tmp_path, monkeypatch, capsys, "")
    assert all(isinstance(fact, Unread) and fact.kind == "denied" for fact in found.values())


def test_a_node_without_nfs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other file systems are not judged by this."""
    monkeypatch.setattr(exports, "MOUNTS", tmp_path / "none")
    (tmp_path / "none").write_text("10.0.0.1@o2ib:/lfs /lfs lustre rw 0 0\n")
    exports.main({"seconds": 1})
    read = TOOLS["exports"].read("n1", {}, Item("exports", 1, out=capsys.readouterr().out.encode()), "n1#1")
    (only,) = read.exports
    assert isinstance(only.for_everybody, Unread)
    assert only.for_everybody.why == "it has nothing mounted by NFS"


class Monitor:
    """Prometheus and Grafana in one; ``sees`` are the nodes that each token is shown."""

    def __init__(self, **sees: list[str]) -> None:
        self._sees = sees

    def __call__(self, asked: Asked) -> Answer:
        """Answer by token."""
        who = asked.token.removeprefix("Bearer ")
        if who not in self._sees:
            return 403, "no", {}
        if asked.path == "/api/datasources":
            return 200, json.dumps([{"uid": "main", "type": "prometheus", "url": "http://a-secret"}]), {}
        metric = [{"metric": {"instance": f"{node}:9100", "job": "theirs"}} for node in self._sees[who]]
        return 200, json.dumps({"status": "success", "data": {"result": metric}}), {}


def seen(tmp_path: Path, monitor: Monitor, monkeypatch: pytest.MonkeyPatch, second: str = "b") -> list[Sight]:
    """Ask by two accounts, and read what was recorded."""
    monkeypatch.setenv("TEST_FIRST", "a")
    monkeypatch.setenv("TEST_SECOND", second)
    with served(monitor) as site:
        tokens = {"prometheus": "TEST_FIRST", "grafana": "TEST_FIRST"}
        monitoring = Monitoring(prometheus=site.address, grafana=site.address, tokens=tokens)
        services = Services(monitoring=monitoring, second_token="TEST_SECOND")  # noqa: S106 - a name
        items = [*SecondAccount().ask(services, ["gpu1", "gpu2"], {"seconds": 5}, 20)]
    told = b"".join(item.out for item in items)
    assert b"secret" not in told
    assert b"theirs" not in told
    assert b"gpu9" not in told
    numbered = [Item(**{**_fields(item), "seq": seq}) for seq, item in enumerate(items, 1)]
    return SecondAccount().read({}, surveyed(tmp_path / "survey", "second_account", numbered))


def _fields(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__slots__}


def values(sights: list[Sight]) -> dict[str, object]:
    """Give how many nodes are seen, or why that is not known."""
    return {
        one.where: one.nodes_seen.value if isinstance(one.nodes_seen, Read) else one.nodes_seen.kind
        for one in sights
    }


@pytest.mark.parametrize(
    ("theirs", "count"), [(["gpu1", "gpu9"], 1), (["gpu1", "gpu2"], 2), (["gpu9"], 0), ([], 0)]
)
def test_what_another_tenant_sees_of_these_nodes_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: list[str], count: int
) -> None:
    """His own nodes are his to see; of all that was answered, only names of ours are kept."""
    found = seen(tmp_path, Monitor(a=["gpu1", "gpu2"], b=theirs), monkeypatch)
    assert values(found) == {"prometheus": count, "grafana/main": count}


def test_one_who_is_refused_sees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 403 is an answer, and it is told."""
    found = seen(tmp_path, Monitor(a=["gpu1"]), monkeypatch)
    assert values(found) == {"prometheus": 0, "grafana/main": 0}
    assert all(isinstance(one.nodes_seen, Read) and "403" in one.nodes_seen.note for one in found)


def test_nothing_is_proven_where_the_first_account_sees_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that do not match ours, and an account that cannot ask, leave it open."""
    blind = seen(tmp_path, Monitor(a=["10.0.0.1"], b=[]), monkeypatch)
    assert values(blind) == {"prometheus": "failed", "grafana/main": "failed"}


@pytest.mark.parametrize(("second", "kind"), [("", "failed"), ("a", "failed")])
def test_an_account_that_is_missing_or_the_same_is_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, kind: str
) -> None:
    """A variable that is not set, or holds our own token, is a mistake and no pass."""
    found = seen(tmp_path, Monitor(a=["gpu1"]), monkeypatch, second)
    assert values(found) == {"another tenant's account": kind}


def test_without_a_second_account_it_is_unseen(tmp_path: Path) -> None:
    """Nobody has lent one: that is this seat's limit, and nothing is asked."""
    assert "TEST_SECOND" not in os.environ
    services = Services(monitoring=Monitoring(prometheus="http://127.0.0.1:1"))
    items = [*SecondAccount().ask(services, ["gpu1"], {"seconds": 5}, 20)]
    (found,) = SecondAccount().read({}, surveyed(tmp_path, "second_account", items))
    assert isinstance(found.nodes_seen, Unread)
    assert found.nodes_seen.kind == "denied"
    assert "[second_account] token" in found.nodes_seen.why
