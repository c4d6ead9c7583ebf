"""What services of the monitoring answer, read: odd answers, and words of many forms."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_recording
from gpuassay.facts import fleet
from gpuassay.facts.alertmanager import Alertmanager
from gpuassay.facts.dashboards import panels
from gpuassay.facts.exporters import Exporters, series
from gpuassay.facts.gpu_metrics import about, queried
from gpuassay.facts.grafana import Grafana
from gpuassay.facts.prometheus import Prometheus
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.site import undeclared
from gpuassay.measure.alertmanager import receivers
from gpuassay.suite import load_suite
from recorded import build, monitoring
from recorded.description import FIXTURES
from recorded.items import SECONDS
from serving import surveyed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts.node import Node

NODE: Node = fleet(
    read_recording(build("monitored-2")), undeclared(load_suite(FIXTURES.parents[1]).catalog)
).nodes[0]


def prometheus(folder: Path, **answers: object) -> Prometheus:
    """Read answers of Prometheus, by item: what lies under ``data``."""
    documents = {key.replace("__", "/"): {"status": "success", "data": data} for key, data in answers.items()}
    items = [Item(key, 0, out=json.dumps(whole).encode()) for key, whole in documents.items()]
    items = [replace(item, seq=seq) for seq, item in enumerate(items, 1)]
    return Prometheus(surveyed(folder, "prometheus", items))


# --- words ---------------------------------------------------------------------------------------


def test_a_query_asks_for_its_metrics_and_not_for_its_texts() -> None:
    """Labels in quotes may hold anything; a selector by name is one of names."""
    query = """sum by (UUID) (rate(A_total{x="B", y=~'C|D'}[5m])) > 0 and {__name__=~"E|F"} offset 1h"""
    asked = queried(query)

    assert {"A_total", "E", "F"} <= asked
    assert asked.isdisjoint({"B", "C", "D"})


@pytest.mark.parametrize(
    ("topic", "query"),
    [
        ("faults", "increase(DCGM_EXP_XID_ERRORS_COUNT[5m]) > 0"),
        ("faults", "amd_gpu_health == 0"),
        ("memory", "DCGM_FI_DEV_ROW_REMAP_PENDING > 0"),
        ("memory", "increase(gpu_ecc_uncorrect_total[1h]) > 0"),
        ("down", 'absent(up{job="dcgm"})'),
        ("down", 'kube_node_status_condition{condition="Ready",status="true"} == 0'),
        ("links", "rate(node_infiniband_link_downed_total[5m]) > 0"),
        ("links", 'node_network_carrier{device=~"rdma.*"} == 0'),
    ],
)
def test_an_alert_is_about_what_it_asks_for(topic: str, query: str) -> None:
    """NVIDIA's, AMD's, Kubernetes' and node-exporter's metrics are known."""
    assert about(topic, queried(query))
    assert not about(topic, queried('sum(rate(http_requests_total{job="up"}[5m])) > 100'))


def test_names_and_labels_are_read_from_a_page() -> None:
    """Comments are passed over; a label may hold commas, braces and quotes."""
    text = (
        '# HELP a_total up{x="1"} 1\n'
        'a_total{x="1",y="a, \\"b\\" {c}"} 3 1796025600000\n'
        "b 4e5\n"
        "c{} NaN\n"
        "this is no series"
    )

    assert list(series(text)) == [("a_total", {"x": "1", "y": 'a, \\"b\\" {c}'}), ("b", {}), ("c", {})]


@pytest.mark.parametrize(
    ("said", "days"), [("15d", 15), ("2w or 50GiB", 14), ("1y", 365), ("36h", 1.5), ("1d12h", 1.5)]
)
def test_a_time_is_read_in_the_words_of_prometheus(tmp_path: Path, said: str, days: float) -> None:
    """Also where a size is a limit beside it."""
    kept = prometheus(tmp_path, runtimeinfo={"storageRetention": said}).retention_days

    assert isinstance(kept, Read)
    assert kept.value == days


@pytest.mark.parametrize("said", ["50GiB", "", "for ever", 15])
def test_what_is_no_time_is_not_taken_for_one(tmp_path: Path, said: object) -> None:
    """A limit of size alone says nothing of days."""
    assert isinstance(prometheus(tmp_path, runtimeinfo={"storageRetention": said}).retention_days, Unread)


def test_variables_of_a_panel_are_filled_in_as_all() -> None:
    """In a matcher as "any", elsewhere by their value; Grafana's own are left to it."""
    query = (
        'topk($n, rate(DCGM_FI_DEV_GPU_UTIL{a="$node", b=~"x-${gpu:regex}", c!="[[none]]"}'
        "[$__rate_interval])) > $limit"
    )
    document = {
        "dashboard": {
            "templating": {"list": [{"name": "n", "current": {"value": "5"}}]},
            "panels": [{"title": "T", "datasource": {"uid": "p"}, "targets": [{"expr": query}]}],
        }
    }
    (panel,) = panels(document, [])

    assert panel.query == (
        'topk(5, rate(DCGM_FI_DEV_GPU_UTIL{a=~".*", b=~".*", c!="none"}[$__rate_interval])) > 5m'
    )


def test_a_receiver_is_known_by_its_means_and_nothing_else_is_kept() -> None:
    """The form is that in which Alertmanager prints its own configuration."""
    config = (
        "global:\n  smtp_auth_password: secret\nroute:\n  receiver: team\nreceivers:\n"
        '- name: "null"\n- name: team\n  email_configs:\n  - to: secret\n    headers:\n      From: secret\n'
        "  slack_configs:\n  - api_url: secret\n- name: later\ntemplates: []\n"
    )
    kept = receivers(json.dumps({"config": {"original": config}}).encode())

    assert json.loads(kept) == {"receivers": {"null": [], "team": ["email", "slack"], "later": []}}
    assert receivers(b"<html>") == b""


# --- what cannot be told -------------------------------------------------------------------------


def test_attribution_is_not_judged_on_idle_gpus(tmp_path: Path) -> None:
    """Without work there is no label to expect."""
    found = prometheus(tmp_path, query__jobs={"result": []}, query__worked={"result": []})

    assert isinstance(found.names_jobs, Unread)
    assert found.names_jobs.kind == "not_asked"


def test_work_without_a_label_is_not_attributed(tmp_path: Path) -> None:
    """GPUs worked, and no series names a job."""
    worked = {"result": [{"metric": {}, "value": [1, "8"]}]}
    found = prometheus(tmp_path, query__jobs={"result": []}, query__worked=worked)

    assert found.names_jobs == Read(value=False, evidence="measure/prometheus#2")


def test_a_prometheus_that_scrapes_nothing_has_no_target_that_is_up(tmp_path: Path) -> None:
    """An empty list is not a list of targets that are all up."""
    (only,) = prometheus(tmp_path, targets={"activeTargets": []}).targets

    assert isinstance(only.up, Unread)


def test_an_error_of_prometheus_keeps_its_words(tmp_path: Path) -> None:
    """It answers 200 with an error inside, as some proxies do."""
    item = Item("rules", 1, out=b'{"status":"error","error":"no"}')
    broken = Prometheus(surveyed(tmp_path, "prometheus", [item])).rules.broken

    assert isinstance(broken, Unread)
    assert broken.why == "Prometheus calls it error"


def test_a_page_that_logs_in_is_no_open_door(tmp_path: Path) -> None:
    """A redirect is a refusal; a page that is no JSON is not the service's; a failure tells nothing."""

    def open_to(item: Item) -> object:
        found = Grafana(surveyed(tmp_path / item.id / str(item.exit), "grafana", [item])).answers_anyone
        return found.value if isinstance(found, Read) else found.kind

    item = Item("anonymous", 1)
    assert open_to(replace(item, status="failed", exit=302)) is False
    assert open_to(replace(item, status="denied", exit=403)) is False
    assert open_to(replace(item, exit=200, out=b"[]")) is True
    assert open_to(replace(item, exit=201, out=b"<html>log in</html>")) == "garbled"
    assert open_to(replace(item, status="failed", exit=500)) == "failed"


# --- any bytes -----------------------------------------------------------------------------------

HEALTHY = {
    "prometheus": Prometheus,
    "alertmanager": Alertmanager,
    "grafana": Grafana,
    "exporters": Exporters,
}
UUIDS = [gpu.uuid.value for gpu in NODE.gpus if isinstance(gpu.uuid, Read)]
ANSWERS = monitoring.answers([NODE.name], lambda _: UUIDS)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8)
KEYS = st.sampled_from(
    ["activeTargets", "groups", "result", "panels", "frames", "receivers", "rules", "value"]
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
SHAPED = st.dictionaries(KEYS, JSON | st.lists(JSON)).map(
    lambda data: json.dumps(
        {"status": "success", "data": data, "dashboard": data, "receivers": data, "results": {"A": data}}
    ).encode()
)


def facts(survey: str, found: NodeEvidence) -> Iterator[object]:
    """Give all that is read from a service."""
    if survey == "prometheus":
        one = Prometheus(found)
        yield from (target.up for target in one.targets)
        rules = one.rules
        yield from (rules.faults, rules.memory, rules.down, rules.links, rules.broken)
        yield from (one.retention_days, one.alertmanagers, one.answers_anyone, one.names_pods, one.names_jobs)
        yield from (one.gpus_missing(NODE), one.sample_age_s(NODE), one.has_host(NODE))
        yield from (one.faults_missing(NODE.gpus), one.work_missing(NODE.gpus), one.has_kubernetes_node(NODE))
    elif survey == "alertmanager":
        yield from (Alertmanager(found).receivers, Alertmanager(found).answers_anyone)
    elif survey == "grafana":
        grafana = Grafana(found)
        yield from (grafana.answers, grafana.answers_anyone, grafana.gpu_dashboards, grafana.log_sources)
        yield from (dashboard.filled_percent for dashboard in grafana.dashboards)
    else:
        pages = Exporters(found)
        yield from (pages.answered(NODE), pages.seconds(NODE), pages.gpus_missing(NODE))
        yield from (pages.faults_missing(NODE), pages.work_missing(NODE))


def of(survey: str) -> list[Item]:
    """Give the answers of one service."""
    prefix = f"survey/{survey}/"
    own = [one for one in ANSWERS if one.id.startswith(prefix)]
    return [replace(one, id=one.id.removeprefix(prefix), seq=n) for n, one in enumerate(own, 1)]


@pytest.mark.parametrize("survey", HEALTHY)
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_a_service_answers_no_reader_raises(
    survey: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each reader gives a value or a reason, whatever one of the answers is."""
    items = of(survey)
    at = data.draw(st.integers(0, len(items) - 1))
    items[at] = replace(items[at], out=data.draw(st.binary(max_size=200) | SHAPED))
    found = surveyed(tmp_path_factory.mktemp(survey), survey, items)

    assert all(isinstance(fact, Read | Unread) for fact in facts(survey, found))


@pytest.mark.parametrize("survey", HEALTHY)
@pytest.mark.parametrize("out", [b"", b"{}", b"[]", b"\x00\xff", b"null"])
def test_hollow_answers_tell_nothing_good(survey: str, out: bytes, tmp_path: Path) -> None:
    """What came empty is unread, or is a finding: a service that lists nothing has nothing."""
    items = [replace(one, status="ok", exit=200, out=out) for one in of(survey)]
    for fact in facts(survey, surveyed(tmp_path, survey, items)):
        if isinstance(fact, Read):
            port_answers = survey == "exporters" and fact.value in (True, SECONDS)
            open_door = fact.note.startswith("from where")
            assert port_answers or open_door or fact.value in (False, 0), fact
