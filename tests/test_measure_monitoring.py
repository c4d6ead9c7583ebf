"""Real monitoring is asked and read: Prometheus with two exporters of which one hangs, and Alertmanager.

Grafana is in no registry that tests may use: it is a small server with the part of its API that is asked.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuassay.evidence.recording import read_recording
from gpuassay.facts import fleet
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Monitoring, Services
from gpuassay.judge.site import undeclared
from gpuassay.measure import SURVEYS
from gpuassay.suite import load_suite
from recorded import build
from recorded.description import FIXTURES
from recorded.monitoring import FIELDS
from serving import HANG, Asked, served, surveyed
from stack import Stack, stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.facts.alertmanager import Alertmanager
    from gpuassay.facts.exporters import Exporters
    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.grafana import Grafana
    from gpuassay.facts.node import Node
    from gpuassay.facts.prometheus import Prometheus
    from gpuassay.judge.fact import Fact
    from serving import Answer, Site

TOKEN = "GPUASSAY_TEST_TOKEN"  # noqa: S105 - the name of a variable
# Two series that an operator without labels cannot tell apart: it fails whenever it is evaluated.
PAIR = " or ".join(f"label_replace(vector(1), 'a', '{n}', '', '')" for n in (1, 2))
RULES = f"""
groups:
- name: gpu
  rules:
  - {{record: "gpu:xids", expr: "max by (UUID) (DCGM_FI_DEV_XID_ERRORS)"}}
  - {{alert: Fault, expr: "gpu:xids > 0"}}
  - {{alert: Broken, expr: "({PAIR}) * on() ({PAIR})"}}
  - {{alert: Gone, expr: "up{{job='DCGM_FI_DEV_ECC_DBE_VOL_TOTAL'}} == 0"}}
"""
RECEIVERS = """
route: {receiver: team, routes: [{receiver: "null", matchers: [severity="none"]}]}
receivers:
- name: "null"
- name: team
  webhook_configs: [{url: "http://127.0.0.1:9/a-secret-in-a-path"}]
"""


@dataclass
class Machine:
    """A node by another name, with the GPUs of a recorded one."""

    name: str
    gpus: tuple[Gpu, ...]
    aliases: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def gpus() -> tuple[Gpu, ...]:
    """Give the GPUs of a recorded node."""
    site = undeclared(load_suite(FIXTURES.parents[1]).catalog)
    return fleet(read_recording(build("monitored-2")), site).nodes[0].gpus


def node(name: str, gpus: tuple[Gpu, ...]) -> Node:
    """Give a node by a name that leads to loopback."""
    return cast("Node", Machine(name, gpus))


def value(fact: Fact[Any]) -> Any:
    """Give what was read."""
    assert isinstance(fact, Read), fact
    return fact.value


def page(gpus: tuple[Gpu, ...]) -> str:
    """Write the page of an exporter that has lost the last of these GPUs."""
    labels = [f'gpu="{n}",UUID="{value(gpu.uuid)}",Hostname="gpu001"' for n, gpu in enumerate(gpus[:-1])]
    lines = [f"{name}{{{one}}} {figure}\n" for name, figure in FIELDS.items() for one in labels]
    uuid = value(gpus[0].uuid)
    busy = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{uuid}",Hostname="gpu001",hpc_job="4711"}} 97\n'
    return "".join([*lines, busy])


@pytest.fixture(scope="module")
def exporters(gpus: tuple[Gpu, ...]) -> Iterator[tuple[Site, Site]]:
    """Run two exporters on the same port of two addresses; the second accepts and never answers."""
    with (
        served(lambda _: (200, page(gpus), {"Content-Type": "text/plain"})) as first,
        served(lambda _: HANG, "127.0.0.2", first.port) as second,
    ):
        yield first, second


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, exporters: tuple[Site, Site]) -> Iterator[Stack]:
    """Run the real programs."""
    targets = [one.address.removeprefix("http://") for one in exporters]
    with stack(tmp_path_factory.mktemp("stack"), RULES, RECEIVERS, targets) as one:
        yield one


def ask(folder: Path, name: str, where: Monitoring, *nodes: str, seconds: float = 20.0) -> Any:
    """Ask one service, record it, and read it from the recording."""
    survey = SURVEYS[name]
    answers = survey.ask(Services(monitoring=where), nodes, {"seconds": seconds}, 60.0)
    items = [replace(answer, seq=seq) for seq, answer in enumerate(answers, 1)]
    found = surveyed(folder, name, items)
    assert "a-secret" not in (folder / "measure" / f"{name}.jsonl").read_text()
    return survey.read({}, found)[0]


@pytest.fixture
def prometheus(tmp_path: Path, running: Stack) -> Prometheus:
    """Ask the real Prometheus."""
    found: Prometheus = ask(tmp_path, "prometheus", Monitoring(prometheus=f"http://{running.prometheus}"))
    return found


def test_targets_that_are_down_are_named_with_their_error(
    prometheus: Prometheus, exporters: tuple[Site, Site]
) -> None:
    """The exporter that hangs is down, in Prometheus' own words; the others are up."""
    down = {one.where: one.up for one in prometheus.targets if not value(one.up)}

    assert len(prometheus.targets) == 3
    assert list(down) == [f"prometheus/nodes/127.0.0.2:{exporters[1].port}"]
    (up,) = down.values()
    assert isinstance(up, Read)
    assert "deadline exceeded" in up.note


def test_gpus_and_fields_are_found_in_a_real_prometheus(
    prometheus: Prometheus, gpus: tuple[Gpu, ...]
) -> None:
    """Its own query language gives what the recorded cluster has: one GPU is missing, and no field."""
    missing = prometheus.gpus_missing(node("gpu001", gpus))

    assert isinstance(missing, Read)
    assert (missing.value, missing.note) == (1, f"7 of 8; missing: {gpus[-1].where}")
    assert 0 <= value(prometheus.sample_age_s(node("gpu001", gpus))) < 60
    assert value(prometheus.faults_missing(gpus)) == 0
    assert value(prometheus.work_missing(gpus)) == 0


def test_hosts_are_known_by_what_they_call_themselves(prometheus: Prometheus) -> None:
    """A real node-exporter tells the name of this machine, and of no other."""
    assert value(prometheus.has_host(node(platform.node(), ()))) is True
    assert value(prometheus.has_host(node("another", ()))) is False


def test_a_rule_counts_by_what_it_asks_for(prometheus: Prometheus) -> None:
    """By way of a recording rule it counts; a metric that is only named in a text does not."""
    rules = prometheus.rules

    assert value(rules.faults) is True
    assert value(rules.down) is True
    assert value(rules.memory) is False
    assert value(rules.links) is False


def test_a_rule_that_cannot_be_evaluated_is_named(prometheus: Prometheus) -> None:
    """Prometheus itself says which and why."""
    broken = prometheus.rules.broken

    assert isinstance(broken, Read)
    assert broken.value == 1
    assert "Broken: found duplicate series" in broken.note


def test_alerts_go_to_an_alertmanager_whose_receivers_have_means(
    prometheus: Prometheus, tmp_path: Path, running: Stack
) -> None:
    """Of its receivers one tells somebody; where to stays out of the recording."""
    where = Monitoring(alertmanager=f"http://{running.alertmanager}")
    found: Alertmanager = ask(tmp_path, "alertmanager", where)

    assert value(prometheus.alertmanagers) == 1
    assert isinstance(found.receivers, Read)
    assert (found.receivers.value, found.receivers.note) == (1, "null, team: team would tell somebody")
    assert value(found.answers_anyone) is True


def test_how_long_metrics_are_kept_is_what_was_configured(prometheus: Prometheus) -> None:
    """Two weeks are fourteen days."""
    assert value(prometheus.retention_days) == 14


def test_a_prometheus_without_a_login_is_open(prometheus: Prometheus) -> None:
    """As Debian ships it, it answers anybody; that is said of this seat only."""
    open_to = prometheus.answers_anyone

    assert isinstance(open_to, Read)
    assert open_to.value is True
    assert "not seen from here" in open_to.note


def test_whose_work_a_gpu_does_is_told_from_labels(prometheus: Prometheus) -> None:
    """A GPU worked for a job that is named, and for no pod."""
    assert value(prometheus.names_jobs) is True
    assert value(prometheus.names_pods) is False


def test_each_node_is_asked_for_its_exporter(
    tmp_path: Path, exporters: tuple[Site, Site], gpus: tuple[Gpu, ...]
) -> None:
    """One hangs and is said to, one shows seven of eight GPUs, and the third node has no name here."""
    where = Monitoring(exporters=(f":{exporters[0].port}/metrics",))
    nodes = ("127.0.0.1", "127.0.0.2", "no-such-node.invalid")
    found: Exporters = ask(tmp_path, "exporters", where, *nodes, seconds=0.5)
    good, hung, lost = (node(name, gpus) for name in nodes)

    assert value(found.answered(good)) is True
    assert value(found.gpus_missing(good)) == 1
    assert value(found.faults_missing(good)) == 0
    assert value(found.answered(hung)) is False
    assert isinstance(found.gpus_missing(hung), Unread)
    assert isinstance(found.answered(lost), Unread)


DASHBOARD = {
    "dashboard": {
        "title": "Fleet",
        "templating": {"list": [{"name": "source", "type": "datasource", "current": {"value": "default"}}]},
        "panels": [
            {
                "title": "row",
                "panels": [
                    {
                        "title": "Activity",
                        "datasource": {"uid": "${source}"},
                        "targets": [{"expr": 'DCGM_FI_PROF_SM_ACTIVE{Hostname="$node"}'}],
                    }
                ],
            },
            {"title": "Power", "datasource": "Prometheus", "targets": [{"expr": "DCGM_FI_DEV_POWER_USAGE"}]},
            {"title": "Load", "targets": [{"expr": "node_load1"}]},
        ],
    }
}


def grafana(asked: Asked) -> Answer:
    """Answer as Grafana does: nothing but its health without a login."""
    path = asked.path.partition("?")[0]
    if path == "/api/health":
        return 200, json.dumps({"database": "ok", "version": "12.1.0"}), {}
    if not asked.token:
        return 401, json.dumps({"message": "Unauthorized"}), {}
    if path == "/api/ds/query":
        query = json.loads(asked.body)["queries"][0]
        values = [[1], [250]] if query["expr"] == "DCGM_FI_DEV_POWER_USAGE" else []
        frames = [{"data": {"values": values}}] if query["datasource"]["uid"] == "main" else []
        return 200, json.dumps({"results": {"A": {"frames": frames}}}), {}
    pages: dict[str, Any] = {
        "/api/search": [{"uid": "fleet"}, {"uid": "hosts"}, {"uid": "private"}],
        "/api/datasources": [
            {
                "uid": "main",
                "name": "Prometheus",
                "type": "prometheus",
                "isDefault": True,
                "url": "http://a-secret",
            }
        ],
        "/api/dashboards/uid/fleet": DASHBOARD,
        "/api/dashboards/uid/hosts": {"dashboard": {"title": "Hosts", "panels": []}},
    }
    return (200, json.dumps(pages[path]), {}) if path in pages else (403, "not yours", {})


def test_the_panels_of_a_dashboard_are_asked_through_grafana(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those over GPUs are asked, variables filled in, of the data source that each of them names."""
    monkeypatch.setenv(TOKEN, "a-secret-token")
    with served(grafana) as site:
        found: Grafana = ask(tmp_path, "grafana", Monitoring(grafana=site.address, tokens={"grafana": TOKEN}))
    queries = [json.loads(one.body)["queries"][0] for one in site.asked if one.body]

    assert {query["expr"] for query in queries} == {
        'DCGM_FI_PROF_SM_ACTIVE{Hostname=~".*"}',
        "DCGM_FI_DEV_POWER_USAGE",
    }
    assert value(found.answers) is True
    assert value(found.answers_anyone) is False
    assert value(found.gpu_dashboards) == 1
    assert value(found.log_sources) == 0
    (dashboard,) = found.dashboards
    assert dashboard.where == "grafana/Fleet"
    assert value(dashboard.filled_percent) == 50
    assert isinstance(dashboard.filled_percent, Read)
    assert "Activity" in dashboard.filled_percent.note


def test_without_a_token_grafana_is_unseen_and_not_at_fault(tmp_path: Path) -> None:
    """What needs a login cannot be seen from this seat: that is no dashboard that is missing."""
    with served(grafana) as site:
        found: Grafana = ask(tmp_path, "grafana", Monitoring(grafana=site.address))

    assert value(found.answers) is True
    assert isinstance(found.gpu_dashboards, Unread)
    assert found.gpu_dashboards.kind == "denied"
    assert [one.filled_percent for one in found.dashboards] == [found.gpu_dashboards]
